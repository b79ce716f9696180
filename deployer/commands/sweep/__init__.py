"""The command `deployer sweep`."""
