"""Autodiff, training graphs, and whole models trained."""
