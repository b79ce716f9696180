"""The verdict: right runs pass it, runs with one fault in optimizer or accumulation fail it, however little they train.

Faults are planted in a float32 run of the program's own meaning in numpy, so nothing is compiled for them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer import pipeline
from deployer.core.ir import Graph, Node, Program
from deployer.core.plan import Options, Plan, RunOptions
from deployer.frontend.dataset import Dataset
from deployer.pipeline import Case
from deployer.running import report
from deployer.running.run import Outcome
from deployer.running.terminal import Terminal
from deployer.verify import verdict
from deployer.verify.reference import Memory, run_graph
from deployer.verify.tolerances import TOLERANCES
from deployer.verify.verdict import Expected
from DeployTest.models import transformer
from DeployTest.support.building.cases import SHARED, case_dir, compile_case, faults, needs_shared
from DeployTest.support.graphs.built_cases import built, generate, random
from DeployTest.support.graphs.small_graphs import Model, constant, node, value
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]
Rows = tuple[tuple[str, dict[str, Any]], ...]
TRAINED: Rows = (
    ("shared/Autoencoder", {}),
    ("shared/SimpleMLP", {}),
    ("autoencoder", {"n_steps": 8, "n_accum": 4}),
    ("simple_mlp", {"learning_rate": 1e-4}),
    ("transformer", {}),
)
TRAINED_LONG: Rows = (
    ("shared/Autoencoder", {"n_steps": 7, "n_accum": 3}),
    ("shared/Autoencoder", {"learning_rate": 0.5}),
    ("shared/DSCNN", {"n_steps": 4, "n_accum": 2}),
    ("shared/CCT_LoRA", {}),
    ("transformer", {"n_steps": 5, "n_accum": 2, "learning_rate": 1e-3}),
)


def named(rows: Rows) -> list[str]:
    """Readable ids."""
    return [" ".join([name, *(f"{k}={v}" for k, v in options.items())]) for name, options in rows]


@cache
def opened(name: str, root: Path, options: tuple[tuple[str, Any], ...]) -> tuple[Case, Expected]:
    """A case and what it expects, accumulators included."""
    if name.startswith("shared/"):
        needs_shared(SHARED)
    folder = transformer.generate(root / "t") if name == "transformer" else case_dir(name, root)
    case = pipeline.load_training(folder, **dict(options))
    return case, pipeline.expectation(case, planned(case.program, case.dataset))


def planned(program: Program, dataset: Dataset | None) -> Plan:
    """A plan of the case in one tile per step, which no compiler sees."""
    options = Options("host", "single", {"L1": 240000}, outermost="L3")
    each, passes = (dataset.n_accum, dataset.n_batches) if dataset else (1, 1)
    running = replace(pipeline.ONCE, passes=passes)
    return pipeline.plan_program(program, replace(options, accumulate=each), running=running)[1]


MARKED = [*TRAINED, *(pytest.param(row, marks=pytest.mark.slow) for row in TRAINED_LONG)]


@pytest.fixture(scope="module", params=MARKED, ids=named((*TRAINED, *TRAINED_LONG)))
def case(request: pytest.FixtureRequest, models_root: Path) -> tuple[Case, Expected]:
    """A case that trains."""
    name, options = request.param
    return opened(name, models_root, tuple(options.items()))


Nodes = Callable[[Node], tuple[Node, ...]]


@dataclass(frozen=True)
class Fault:
    """Deviations of a run: nodes of the optimizer, an update left out, no resets, a pass without gradient."""

    nodes: Nodes = field(default=lambda node: (node,))
    skipped: int | None = None
    reset: bool = True
    missing: int | None = None


def trained(case: Case, fault: Fault) -> Outcome:
    """The outcome of a float32 run in numpy with a fault."""
    program, dataset = case.program, case.dataset
    assert dataset is not None
    memory = Memory(program, np.float32)
    memory.update(dataset.weights)
    memory.update({name: np.zeros(program.tensors[name].type.shape) for name in program.accumulators})
    optimizer = Graph("optimizer", tuple(n for node in program.graphs[1].nodes for n in fault.nodes(node)))
    losses = []
    for index in range(dataset.n_batches):
        memory.update(zip(program.data, dataset.sample(index), strict=True))
        fresh = index % dataset.n_accum == 0 and fault.reset
        memory[program.flag] = np.full(program.tensors[program.flag].type.shape, fresh)
        before = {n: memory[n].copy() for n in program.accumulators}
        run_graph(program.graphs[0], memory)
        losses.append(float(memory[program.outputs[0]].reshape(())))
        if index == fault.missing:
            memory.update({n: np.zeros_like(a) if fresh else a for n, a in before.items()})
        if (index + 1) % dataset.n_accum == 0 and index // dataset.n_accum != fault.skipped:
            run_graph(optimizer, memory)
    return outcome_of(program, losses, memory)


def outcome_of(program: Program, losses: list[float], memory: Memory) -> Outcome:
    """Dump that a program would have made."""
    arrays = {n: memory[n] for n in program.weights}
    return Outcome("", tuple(losses), arrays, {}, 0, {n: memory[n] for n in program.accumulators})


def judged(outcome: Outcome, expected: Expected) -> tuple[str, ...]:
    """The faults of an outcome."""
    return report.make_report(_NO_PLAN, outcome, expected, TOLERANCES.weight).faults


_NO_PLAN = Plan(Options(), "", (), 0, (), (), (), (), (), (), {}, RunOptions(1, TOLERANCES.loss, 0))


def seen(outcome: Outcome, expected: Expected) -> bool:
    """Whether the verdict on movements alone, without the absolute differences, finds something."""
    rows = (
        *verdict.movements(outcome.arrays, expected),
        *verdict.accumulator_movements(outcome.accumulators, expected),
    )
    return not all(row.passed for row in rows)


def with_attrs(node: Node, factor: float) -> Node:
    """An SGD node with its rate multiplied."""
    return replace(node, attrs={**node.attrs, "lr": node.attr_float("lr", 0.01) * factor})


FAULTS = {
    "wrong sign": Fault(nodes=lambda n: (with_attrs(n, -1.0),)),
    "rate 5 % too large": Fault(nodes=lambda n: (with_attrs(n, 1.05),)),
    "rate 5 % too small": Fault(nodes=lambda n: (with_attrs(n, 0.95),)),
    "weight and gradient swapped": Fault(nodes=lambda n: (replace(n, inputs=n.inputs[::-1]),)),
    "first update left out": Fault(skipped=0),
    "no reset": Fault(reset=False),
    "gradient of the first pass missing": Fault(missing=0),
    "every step done twice": Fault(nodes=lambda n: (n, n)),
}


def test_right_run_passes(case: tuple[Case, Expected]) -> None:
    """numpy's float32 run of the same meaning, which rounds otherwise."""
    right = trained(case[0], Fault())
    assert not judged(right, case[1])


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_seen(fault: str, case: tuple[Case, Expected]) -> None:
    """By movements or accumulators, whatever the absolute difference says."""
    if fault == "no reset" and case[0].dataset and case[0].dataset.updates == 1:
        pytest.skip("a run of one update resets once, at zero")
    wrong = trained(case[0], FAULTS[fault])
    assert seen(wrong, case[1])
    assert judged(wrong, case[1])


