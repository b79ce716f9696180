"""Canonical order of sums over a batch: places of samples in tensors, and gradients added up sample by sample."""
