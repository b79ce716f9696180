"""Arithmetic by element, sums along axes."""
