"""Addresses: the packing of buffers with lifetimes into a level."""
