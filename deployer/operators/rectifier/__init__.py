"""Declared activations that bend: a line, and something else on one side."""
