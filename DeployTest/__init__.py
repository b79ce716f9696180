"""Tests, by what is tested; `registry.toml` lists the cases."""
