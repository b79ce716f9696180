"""Files from outside: the one way in which they are read, and forms that frameworks write and ONNX does not define."""
