"""Tests of quantised models: files of ONNX Runtime's quantiser, beside its runtime and integers in numpy."""
