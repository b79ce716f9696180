"""Operators with graphs inside: what follows from shapes and constants alone says which are computed, and how often."""
