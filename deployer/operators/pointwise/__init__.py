"""Declared functions of one number."""
