"""Passes that magnify rounding: a sure classifier's gradient is what is left of 1 - 1; no right run fails by that."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.core.ir import Node
from deployer.pipeline import Case
from deployer.training.train_graph import build_train_graph
from deployer.verify import rounding
from deployer.verify.checks import Checks, Judge
from deployer.verify.reference import Memory
from deployer.verify.rounding import with_rounding
from deployer.verify.same_state import misfit, recorded_passes
from deployer.verify.tolerances import TOLERANCES
from DeployTest.support.building.cases import compile_case, faults
from DeployTest.support.graphs.small_graphs import Model, constant, node, value
from DeployTest.support.graphs.turned import Hook, recorded_run

pytestmark = [pytest.mark.host, pytest.mark.training]

SEEDS = range(12)
PASSES = 6
SURE = 16.0
"""By so much the right class leads: its probability is 1 - 1e-6, which float32 holds to 6e-8."""


def sure_classifier(folder: Path, seed: int) -> Case:
    """Ten classes behind a hidden layer; half of the samples are classified surely, the others wrongly.

    Gradients are accumulated over the run, so that they are compared and not what they do to a weight's last bits.
    """
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((PASSES, 1, 24)).astype(np.float32)
    w1 = (draw.standard_normal((32, 24)) / np.sqrt(24)).astype(np.float32)
    b1 = draw.standard_normal(32).astype(np.float32)
    w2 = (0.3 * draw.standard_normal((10, 32)) / np.sqrt(32)).astype(np.float32)
    bias, right = np.zeros(10, np.float32), int(draw.integers(10))
    bias[right] = SURE
    labels = (right + np.arange(PASSES)[:, None]) % 10
    labels[: PASSES // 2] = right
    nodes = (
        node("Gemm", ("x", "w1", "b1"), ("h",), "first", transB=1),
        node("Relu", ("h",), ("r",), "gate"),
        node("Gemm", ("r", "w2", "b2"), ("y",), "last", transB=1),
    )
    weights = [constant(n, v) for n, v in (("w1", w1), ("b1", b1), ("w2", w2), ("b2", bias))]
    model = Model(nodes, (value("x", (1, 24)),), (value("y", (1, 10)),), weights)
    path = model.save(folder / "sure.onnx")
    data = {"x": x, "labels": labels}
    return pipeline.load_training(
        build_train_graph(
            path, "cross_entropy", "sgd", 1e-3, "", folder, data=data, n_accum=PASSES, n_batches=PASSES
        ).train
    )


def judge_of(case: Case, fault: Hook = lambda *_: None) -> Judge:
    """The judge of numpy's float32 run."""
    assert case.dataset is not None
    passes = recorded_passes(case.program, case.dataset, recorded_run(case, after=fault), PASSES)
    return Judge(case.program, case.dataset, TOLERANCES.loss, passes)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """A case per seed."""
    return [sure_classifier(tmp_path_factory.mktemp("sure"), seed) for seed in SEEDS]


@pytest.mark.slow
def test_right_runs_pass(cases: list[Case], tmp_path: Path) -> None:
    """Numpy's and the program's, though some of their passes are beyond the bounds that other passes have."""
    magnified = 0
    for case in cases:
        checks = judge_of(case).checks()
        assert not checks.faults
        assert not checks.explained
        magnified += sum(row.magnifies for row in checks.rows)
    assert magnified >= len(cases) // 2
    for case, seed in zip(cases, SEEDS, strict=True):
        if seed % 3 == 0:
            built = compile_case(case, tmp_path / str(seed), "auto", 16000)
            assert not faults(built, built.run())


def wrong(kind: str, share: float, op: str = "ReluGrad") -> Hook:
    """A kernel of the backward pass that is wrong: its result has another sign, is off by a share, or has a hole."""

    def fault(index: int, node: Node, memory: Memory) -> None:
        if node.op != op:
            return
        values = memory[node.outputs[0]].copy()
        flat = values.reshape(-1)
        if kind == "sign":
            flat *= -1
        elif kind == "scale":
            flat *= np.float32(1 + share)
        else:
            flat[: int(share * flat.size)] = 0
        memory[node.outputs[0]] = values

    return fault


@pytest.mark.parametrize(("kind", "share"), [("sign", 0.0), ("scale", 0.05), ("hole", 0.25)])
def test_wrong_kernels_fail(kind: str, share: float, cases: list[Case]) -> None:
    """The rounding bound of a sure pass hides no fault of the others."""
    for case in cases:
        checks: Checks = judge_of(case, wrong(kind, share)).checks()
        assert checks.faults
        assert not checks.explained


