"""Operators that change state: gradient accumulators and weights."""
