"""Generators of training cases, one file per model; `python -m DeployTest.models.<name> OUT` writes one."""
