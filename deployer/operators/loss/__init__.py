"""Losses over class labels and their gradients."""
