"""Normalization by groups of channels, by rows without a mean, and by neighbouring channels."""
