"""ONNX's training operators, of the domain ai.onnx.preview.training: updates of tensors as ordinary nodes."""
