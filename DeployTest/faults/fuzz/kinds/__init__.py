"""What is drawn and judged: one kind of input per module, or a few that share most."""
