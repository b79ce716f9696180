"""Kernels, networks and predictions on the cluster: sizes of code, drawn networks, errors of the cost model."""
