"""A forward model to a training case: autodiff, ONNX graphs, samples and their gold."""
