"""Graphs, cases and samples that tests make."""
