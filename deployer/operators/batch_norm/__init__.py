"""Batch normalization, its gradient, and the steps of both."""
