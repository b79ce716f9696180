"""Kernels and operators run alone: their values, gradients, accuracy, and the contract of all operators."""
