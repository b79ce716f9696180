"""Language models: architectures, weights, texts, training and evaluation."""
