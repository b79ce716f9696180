"""Reductions that are made of others."""
