"""Tests of quantized models: files of ONNX Runtime's quantizer, beside its runtime and integers in numpy."""
