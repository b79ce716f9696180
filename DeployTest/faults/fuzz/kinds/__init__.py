"""Kinds of fuzzing inputs, drawn and judged: one per module, or a few that share most."""