NO_GRADIENT = re.compile(r"bn_(stem|pw)_weight$|^key_bias$")
"""Zero by their formulas: a scale that a later batch norm takes out again, and what all scores of a softmax share."""


def test_each_tensor_counts(case: tuple[Case, Expected]) -> None:
    """A step left out for any one tensor, and any one tensor unchanged, unless its movement is within its rounding."""
    program, expected = case[0].program, case[1]
    right = trained(case[0], Fault())
    blind = {m.name for m in verdict.movements(right.arrays, expected) if m.expected <= m.allowed}
    assert all(NO_GRADIENT.search(name) for name in blind), blind
    for step in program.graphs[1].nodes:
        name = program.updated[step.outputs[0]]
        still = replace(right, arrays={**right.arrays, name: expected.initial[name].copy()})
        left = trained(case[0], Fault(nodes=lambda n, gone=step: () if n is gone else (n,)))
        for wrong in (still, left):
            assert name in blind or any(f.startswith(f"{name} moved") for f in judged(wrong, expected)), name


def test_a_fault_in_the_last_tensor_alone(case: tuple[Case, Expected]) -> None:
    """Every tensor is compared, and so is every element: the largest element of any is enough."""
    right = trained(case[0], Fault())
    for name in sorted(case[1].arrays):
        wrong = right.arrays[name].copy()
        wrong.flat[-1] += 1e-3
        messages = judged(replace(right, arrays={**right.arrays, name: wrong}), case[1])
        assert [f for f in messages if f.startswith(f"{name}[")], name


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_is_equal_to_nan_alone(value: float, case: tuple[Case, Expected]) -> None:
    """In a weight, in an expected one, and in a loss; an infinity to the same one alone."""
    right, expected = trained(case[0], Fault()), case[1]
    name = sorted(expected.arrays)[-1]
    broken = right.arrays[name].copy()
    broken.flat[0] = value
    wrong = replace(right, arrays={**right.arrays, name: broken})
    wild = replace(expected, arrays={**expected.arrays, name: broken})
    lost = replace(expected, losses=(*expected.losses[:-1], value))
    assert any(name in fault for fault in judged(wrong, expected))
    assert any(name in fault for fault in judged(right, wild))
    assert not judged(wrong, wild)
    assert any(fault.startswith("loss") for fault in judged(right, lost))
    lost_too = judged(replace(right, losses=lost.losses), lost)
    assert not any(fault.startswith("loss") for fault in lost_too)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_is_no_output(value: float) -> None:
    """The same where nothing trains, so that no movement tells: in the outputs of an inference graph."""
    expected = Expected("test", arrays={"a": np.zeros(3, np.float32), "y": np.ones((2, 2), np.float32)})
    arrays = {name: array.copy() for name, array in expected.arrays.items()}
    assert not judged(Outcome("", (), arrays, {}, 0), expected)
    arrays["y"][1, 0] = value
    assert [f for f in judged(Outcome("", (), arrays, {}, 0), expected) if f.startswith("y[1, 0]")]


