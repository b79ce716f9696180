"""Small language models: their architectures, forward graphs, weights, training and evaluation."""
