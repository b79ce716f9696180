"""Operators and their kernels, one by one."""
