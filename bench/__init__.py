"""Benchmarks: how fast the product is. `make bench` prints a table and writes build/bench.json."""
