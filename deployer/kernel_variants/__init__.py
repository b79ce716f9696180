"""Kernel variants: functions for some calls of a kernel, their conditions, and the one that a step calls."""
