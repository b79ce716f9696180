"""Targets: hardware as data (TOML), and the C that is theirs."""
