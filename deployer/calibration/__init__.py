"""Calibration: the costs of kernels, dispatch and transfers are measured on a target and fitted to the cost model."""
