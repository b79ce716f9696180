"""Activations by element, and their gradients."""
