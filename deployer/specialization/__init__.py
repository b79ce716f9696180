"""Functions of kernels for some of their calls: when they are valid, and which one a step calls."""
