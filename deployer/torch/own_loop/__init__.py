"""A training step for a loop in Python: compiled, loaded, called, evaluated, checked."""
