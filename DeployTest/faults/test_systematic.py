"""Small systematic errors: they add up over elements and passes, rounding does not."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from deployer.core.ir import Node
from deployer.core.operator import Array, operator_of, registry
from deployer.core.traits.training import Optimizer
from deployer.pipeline import Case
from deployer.verify.checks import Checks, Judge
from deployer.verify.reference import Memory
from deployer.verify.same_state import recorded_passes
from deployer.verify.tolerances import TOLERANCES
from DeployTest.faults.scaled.localised import NOTHING, Planned, judged
from DeployTest.faults.scaled.nets import Net, nets
from DeployTest.faults.scaled.search import is_found, places
from DeployTest.support.graphs.turned import Hook, recorded_run

pytestmark = [pytest.mark.host, pytest.mark.training]
Compute = Callable[[Node, list[Array | None]], tuple[Array, ...]]
OPTIMIZERS = sorted({op.name for op in registry().values() if op.role(Optimizer)})


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Net]:
    """Nets by the name of what they train with."""
    folder = tmp_path_factory.mktemp("nets")
    return {net.of: net for net in nets(folder, ("optimizer", "statistic"), (*OPTIMIZERS, "mean and variance"))}


def checks_of(case: Case, before: Hook = lambda *_: None, after: Hook = lambda *_: None) -> Checks:
    """The checks of a float32 run in numpy in which hooks change results."""
    dataset = case.dataset
    assert dataset is not None
    recorded = recorded_run(case, before, after)
    passes = recorded_passes(case.program, dataset, recorded, dataset.n_batches)
    return Judge(case.program, dataset, TOLERANCES.loss, passes).checks()


def computed_by(op: str, compute: Compute) -> tuple[Hook, Hook]:
    """Hooks that give nodes of an operator other results, of their operands in float32."""
    kept: list[list[Array | None]] = [[]]

    def before(index: int, node: Node, memory: Memory) -> None:
        if node.op == op:
            kept[0] = [None if x is None else x.copy() for x in memory.operands(node)]

    def after(index: int, node: Node, memory: Memory) -> None:
        if node.op == op:
            for name, value in zip(node.outputs, compute(node, kept[0]), strict=False):
                memory[name] = value

    return before, after


def with_epsilon(node: Node, inputs: list[Array | None]) -> tuple[Array, ...]:
    """Adam's step with thirty times its epsilon."""
    epsilon = 30 * node.attr_float("eps", 1e-8)
    return operator_of(node).reference(replace(node, attrs={**node.attrs, "eps": epsilon}), inputs)


def with_count(node: Node, inputs: list[Array | None]) -> tuple[Array, ...]:
    """The step with the number of the next update."""
    count = inputs[4]
    assert count is not None
    return operator_of(node).reference(node, [*inputs[:4], count + 1, *inputs[5:]])


def scaled(op: str, factor: float) -> tuple[str, Compute]:
    """Results, or what an update makes of the first operand, by a factor."""

    def compute(node: Node, inputs: list[Array | None]) -> tuple[Array, ...]:
        first, *rest = operator_of(node).reference(node, inputs)
        own = operator_of(node).inplace.get(0)
        base = inputs[own] if own is not None and own < len(inputs) else None
        was = np.zeros((), np.float32) if base is None else base
        return (np.asarray(was + (first - was) * np.float32(factor)), *rest)

    return op, compute


FAULTS: dict[str, tuple[str, tuple[str, Compute]]] = {
    "the loss's gradient is 0.9981 of what is due, under SGD": ("SGD", scaled("SoftmaxCrossEntropyLossGrad", 0.9981)),
    "the same under Adam, which hides it": ("Adam", scaled("SoftmaxCrossEntropyLossGrad", 0.9981)),
    "the same a ten-thousandth off": ("AdamW", scaled("SoftmaxCrossEntropyLossGrad", 1.0001)),
    "a step of SGD is 1.0019 of what is due": ("SGD", scaled("SGD", 1.0019)),
    "a step of SGD is a ten-thousandth off": ("SGD", scaled("SGD", 1.0001)),
    "Adam's epsilon is thirty times as large": ("Adam", ("Adam", with_epsilon)),
    "AdamW counts from two on": ("AdamW", ("AdamW", with_count)),
}


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_right_run_is_far_within(optimizer: str, found: dict[str, Net]) -> None:
    """Float32 in numpy is not beyond half of any bound."""
    checks = checks_of(found[optimizer].case)
    assert not checks.faults
    assert checks.worst.severity < 0.5


@pytest.mark.parametrize("fault", FAULTS)
def test_a_small_systematic_error_is_found(fault: str, found: dict[str, Net]) -> None:
    """It ended as drift before, with weights beyond the tolerance."""
    optimizer, (op, compute) = FAULTS[fault]
    case = found[optimizer].case
    assert any(node.op == op for graph in case.program.graphs for node in graph.nodes), op
    assert checks_of(case, *computed_by(op, compute)).faults


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS[::3])
def test_each_place_a_ten_thousandth_off(optimizer: str, found: dict[str, Net]) -> None:
    """Whatever result of an update is off, of a weight or of a state."""
    case = found[optimizer].case
    rows = [(node, at) for node, at in places(case) if node in case.program.graphs[-1].nodes]
    missed = [(node.name, at) for node, at in rows if not is_found(case, node, at, 1e-4)]
    assert not missed


def test_running_statistics(found: dict[str, Net]) -> None:
    """A running mean or variance that is a thousandth off what it is renewed by, or a ten-thousandth."""
    case = found["mean and variance"].case
    rows = [(node, at) for node, at in places(case) if node.op == "RunningStatistics"]
    assert rows
    for node, at in rows:
        assert is_found(case, node, at, 1e-3)
        assert is_found(case, node, at, 1e-4)


def test_an_update_is_measured_by_what_it_changes(found: dict[str, Net]) -> None:
    """A step of AdamW that is a thousandth off is named, though its weight is off by far less."""
    planned = Planned.of(found["AdamW"])
    step, node, at = next(row for row in planned.places() if row[1].op == "AdamW" and row[2] == 0)
    result = judged(planned, step, node, at, "a thousandth more", 1)
    assert result
    assert result.right, result


def test_a_right_run_names_no_step(found: dict[str, Net]) -> None:
    """Without a fault no step is named, at bounds that a right run is within."""
    planned = Planned.of(found["Adam"])
    step, node, at = planned.places()[0]
    result = judged(planned, step, node, at, NOTHING, 1)
    assert result
    assert not result.failed
    assert result.named is None
