"""What each ATen operator becomes in ONNX, a module per family."""