def test_a_sure_pass_allows_no_more_than_rounding(cases: list[Case]) -> None:
    """The bound of a pass that magnifies rounding still sees a wrong sign of the loss's gradient, if it has bits."""
    met = 0
    flip = wrong("sign", 0.0, "SoftmaxCrossEntropyLossGrad")
    for case in cases:
        for right, one in zip(judge_of(case).passes, judge_of(case, flip).passes, strict=True):
            changes = any(not np.array_equal(right.after[n], one.after[n]) for n in right.after)
            if changes and misfit(right, right.reference(), TOLERANCES.loss).faults:
                own = one.reference()
                assert misfit(with_rounding(one, own), own, TOLERANCES.loss).faults
                met += 1
    assert met >= len(cases) // 2


def test_rounding_of_the_loss_is_nothing_to_explain(cases: list[Case]) -> None:
    """Rounding of the loss counts against the tolerance, but no decision has to explain it."""
    for case in cases:
        one = judge_of(case).passes[-1]
        reference = one.reference()
        allowed = with_rounding(one, reference)
        assert allowed.loss_rounding > 0
        exact, within, beyond = (
            misfit(replace(allowed, loss=reference.loss + share * allowed.loss_rounding), reference, TOLERANCES.loss)
            for share in (0.0, 0.9, 2.0)
        )
        assert within.loss_difference > exact.loss_difference
        assert within.distance == exact.distance
        assert beyond.distance > exact.distance


def test_no_decision_turns_in_a_probe(cases: list[Case]) -> None:
    """A unit of Relu next to its border does not widen the bounds, whichever side the noise would put it on."""
    for case in cases:
        one = judge_of(case).passes[-1]
        reference = one.reference()
        plain = with_rounding(one, reference).rounding
        draw = np.random.default_rng(0)
        bias = one.before["b1"].copy()
        seen: list[np.ndarray] = []

        def look(node: Node, memory: Memory, seen: list[np.ndarray] = seen) -> None:
            if node.op == "Relu":
                seen.append(memory[node.inputs[0]].copy())

        one.reference(look)
        unit = int(draw.integers(bias.size))
        bias[unit] -= np.float32(seen[0][0, unit])
        near = type(one)(**{**vars(one), "before": {**one.before, "b1": bias}})
        moved = with_rounding(near, near.reference()).rounding
        assert moved["w1"].norm <= 4 * plain["w1"].norm


@pytest.mark.parametrize("shape", [(8,), (1,)], ids=["as many", "broadcast"])
def test_two_operands_decide(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Each operand of Max has borders of its own, whose elements are its own."""
    draw = np.random.default_rng(5)
    nodes = (node("Gemm", ("x", "w"), ("h",)), node("Max", ("h", "m"), ("y",)))
    w, m = (draw.standard_normal(s).astype(np.float32) for s in ((4, 8), shape))
    model = Model(nodes, (value("x", (2, 4)),), (value("y", (2, 8)),), [constant("w", w), constant("m", m)])
    path = model.save(tmp_path / "max.onnx")
    labels = draw.integers(8, size=(PASSES, 2))
    data = {"x": draw.standard_normal((PASSES, 2, 4)).astype(np.float32), "labels": labels}
    problem = build_train_graph(path, "cross_entropy", "sgd", 1e-3, "^[wm]$", tmp_path, data=data, n_batches=PASSES)
    for one in judge_of(pipeline.load_training(problem.train)).passes:
        rounding = with_rounding(one, one.reference()).rounding
        assert 0 < rounding["m"].norm < TOLERANCES.loss


@pytest.mark.parametrize("count", [3, 40, rounding.MOST_SORTED // 2, rounding.MOST_SORTED])
@pytest.mark.parametrize("common", [0.0, 0.3, 1.0])
def test_exact_results(count: int, common: float) -> None:
    """Results that are one of the operands' elements are found: none, some and all, NaN never, few and many."""
    draw = np.random.default_rng(count)
    known = draw.standard_normal(count).astype(np.float32)
    known[-1] = np.nan
    results = draw.standard_normal(count).astype(np.float32)
    taken = draw.random(count) < common
    results[taken] = -draw.permutation(known)[taken]
    due = np.isin(np.abs(results), np.abs(known))
    assert due.mean() >= common / 2
    found = rounding._members(np.abs(results), np.abs(known))
    assert found.tolist() == due.tolist()
