"""Shared code of the tests: cases, graphs, kernels run alone, builds, tolerances."""
