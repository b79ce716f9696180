"""Tests of quantised models: what ONNX Runtime's quantiser writes, against its runtime and against integers in numpy."""
