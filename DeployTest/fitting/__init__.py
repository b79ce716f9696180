"""Training over epochs: order, files, metrics, checkpoints, and whole runs."""
