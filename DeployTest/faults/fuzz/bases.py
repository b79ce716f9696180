"""Valid cases as the start of edits; each process builds them once, from fixed seeds."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from deployer import pipeline
from deployer.core.errors import DeployerError
from deployer.core.plan import Options
from deployer.pipeline import Case
from deployer.training.train_graph import build_train_graph

from .draw import Draw
from .models import chain

TRAINING = 12
"""Training cases to start from."""
Files = dict[str, bytes]


def write(files: Files, folder: Path) -> None:
    """Write files by relative path."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def read(folder: Path) -> Files:
    """All files of a folder by relative path."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@contextmanager
def untimed() -> Iterator[None]:
    """The time to build a base does not count against the input that needs it first."""
    left = signal.setitimer(signal.ITIMER_PROF, 0)[0]
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, left)


@cache
@untimed()
def training(number: int) -> Files:
    """The files of a training case: fixed small networks for the first four, random chains of nodes for the others."""
    folder = Path(tempfile.mkdtemp())
    try:
        draw = Draw("training", number)
        loss = draw.one(("mse", "cross_entropy")) if number > 3 else "cross_entropy"
        model = folder / "m.onnx"
        for attempt in range(200):
            model.write_bytes(_forward(Draw("training", number, attempt), number).SerializeToString())
            try:
                build_train_graph(model, loss, "sgd", 0.05, "", folder, samples=2, n_accum=1 + number % 2, n_batches=2)
                break
            except DeployerError:
                continue
        model.unlink()
        return read(folder)
    finally:
        shutil.rmtree(folder)


def _forward(draw: Draw, number: int) -> onnx.ModelProto:
    return network(draw, number) if number <= 3 else forward(draw)


def forward(draw: Draw) -> onnx.ModelProto:
    """A drawn chain with one float output, its floats but one as initializers."""
    base = chain(draw, longest=4, standard=True)
    model = base.model()
    del model.graph.output[1:]
    for value in list(model.graph.input)[1:]:
        model.graph.initializer.append(numpy_helper.from_array(base.feeds[value.name], value.name))
        model.graph.input.remove(value)
    return model


def network(draw: Draw, number: int) -> onnx.ModelProto:
    """A dense, convolutional, normalized or attention-like network, by number."""
    weights: dict[str, np.ndarray] = {}
    nodes: list[onnx.NodeProto] = []

    def weight(name: str, *shape: int) -> str:
        weights[name] = draw.array(shape) * np.float32(0.5)
        return name

    def node(op: str, *inputs: str, **attrs: object) -> str:
        nodes.append(helper.make_node(op, inputs, [f"o{len(nodes)}"], f"n{len(nodes)}", **attrs))
        return nodes[-1].output[0]

    shape: tuple[int, ...] = (2, 6)
    if number == 0:
        x = node("Relu", node("Gemm", "x", weight("w0", 8, 6), weight("b0", 8), transB=1))
    elif number == 1:
        shape = (2, 2, 6, 6)
        x = node("Conv", "x", weight("w0", 3, 2, 3, 3), weight("b0", 3), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        x = node("Flatten", node("GlobalAveragePool", node("Relu", x)))
    elif number == 2:
        shape = (2, 4, 6)
        x = node("LayerNormalization", "x", weight("s", 6), weight("b0", 6), axis=-1, epsilon=1e-5)
        x = node("Softmax", node("MatMul", x, weight("w0", 6, 5)), axis=-1)
        x = node("Flatten", x)
    else:
        x = node("Softmax", node("Add", node("MatMul", "x", weight("w0", 6, 7)), weight("b0", 7)), axis=1)
    width = {0: 8, 1: 3, 2: 20, 3: 7}[number]
    node("Gemm", x, weight("w1", width, 4))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(nodes[-1].output[0], onnx.TensorProto.FLOAT, (2, 4))],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


@dataclass(frozen=True)
class Compiled:
    """A case with everything its compilation wrote."""

    files: Files
    output: Files
    command: str


COMPILED = (
    (0, {"L1": 1200}, "double", "L2", None),
    (0, None, "single", "L2", None),
    (1, {"L1": 1200}, "auto", "L2", None),
    (1, {"L1": 1500, "L2": 3000}, "double", "L3", None),
    (2, {"L1": 8000}, "single", "L2", 2),
    (3, {"L1": 1600}, "double", "L2", 1),
)
"""Training case, budgets, buffering, outermost level and cores of the plans to start from."""


@cache
@untimed()
def compiled(number: int) -> Compiled:
    """A compiled training case; its output lies in `out/`."""
    which, budgets, buffering, outermost, cores = COMPILED[number]
    folder = Path(tempfile.mkdtemp())
    try:
        write(training(which), folder)
        case = load(folder)
        options = Options("host", buffering, budgets, cores, outermost=outermost)
        tiling, plan = pipeline.plan_case(case, options)
        pipeline.write_case(case, tiling, plan, folder / "out")
        output = read(folder / "out")
        return Compiled(training(which), output, "train")
    finally:
        shutil.rmtree(folder)


def load(folder: Path) -> Case:
    """The training case in a folder."""
    return pipeline.load_training(folder)
