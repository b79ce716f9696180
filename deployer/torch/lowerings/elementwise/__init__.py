"""Elementwise operators, and what fills tensors with numbers."""