@pytest.mark.filterwarnings("error")
def test_a_signalling_nan_is_a_fault_and_no_warning() -> None:
    """The simulator's poison, where a weight was read from memory that nobody wrote."""
    poison = np.array([0x7FA0DEAD], np.uint32).view(np.float32)
    expected = Expected("test", arrays={"w": np.ones(1)}, initial={"w": np.zeros(1)}, updates=1)
    assert [m.passed for m in verdict.movements({"w": poison}, expected)] == [False]


def test_nan_in_an_accumulator(case: tuple[Case, Expected]) -> None:
    """The same in what the accumulators hold."""
    if not case[1].accumulators:
        pytest.skip("with one pass per update accumulators do not outlive it")
    right = trained(case[0], Fault())
    name = sorted(case[1].accumulators)[-1]
    wrong = replace(right, accumulators={**right.accumulators, name: right.accumulators[name] * np.nan})
    assert any(f.startswith(f"{name} holds") for f in judged(wrong, case[1]))


def test_frozen_weights_do_not_move(models_root: Path, tmp_path: Path) -> None:
    """Not by a bit: a zero that changed its sign is a fault."""
    expected = Expected("test", frozen={"w": np.zeros(3, np.float32)})
    outcome = Outcome("", (), {"w": np.zeros(3, np.float32)}, {}, 0)
    assert not judged(outcome, expected)
    minus = replace(outcome, arrays={"w": np.array([0.0, -0.0, 0.0], np.float32)})
    assert judged(minus, expected) == ("w is frozen and has changed",)


def test_a_count_is_no_scale() -> None:
    """A large count of updates does not hide a weight that should not have moved."""
    before, after = np.zeros(4, np.float32), np.full(4, 1e-4, np.float32)
    arrays, start = {"w": after, "step": np.array([1000])}, {"w": before, "step": np.array([0])}
    expected = Expected("test", arrays=arrays, initial=start, updates=1000)
    assert not judged(Outcome("", (), dict(arrays), {}, 0), expected)
    still = Outcome("", (), {**arrays, "w": before}, {}, 0)
    assert any(fault.startswith("w moved") for fault in judged(still, expected))


@pytest.mark.parametrize("updates", [1, 4, 200])
@pytest.mark.parametrize("rate", [1e-9, 1e-7, 1e-4, 1e-1, 10.0])
def test_rounding_alone_passes(updates: int, rate: float) -> None:
    """Updates in float32 beside updates in float64, with gradients that are known exactly: nothing but roundings."""
    draw = np.random.default_rng(0)
    initial = (draw.standard_normal(500) * 10.0 ** draw.integers(-3, 3, 500)).astype(np.float32)
    narrow, wide = initial.copy(), initial.astype(np.float64)
    for _ in range(updates):
        gradient = draw.standard_normal(500).astype(np.float32)
        narrow = (narrow.astype(np.float64) - rate * gradient).astype(np.float32)
        wide = wide - rate * gradient
    expected = Expected("test", (), {"w": wide.astype(np.float32)}, {"w": initial}, updates)
    [row] = verdict.movements({"w": narrow}, expected)
    assert row.passed, row


