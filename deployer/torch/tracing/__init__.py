"""A training step of a module as one graph of ATen operators: PyTorch differentiates, nothing here does."""
