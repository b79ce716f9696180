"""Whole models and their parts, as people write them."""
