"""Tests of operators, for the deployer's own and for those of other packages."""

from deployer.testing.check import Checked, check_operator

__all__ = ["Checked", "check_operator"]
