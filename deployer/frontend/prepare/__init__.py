"""Rewrites of raw graphs before they are checked; they need no types."""
