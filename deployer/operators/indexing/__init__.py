"""Operators that select by index: gather, scatter, sequences."""
