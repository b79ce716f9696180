"""Suites of others as a score."""
