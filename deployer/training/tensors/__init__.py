"""Float tensors of a forward model: the role of each, and the trained ones."""
