"""Benchmarks on a real API server: how fast pods get nodes, by Mooring and by others."""
