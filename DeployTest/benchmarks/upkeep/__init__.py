"""Upkeep of the committed tables of benchmarks: their commits, the work of planning, one command for all."""
