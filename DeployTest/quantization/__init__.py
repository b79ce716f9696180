"""Quantising models of floats, beside ONNX Runtime."""
