"""Edits of a model, each a small random change: the register, and those of attributes, graphs and tensors."""
