"""Quantized models: what ONNX says in several forms becomes the operators of 8 bits that the compiler computes."""
