"""Operators: a file holds a family with its gradients; found by package scan, so that adding one is adding its file."""
