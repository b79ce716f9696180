"""Transfers that begin in one step and end in another: which there are, and a graph's part in them."""
