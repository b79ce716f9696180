"""Softmax, its logarithm and their gradients."""
