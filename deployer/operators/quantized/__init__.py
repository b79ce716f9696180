"""Operators over 8-bit integers: what a quantised, frozen part of a model computes."""
