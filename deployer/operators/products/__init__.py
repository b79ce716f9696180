"""Operators that add up products: convolution, Gemm and MatMul, with their gradients."""
