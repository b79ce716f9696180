"""Updates and learning-rate schedules in PyTorch's words, and from its own objects."""
