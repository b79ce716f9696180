"""Operators over 8-bit integers: what a quantized, frozen part of a model computes."""
