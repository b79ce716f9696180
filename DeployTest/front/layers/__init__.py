"""Layers that the front end keeps whole, trained beside PyTorch."""
