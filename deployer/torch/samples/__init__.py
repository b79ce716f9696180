"""Samples of PyTorch as arrays and as batches that are read anew in every epoch."""
