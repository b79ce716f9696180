"""ONNX files to one typed program: read, sorted, resolved and checked."""
