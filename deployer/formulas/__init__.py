"""Elementwise functions as formulas: values, C, work and derivatives follow from one declaration."""
