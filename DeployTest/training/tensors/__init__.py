"""Tests of what is trained of a forward model."""
