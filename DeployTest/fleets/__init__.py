"""Tests of fleets: the arithmetic by hand, the command without Flower, and with Flower where it is installed."""
