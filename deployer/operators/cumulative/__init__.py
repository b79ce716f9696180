"""Cumulative sums and products: of all elements so far along an axis."""
