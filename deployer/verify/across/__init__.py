"""The judge of what goes from step to step."""
