"""Fusion, schedule, tiles and addresses."""
