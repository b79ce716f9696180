"""Operators over integers that are not constant; ONNX has them under the names of those over floats."""
