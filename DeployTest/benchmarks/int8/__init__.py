"""Benchmarks of the kernels of 8-bit numbers."""
