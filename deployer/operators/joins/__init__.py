"""Joining and splitting as training graphs have them."""
