"""Tests of racks: a library on many simulated devices of one machine."""
