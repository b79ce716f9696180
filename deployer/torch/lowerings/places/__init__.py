"""Operators that move, choose, order or reduce elements by their places."""
