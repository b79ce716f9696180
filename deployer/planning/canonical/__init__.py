"""Canonical order of sums over a batch: where samples lie in each tensor, and gradients that are added sample by sample."""
