"""Coverage of PyTorch, scored by PyTorch's own samples of its operators and modules."""
