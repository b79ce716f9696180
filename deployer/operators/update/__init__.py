"""Optimizers, gradient accumulation and clipping."""
