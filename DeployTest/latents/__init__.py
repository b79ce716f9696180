"""Latent replay: the split in front of trained layers, and runs on what frozen layers compute once."""
