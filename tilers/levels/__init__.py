"""Tiles and homes of one memory level: candidates of each step, and the CP-SAT model over them."""
