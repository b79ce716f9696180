"""The command `deployer quantize`."""
