"""Lowerings of elementwise operators, and of those that fill tensors with numbers."""
