"""Operators over the bits of integers."""
