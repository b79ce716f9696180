"""What tests share: cases, graphs, kernels run alone, builds, tolerances."""
