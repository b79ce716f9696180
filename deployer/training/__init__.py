"""Forward model to training case: autodiff, ONNX graphs, samples and their reference results."""
