"""Forms of files that frameworks write and ONNX does not define."""
