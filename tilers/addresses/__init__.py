"""Addresses: buffers with lifetimes packed into a level."""
