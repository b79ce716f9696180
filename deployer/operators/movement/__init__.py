"""Operators that move elements: layout, slices, padding, casts, resampling, views."""
