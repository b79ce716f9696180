"""Batch normalization, its gradient, and the steps both are made of."""
