"""Which bufferings a step may choose from: one strategy per module."""
