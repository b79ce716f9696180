"""Costs of kernels, dispatch and transfers, measured on a target and fitted."""
