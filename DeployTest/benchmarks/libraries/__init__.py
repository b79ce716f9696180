"""Packaged libraries on a computer."""
