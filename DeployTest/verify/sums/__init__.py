"""Bounds of rounding: of sums, of running means, of small errors."""
