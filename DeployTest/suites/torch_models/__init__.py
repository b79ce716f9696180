"""Models of further kinds, each trained by us in generated C and by PyTorch."""