def test_reference_updates_after_the_last_pass(tmp_path: Path) -> None:
    """Linear regression by hand: gradients of two passes are summed, the fifth pass changes no weight."""
    line = Model((node("Gemm", ("x", "w1"), ("y",), "first", transB=1),), (value("x", (2, 3)),), (value("y", (2, 4)),))
    weight, rate = random(4, 3), 0.1
    train_report = built(
        tmp_path, replace(line, initializers=(constant("w1", weight),)), samples=3, n_accum=2, n_batches=5
    )
    case = pipeline.load_training(train_report.train)
    assert case.dataset is not None
    w, losses, total = weight.astype(np.float64), [], np.zeros((4, 3))
    for index in range(5):
        x, target = (np.asarray(a, np.float64) for a in case.dataset.samples[index % 3])
        error = x @ w.T - target
        losses.append(np.square(error).mean())
        total = (0 if index % 2 == 0 else total) + 2 / error.size * error.T @ x
        w = w - rate * total if index % 2 == 1 else w
    expected = pipeline.expectation(case, planned(case.program, case.dataset))
    assert_close("MSELoss", np.array(expected.losses, np.float32), np.array(losses, np.float32))
    assert_close("SGD", expected.arrays["w1"], w.astype(np.float32))
    [held] = expected.accumulators.values()
    assert_close("Gemm", held, total.astype(np.float32))


@pytest.mark.parametrize(
    ("relative", "bound"), [(0.0, "0.5 allowed per value"), (0.25, "0.5 + 0.25 of the largest allowed per value")]
)
def test_bound_in_the_last_line(relative: float, bound: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line names the absolute bound and a relative one, if there is one; the difference is 4."""
    expected = Expected("test", (), {"y": np.ones(3, np.float32)})
    outcome = Outcome("", (), {"y": np.full(3, 5, np.float32)}, {}, 0, {})
    summary = report.make_report(_NO_PLAN, outcome, expected, 0.5, relative)
    report.show(summary, _NO_PLAN, Terminal(width=200))
    assert capsys.readouterr().out.splitlines()[-1] == f"FAILED: 1 faults, {bound}"


RUNS: Rows = (
    ("shared/SimpleMLP", {}),
    ("shared/SimpleMLP", {"n_steps": 8, "n_accum": 4}),
    ("shared/SimpleMLP", {"n_steps": 100, "learning_rate": 1e-7}),
    ("shared/Autoencoder", {"n_steps": 7, "n_accum": 3}),
    ("shared/Autoencoder", {"learning_rate": 10.0}),
    ("simple_mlp_batch", {}),
)
LONG: Rows = (
    ("shared/Autoencoder", {"learning_rate": 1e-9}),
    ("shared/DSCNN", {"n_steps": 4, "n_accum": 2}),
    ("shared/CCT_LoRA", {}),
    ("shared/ResNet8", {}),
    ("autoencoder_accum", {}),
    ("deep_autoencoder_batch", {}),
    ("zero biases", {}),
)
SLOW = [pytest.param(*row, marks=pytest.mark.slow) for row in LONG]


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize(("name", "options"), [*RUNS, *SLOW], ids=named((*RUNS, *LONG)))
def test_right_program_passes(name: str, options: dict[str, Any], models_root: Path, tmp_path: Path) -> None:
    """Compiled programs, at one L1 each; other modes and sizes are in test_training and test_convnets."""
    if name.startswith("shared/"):
        needs_shared(SHARED)
    make = {"zero biases": zero_biases}.get(name, lambda out: generate(name, out))
    folder = case_dir(name, models_root) if name.startswith("shared/") else make(tmp_path)
    case = pipeline.load_training(folder, **options)
    program = compile_case(case, tmp_path / "c", "single", 120000, outermost="L3")
    outcome = program.run()
    assert not faults(program, outcome)
    assert case.dataset is not None
    assert bool(outcome.accumulators) == (case.dataset.n_accum > 1)


def zero_biases(out: Path) -> Path:
    """An encoder whose biases start at zero: the one of attention's keys has no gradient but its rounding."""
    import onnx
    from onnx import numpy_helper

    from DeployTest.models.parts.generator import training_case

    transformer.generate(out / "drawn")
    model = onnx.load(str(out / "drawn" / "transformer.onnx"))
    for tensor in model.graph.initializer:
        if tensor.name.endswith("bias"):
            tensor.CopyFrom(numpy_helper.from_array(np.zeros(tensor.dims, np.float32), tensor.name))
    onnx.save(model, str(out / "zero.onnx"))
    return training_case(out / "zero.onnx", "cross_entropy", r"weight$|bias$", seed=1, learning_rate=0.1).train
