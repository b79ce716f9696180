"""A package as somebody else would write it: an activation with its gradient, and an optimizer with state.

Tests copy it under another name, beside a list of entry points.
"""

KERNELS = "kernels"
