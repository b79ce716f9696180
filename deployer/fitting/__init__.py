"""Training over epochs: batches of data, segments of the generated program, checkpoints, metrics, and export."""
