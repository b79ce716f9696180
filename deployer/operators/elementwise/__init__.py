"""Elementwise operators: arithmetic, activations, comparisons, integers, random numbers."""
