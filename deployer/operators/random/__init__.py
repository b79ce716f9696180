"""Operators that draw random numbers from a counter-based generator, each by a stream of its own."""
