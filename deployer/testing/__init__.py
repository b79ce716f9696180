"""Tests of operators, for the deployer's own and for those of other packages: `check_operator`."""
