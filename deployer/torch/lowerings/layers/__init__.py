"""Operators with kernels and gradients of their own: products, norms, pools, losses, recurrent layers."""
