"""Recurrent layers, their cells and gradients."""
