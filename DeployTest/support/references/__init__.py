"""Others who compute the same: ONNX Runtime, PyTorch, and formulas in float64."""
