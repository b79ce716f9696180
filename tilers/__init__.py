"""Tiling and placement: candidates, the CP-SAT model per memory level, strategies, and the oracles of the tests."""
