"""Tiling and placement: candidates, the CP-SAT model per memory level, strategies and the oracles they are tested against."""
