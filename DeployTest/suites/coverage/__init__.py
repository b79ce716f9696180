"""What of PyTorch can be trained, by PyTorch's own samples of its operators and modules."""
