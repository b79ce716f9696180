"""Small nets for each operator, loss, optimizer and statistic, whose weights move well beyond their rounding."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deployer import pipeline
from deployer.core.errors import DeployerError
from deployer.core.operator import Array, Operator, Sample, losses, registry
from deployer.pipeline import Case
from deployer.training.train_graph import build_train_graph
from deployer.training.update_graph import Limits
from deployer.verify.reference import initial_memory, run_pass
from DeployTest.faults.fuzz.draw import Draw
from DeployTest.faults.fuzz.models import Chain
from DeployTest.support.graphs.small_graphs import Model, constant, node, value

PASSES = 8
ROWS, WIDE, HIDDEN, CLASSES = 8, 24, 48, 4
MOVED = 2.0**-4
"""Change of the weights of a net in its first update, as a share of their root mean square."""


@dataclass(frozen=True)
class Net:
    """A training case that holds what is scaled: `of` is an operator, a loss, an optimizer or a statistic."""

    kind: str
    of: str
    case: Case


class _Held(Chain):
    """A model of one node whose operands are all in the file."""

    def _operand(self, name: str, x: Array | None, linked: bool) -> str:
        if x is None:
            return ""
        self.constants[name] = x
        return name


def operator_net(operator: Operator, sample: Sample, folder: Path) -> Case | None:
    """The operator's sample between trained tensors and a loss; None where nothing of it can be trained."""
    chain = _Held(Draw(0))
    try:
        chain.append((operator, sample))
    except DeployerError:
        return None
    floats = [n for n in chain.last if chain.values[n].dtype == "float32" and chain.values[n].size]
    if not floats:
        return None
    size = chain.values[floats[0]].size
    nodes = [*chain.nodes, node("Reshape", (floats[0], "flat"), ("end",))]
    weights = [constant(n, x) for n, x in chain.constants.items()] + [constant("flat", np.array([1, size]))]
    model = Model(nodes, (), (value("end", (1, size)),), weights, opsets=(("", 17), ("com.microsoft", 1)))
    path = model.save(folder / "op.onnx")
    draw = np.random.default_rng(1)
    data = {"target": draw.standard_normal((PASSES, 1, size)).astype(np.float32)}
    return moving(path, folder, "mse", "sgd", data=data)


def moving(path: Path, folder: Path, loss: str, optimizer: str, **more: object) -> Case | None:
    """The case with a rate at which the weights move; None where the model cannot be trained."""
    rate = 1.0
    try:
        for _ in range(2):
            report = build_train_graph(path, loss, optimizer, rate, "", folder, force=True, warn=_quiet, **more)  # type: ignore[arg-type] # fmt: skip
            case = pipeline.load_training(report.train, changing=None)
            rate *= _factor(case)
    except DeployerError:
        return None
    return case


def _quiet(warning: object) -> None:
    pass


def _factor(case: Case) -> float:
    """By how much the rate has to be larger."""
    program, dataset = case.program, case.dataset
    assert dataset is not None
    memory = initial_memory(program, dataset)
    names = sorted(set(program.updated.values()))
    before = {n: memory[n].copy() for n in names}
    for index in range(dataset.n_accum):
        run_pass(program, dataset, memory, index)
    floats = [n for n in names if before[n].dtype.kind == "f" and program.tensors[n].role == "weight"]
    moved = np.concatenate([(memory[n] - before[n]).reshape(-1) for n in floats])
    size = np.concatenate([before[n].reshape(-1) for n in floats])
    far = float(np.sqrt(np.square(moved).mean()))
    return MOVED * float(np.sqrt(np.square(size).mean())) / far if np.isfinite(far) and far else 1.0


ENDS = {"bce": "Sigmoid", "nll": "LogSoftmax", "kl_div": "LogSoftmax"}
"""What makes of any numbers those that a loss takes."""


def layers(folder: Path, loss: str, norm: bool) -> Path:
    """Two layers with a Tanh, and with a batch norm before it, which end in what the loss takes."""
    draw = np.random.default_rng(3)
    shapes = {"w1": (HIDDEN, WIDE), "w2": (CLASSES, HIDDEN)}
    arrays = {n: draw.standard_normal(s) / np.sqrt(s[1]) for n, s in shapes.items()}
    arrays |= {"b1": np.full(HIDDEN, 0.1), "b2": np.full(CLASSES, 0.1)}
    nodes = [node("Gemm", ("x", "w1", "b1"), ("h",), "first", transB=1)]
    if norm:
        plain = {"scale": 1.0, "shift": 0.1, "mean": 0.0, "var": 1.0}
        arrays |= {n: np.full(HIDDEN, v) for n, v in plain.items()}
        nodes.append(node("BatchNormalization", ("h", *plain), ("n",), "norm"))
    nodes += [node("Tanh", ("n" if norm else "h",), ("t",)), node("Gemm", ("t", "w2", "b2"), ("y",), "last", transB=1)]
    nodes += [node(ENDS[loss], ("y",), ("end",))] if loss in ENDS else []
    weights = [constant(n, x.astype(np.float32)) for n, x in arrays.items()]
    end = value("end" if loss in ENDS else "y", (ROWS, CLASSES))
    return Model(nodes, (value("x", (ROWS, WIDE)),), (end,), weights).save(folder / "layers.onnx")


def nets(folder: Path) -> Iterator[Net]:
    """A net for each operator that can be trained, for each loss, for each optimizer, and one with running statistics."""
    for name, operator in sorted(registry().items()):
        samples = operator.samples() if name == operator.name else ()
        found = (operator_net(operator, sample, folder / name) for sample in samples)
        case = next((case for case in found if case is not None), None)
        if case is not None:
            yield Net("operator", name, case)
    for loss in losses():
        case = moving(layers(folder / loss, loss, False), folder / loss, loss, "sgd", samples=PASSES)
        if case is not None:
            yield Net("loss", loss, case)
    for name, operator in sorted(registry().items()):
        declared = operator.optimizer if name == operator.name else None
        if declared is None:
            continue
        given = {s.name: s.default or 0.5 for s in declared.settings}
        place = folder / name
        path = layers(place, "cross_entropy", False)
        for limits in (Limits(), Limits(norm=1.0)):
            case = moving(
                path, place, "cross_entropy", declared.choice, samples=PASSES, settings=given, limits=limits
            )
            if case is not None:
                yield Net("optimizer", name + (", clipped" if limits.norm else ""), case)
    case = moving(layers(folder / "norm", "mse", True), folder / "norm", "mse", "sgd", samples=PASSES, statistics=True)
    if case is not None:
        yield Net("statistic", "running mean and variance", case)
