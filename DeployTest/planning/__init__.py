"""Schedule, tiles and addresses."""
