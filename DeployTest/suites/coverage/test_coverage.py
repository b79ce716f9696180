"""A sample of what the suite of PyTorch's own tests scores: entries of operators and modules, all core operators."""

import importlib
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("expecttest", reason="expecttest is not installed, which PyTorch's own samples need")
aten: Any = importlib.import_module("DeployTest.suites.coverage.score")
core: Any = importlib.import_module("DeployTest.suites.coverage.core")

OPERATORS = (
    "amax", "cat", "clamp", "cumsum", "div.floor_rounding", "gather", "index_put", "masked_fill", "sort", "var_mean",
    "nn.functional.adaptive_max_pool2d", "nn.functional.avg_pool2d", "nn.functional.embedding_bag",
    "nn.functional.huber_loss", "nn.functional.interpolate.bilinear", "nn.functional.layer_norm",
    "nn.functional.pad.reflect", "nn.functional.relu6",
)  # fmt: skip
MODULES = ("nn_BatchNorm2d", "nn_GRU", "nn_GroupNorm", "nn_LSTM", "nn_NLLLoss", "nn_Softplus")
IN_C = ("index_put", "nn.functional.avg_pool2d", "sort")
MOST = 6
"""Samples of an entry."""


@pytest.mark.parametrize(
    ("kind", "entry"), [*(("operators", e) for e in OPERATORS), *(("modules", e) for e in MODULES)]
)
def test_samples_give_pytorchs_values_and_gradients(kind: str, entry: str) -> None:
    result = aten.judge_entry((kind, entry), MOST, compiles=entry in IN_C)
    assert result.counts.get(aten.RIGHT), result.counts
    assert set(result.counts) <= {aten.RIGHT, aten.EMPTY, aten.REFUSED}, result.reasons
    assert result.in_c == (aten.RIGHT if entry in IN_C else ""), result.c_reason


def test_refusals_name_the_operator() -> None:
    result = aten.judge_entry(("operators", "linalg.cholesky"), 1)
    assert result.outcome == aten.REFUSED
    assert "aten.linalg_cholesky_ex" in result.reasons[0][1]


def test_no_core_operator_is_missing_without_a_reason() -> None:
    assert [c.name for c in core.core_operators() if c.outcome == core.MISSING] == []


def test_a_wrong_gradient_is_noticed() -> None:
    gold = aten.EagerStep(1.0, {"x": np.array([1.0, 2.0])}, {})
    off = aten.Evaluation(1.0, {"x": np.array([1.0, 2.0 + 1e-8])}, {})
    assert "gradient of 'x'" in aten.difference(off, gold)
    assert aten.difference(aten.Evaluation(1.0, {"x": np.array([1.0, 2.0 + 1e-12])}, {}), gold) == ""
