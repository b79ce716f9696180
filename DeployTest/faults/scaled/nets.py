"""Small nets for each operator, loss, optimizer and statistic, whose weights move well beyond their rounding."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from deployer import pipeline
from deployer.core.errors import DeployerError
from deployer.core.operator import Array, Operator, losses, registry
from deployer.core.samples import Sample
from deployer.core.traits.training import Optimizer
from deployer.lr_schedules.lr_schedule import LARGEST_RATE
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
    for trainable in (r"^v0_", *(f"^{name}$" for name in chain.constants)):
        for moved in (MOVED, MOVED**2):  # functions of a narrow domain end where the weights leave it
            case = moving(path, folder, "mse", "sgd", trainable=trainable, moved=moved, data=data)
            if case is not None:
                return case
    return None


def moving(
    path: Path, folder: Path, loss: str, optimizer: str, *, trainable: str = "", moved: float = MOVED, **more: Any
) -> Case | None:
    """The case with a rate at which the weights move; None where the model cannot be trained."""
    rate = 1.0
    try:
        for _ in range(2):
            report = build_train_graph(path, loss, optimizer, rate, trainable, folder, force=True, warn=_quiet, **more)
            case = pipeline.load_training(report.train, changing=None)
            rate = min(rate * moved * _factor(case), LARGEST_RATE)
    except DeployerError:
        return None
    return case


def _quiet(warning: object) -> None:
    pass


def _factor(case: Case) -> float:
    """The weights as a multiple of what they move in the first update."""
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
    return float(np.sqrt(np.square(size).mean())) / far if np.isfinite(far) and far else 1.0


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
        outputs = ("n", "mean_out", "var_out")
        nodes.append(node("BatchNormalization", ("h", *plain), outputs, "norm", training_mode=1, momentum=0.9))
    nodes += [node("Tanh", ("n" if norm else "h",), ("t",)), node("Gemm", ("t", "w2", "b2"), ("y",), "last", transB=1)]
    nodes += [node(ENDS[loss], ("y",), ("end",))] if loss in ENDS else []
    weights = [constant(n, x.astype(np.float32)) for n, x in arrays.items()]
    end = value("end" if loss in ENDS else "y", (ROWS, CLASSES))
    return Model(nodes, (value("x", (ROWS, WIDE)),), (end,), weights).save(folder / "layers.onnx")


def nets(folder: Path, kinds: Collection[str] = (), names: Collection[str] = ()) -> Iterator[Net]:
    """A net for each operator that can be trained, for each loss, for each optimizer, and one with running statistics.

    Of the given kinds and names, or of all.
    """
    for (kind, name), make in makers().items():
        if (not kinds or kind in kinds) and (not names or name in names):
            place = folder / f"{kind}_{name}".replace(" ", "_").replace(",", "")
            case = make(place)
            if case is not None:
                yield Net(kind, name, case)


def makers() -> dict[tuple[str, str], Callable[[Path], Case | None]]:
    """Return the functions that make the case of each kind and name in a folder, if it can be trained."""
    found: dict[tuple[str, str], Callable[[Path], Case | None]] = {}
    for name, operator in sorted(registry().items()):
        if name == operator.name:
            found["operator", name] = partial(_first_sample, operator)
    for loss in losses():
        found["loss", loss] = partial(_layers_case, loss, "sgd", {})
    for name, operator in sorted(registry().items()):
        declared = operator.role(Optimizer) if name == operator.name else None
        if declared is not None:
            given = {s.name: s.default or (1 if s.switch else 0.5) for s in declared.settings}
            found["optimizer", name] = partial(_layers_case, "cross_entropy", declared.choice, {"settings": given})
            more = {"settings": given, "limits": Limits(norm=1.0)}
            found["optimizer", f"{name}, clipped"] = partial(_layers_case, "cross_entropy", declared.choice, more)
    found["statistic", "mean and variance"] = partial(_layers_case, "mse", "sgd", {"statistics": True})
    return found


def _first_sample(operator: Operator, folder: Path) -> Case | None:
    found = (operator_net(operator, sample, folder) for sample in operator.samples())
    return next((case for case in found if case is not None), None)


def _layers_case(loss: str, optimizer: str, more: dict[str, Any], folder: Path) -> Case | None:
    path = layers(folder, loss, bool(more.get("statistics")))
    return moving(path, folder, loss, optimizer, samples=PASSES, **more)
