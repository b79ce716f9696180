"""Sums and products of all elements so far along an axis."""
