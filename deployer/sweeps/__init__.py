"""Sweeps: many runs of one command with other options, and a table of what came of each."""
