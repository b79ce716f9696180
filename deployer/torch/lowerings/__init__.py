"""Lowerings of ATen operators to ONNX, a module per family."""
