"""Input files: the one way in which they are read, and operators of frameworks that ONNX does not define."""
