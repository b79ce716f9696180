"""Optimizers with schedules beside PyTorch, update by update; `python -m DeployTest.benchmarks.schedules` has all."""

import importlib
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.mark.parametrize(
    ("form", "lr_schedules"),
    [
        ("adamw_settings", ["one-cycle", "warm-up-step"]),
        pytest.param("sgd_nesterov", ["cosine"], marks=pytest.mark.slow),
    ],
)
@pytest.mark.torch
def test_updates_are_pytorchs(form: str, lr_schedules: list[str], tmp_path: Path) -> None:
    """From each of its own states the program makes PyTorch's update, with the rate of PyTorch's scheduler."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    schedules: Any = importlib.import_module("DeployTest.benchmarks.schedules")
    for result in schedules.results([form], lr_schedules, [0], 25, tmp_path):
        assert not result.beyond, result.said
