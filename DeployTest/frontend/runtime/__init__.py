"""Training artifacts of ONNX Runtime: the case that is read from their folder, and their graphs."""
