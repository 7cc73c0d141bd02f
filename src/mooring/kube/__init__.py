"""Mooring on Kubernetes: watches in, bindings and evictions out."""
