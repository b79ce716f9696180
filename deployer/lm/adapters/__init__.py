"""Adapters of low rank: what they add to a model, and their files."""
