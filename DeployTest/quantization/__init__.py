"""Quantizing models of floats, beside ONNX Runtime."""
