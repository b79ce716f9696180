"""Strategies for the bufferings that a step may choose from, one per module."""
