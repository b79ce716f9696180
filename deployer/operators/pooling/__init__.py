"""Pooling and its gradients."""
