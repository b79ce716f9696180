"""Calls of the functions for PyTorch: names, forms, weights of samples."""
