"""Cases in the form in which ONNX Runtime writes its training artifacts."""
