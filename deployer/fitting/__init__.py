"""Training over epochs: data in batches, stretches of the generated program, checkpoints, metrics, and the way back."""
