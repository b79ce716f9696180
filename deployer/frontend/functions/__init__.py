"""ONNX's functions: operators that ONNX itself defines by a body of other operators."""
