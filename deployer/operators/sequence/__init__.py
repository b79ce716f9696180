"""Sequences of several lengths in one batch."""
