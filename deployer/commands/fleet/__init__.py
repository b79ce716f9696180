"""The command `deployer fleet`."""
