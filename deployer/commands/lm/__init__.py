"""The actions of `deployer lm`."""
