"""ONNX files to the typed program."""
