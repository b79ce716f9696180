"""Tests of `deployer sweep`."""
