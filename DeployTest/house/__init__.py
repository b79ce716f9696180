"""What the repository promises of its own shape."""
