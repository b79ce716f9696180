"""Rewrites of the checked program that leave every bit as it was, one per module: `apply(program, options)`."""
