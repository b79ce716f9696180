"""Faults of the machine: calls of the operating system that fail, and memory that ends, while a command runs."""
