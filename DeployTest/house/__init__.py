"""Rules of the repository's own shape."""
