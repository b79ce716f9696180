"""Elementwise functions as formulas: one declaration, of which values, C, work and derivatives are read."""
