"""Declared activations that are smooth."""
