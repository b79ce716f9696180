"""Expressions: one tree with one table of functions for formulas, index arithmetic and conditions."""
