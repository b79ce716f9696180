"""Faults planted on purpose: malformed inputs, broken C, a broken compiler, and who notices."""
