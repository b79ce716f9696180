"""Traits: optional parts of an operator's interface, each one concept."""
