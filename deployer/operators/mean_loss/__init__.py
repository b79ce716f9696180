"""Losses that are a sum over all elements divided by a count, and their gradients."""
