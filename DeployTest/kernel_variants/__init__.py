"""Functions of kernels for some of their calls."""
