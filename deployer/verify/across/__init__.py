"""The judge of what goes from step to step, or is the same for all calls of a step."""
