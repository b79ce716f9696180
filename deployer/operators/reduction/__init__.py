"""Reductions, cumulative sums and orders."""
