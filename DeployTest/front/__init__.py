"""The front for PyTorch."""
