"""Base classes and helpers that families of operators share."""
