"""Right runs over raw data are passed: a few of those that `DeployTest.suites.torch_models.right_runs` counts."""

import importlib

import pytest

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch, pytest.mark.slow]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def test_right_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten of each of two nets, over data whose offsets are up to ten thousand times their deviation."""
    suite = importlib.import_module("DeployTest.suites.torch_models.right_runs")
    assert suite.main(["--runs", str(2 * suite.EACH), "--seed", "2"]) == 0
    assert f"| all | {2 * suite.EACH} | " in capsys.readouterr().out
