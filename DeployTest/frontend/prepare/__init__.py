"""Preparing read graphs: element types, open axes, and what is refused."""
