"""The contract of operators holds for all of them, and what breaks it is found."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deployer.operators
from deployer.core.ir import Node
from deployer.core.operator import Array, registry
from deployer.core.samples import Sample
from deployer.core.target import TARGETS_DIR
from deployer.kernel_variants.conditions import FOLDER_LIST, listed_kernels
from deployer.operators.base.elementwise_dsl import printed_kernels
from deployer.operators.base.views import Folded
from deployer.operators.control import controls
from deployer.testing.contract import judged, operators
from deployer.testing.runs import KernelRuns
from DeployTest import check_operator as command
from DeployTest.support.tolerances import class_of, sources_of, table

FAMILIES = Path(deployer.operators.__file__ or "").parent
pytestmark = [pytest.mark.host, pytest.mark.kernels]


@pytest.mark.matrix(keep=120)
@pytest.mark.parametrize("name", operators())
def test_contract(name: str) -> None:
    """Accuracy and invariance of the kernels of an operator and of its gradient."""
    findings = judged(name)
    assert not findings.faults, "\n".join(findings.faults)


@pytest.mark.slow
def test_every_kernel_ran() -> None:
    """The samples of all operators run every portable kernel there is, from its own file or its formula."""
    ran = {file for name in operators() for file in sources_of(registry()[name])}
    folder = TARGETS_DIR / "common" / "kernels"
    written = {str(p.relative_to(TARGETS_DIR)) for p in folder.glob("*.c")}
    written |= {f"common/kernels/{FOLDER_LIST}: {symbol}" for symbol in listed_kernels(folder)}
    assert ran == written | {f"{symbol}.c" for symbol in printed_kernels()}


def test_families_of_classes_exist() -> None:
    """A family stands in one class at most, and each that is named is there; any other is elementwise."""
    modules = {type(operator).__module__ for operator in {**registry(), **controls()}.values()}
    families = {m.rpartition(".")[2] for m in modules if m.startswith("deployer.")}
    named = [family for row in table()["classes"].values() for family in row.get("families", ())]
    assert len(named) == len(set(named))
    assert set(named) <= families
    assert {class_of(registry()[name]) for name in operators()} == set(table()["classes"])


def test_classes() -> None:
    """A reduction in a family of elementwise operators, an elementwise step in one of losses, and plain members."""
    expected = {"Exp": "elementwise", "ReduceSum": "reduction", "MSELossGrad": "elementwise", "MSELoss": "probability"}
    assert {name: class_of(registry()[name]) for name in expected} == expected


def test_invariance_is_exact() -> None:
    """There is no tolerance between tilings."""
    assert table()["invariance"] == {"forward": 0.0, "gradient": 0.0}


def _off(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Kernels whose results are changed by a function of how they run."""
    plain = KernelRuns.__call__

    def run(self: KernelRuns, node: Node, inputs: Sequence[Array | None]) -> Sequence[Array]:
        return [change(self, node, np.array(x)) for x in plain(self, node, inputs)]

    monkeypatch.setattr(KernelRuns, "__call__", run)


def _one_ulp(x: Array) -> Array:
    return np.nextafter(x, np.float32(np.inf)) if x.dtype.kind == "f" else x


def test_a_wrong_bit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single operation has one result."""
    _off(monkeypatch, lambda runs, node, x: _one_ulp(x))
    assert any("forward accuracy" in fault for fault in judged("Add").faults)


def test_a_bit_that_depends_on_tiles_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is far within the bound of accuracy, and in a gradient alone."""
    _off(monkeypatch, lambda runs, node, x: _one_ulp(x) if runs.resident and node.op == "SoftmaxGrad" else x)
    faults = judged("Softmax").faults
    assert faults
    assert all("gradient invariance" in fault for fault in faults)


def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of the rule that is off by a thousandth, in all tilings alike."""
    _off(monkeypatch, lambda runs, node, x: x * np.float32(1.001) if node.op == "GeluGrad" else x)
    faults = judged("Gelu").faults
    assert faults
    assert all("gradient accuracy" in fault for fault in faults)


def test_nan_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one element of one result."""

    def change(runs: KernelRuns, node: Node, x: Array) -> Array:
        x.reshape(-1)[-1:] = np.nan
        return x

    _off(monkeypatch, change)
    assert any(fault.endswith(": NaN") for fault in judged("Exp").faults)


@pytest.mark.parametrize(
    ("name", "samples"), [("Relu", []), ("Identity", [Sample("empty", (np.empty((0, 3), "f4"),))])]
)
def test_an_empty_comparison_is_a_fault(name: str, samples: list[Sample], monkeypatch: pytest.MonkeyPatch) -> None:
    """No samples, and a sample without a number."""
    monkeypatch.setattr(type(registry()[name]), "samples", lambda self: iter(samples))
    assert judged(name).faults


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The judgments with the file that ran; an unknown or folded name has exit code 2."""
    assert command.main(["Relu"]) == 0
    out = capsys.readouterr().out
    assert "common/kernels/relu_f32.c" in out
    for judgment in ("forward accuracy", "forward invariance", "gradient accuracy", "gradient invariance"):
        assert judgment in out
    folded = next(op.name for op in registry().values() if isinstance(op, Folded))
    for name in ("Nothing", folded):
        assert command.main([name]) == 2
        assert f"{name!r}" in capsys.readouterr().err
