"""Split in front of what is trained: latents of single samples, and a head with the bits of the whole program."""

import math
from pathlib import Path

import numpy as np
import pytest

from deployer.core.errors import OptionProblem
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.frontend.dataset import Dataset
from deployer.planning.frozen_part import FrozenPart, split_frozen
from deployer.training.problem import Problem, pose_problem
from deployer.verify.reference import run_inference, run_training
from DeployTest.canonical.nets import NETS, Net, drawn
from DeployTest.quantized.models import FORMATS, TYPES, float_model, quantized_model
from DeployTest.quantized.models import samples as images
from DeployTest.support.graphs.small_graphs import Model, constant, node, raises, value

BATCH, PASSES = 3, 4
HEADS = {
    "dense": ("w2|b2", "r"),
    "convolutional": ("w4", "c3"),
    "recurrent": ("w2", "LSTM"),
    "rows": ("head", "r/samples"),
}
"""Expression for the trained weights of a net, and the latent in front of them."""


def rows(batch: int) -> Model:
    """Two layers of all rows of all samples at once."""
    nodes = [
        node("Reshape", ("x", "shape"), ("flat",)),
        node("Gemm", ("flat", "w1"), ("a",), transB=1),
        node("Relu", ("a",), ("r",)),
        node("Gemm", ("r", "head"), ("y",), transB=1),
    ]
    stored = [constant("w1", drawn(8, 10)), constant("head", drawn(5, 8)), constant("shape", np.array([-1, 10]))]
    return Model(nodes, (value("x", (batch, ROWS, 10)),), (value("y", None),), stored)


ROWS = 6
LAYERS: dict[str, tuple[Net, tuple[int, ...], tuple[int, ...]]] = {**NETS, "rows": (rows, (ROWS, 10), (ROWS,))}
"""For each net the model of a batch, and the shapes of a sample and of its labels."""


def posed(model: Path, trainable: str = "", optimizer: str = "adam") -> tuple[Problem, Program]:
    """The training problem of a model, and its program."""
    problem = pose_problem(model, "cross_entropy", optimizer, 0.05, trainable, statistics=True)
    paths = model.with_suffix(".train.onnx"), model.with_suffix(".update.onnx")
    problem.write(*paths)
    return problem, problem.program(*paths)


def split(model: Path, trainable: str = "") -> tuple[Problem, Program, FrozenPart]:
    """The problem, its program and that in two."""
    problem, program = posed(model, trainable)
    return problem, program, split_frozen(program, problem.graph.inputs)


def trained(problem: Problem, program: Program, rows: list[tuple[Array, ...]]) -> tuple[list[float], dict[str, bytes]]:
    """Losses and weights of a run by the interpreter in float32."""
    given = {n: np.zeros(program.tensors[n].type.shape) for n in program.weights if program.tensors[n].data is None}
    dataset = Dataset(tuple(rows), {**given, **problem.graph.weights}, len(rows), 2, (), {})
    losses, weights = run_training(program, dataset)
    return losses, {name: array.tobytes() for name, array in weights.items()}


def check(problem: Problem, program: Program, part: FrozenPart, rows: list[tuple[Array, ...]]) -> None:
    """The head trains on latents as the program does on data, and no node of it is one of the features'."""
    names = part.features.data
    latents = [tuple(run_inference(part.features, dict(zip(names, row, strict=False))).values()) for row in rows]
    heads = [(*features, row[-1]) for features, row in zip(latents, rows, strict=True)]
    assert part.head.data == (*(latent.name for latent in part.latents), program.data[-1])
    assert trained(problem, part.head, heads) == trained(problem, program, rows)
    own, left = ({n.name for n in each.graphs[0].nodes} for each in (part.features, part.head))
    assert own
    assert own | left == {n.name for n in program.graphs[0].nodes}
    assert not own & left


@pytest.mark.parametrize("name", sorted(HEADS))
def test_head_has_the_bits(name: str, tmp_path: Path) -> None:
    """A frozen body of layers, of convolutions and norms, one whose batch is not the first axis, and one of rows."""
    (trainable, latent), (build, shape, labels), draw = HEADS[name], LAYERS[name], np.random.default_rng(1)
    problem, program, part = split(build(BATCH).save(tmp_path / "model.onnx"), trainable)
    x = draw.standard_normal((PASSES, BATCH, *shape)).astype(np.float32)
    classes = draw.integers(0, 5, (PASSES, *program.tensors[program.data[-1]].type.shape))
    assert classes[0].size == BATCH * math.prod(labels)
    check(problem, program, part, list(zip(x, classes, strict=True)))
    [found] = part.latents
    assert found.name.startswith(latent)
    assert found.type.shape[0] == BATCH
    assert part.sample_bytes * BATCH == found.type.bytes
    whole, turned = (run_inference(part.features, {"x": each}, np.float64) for each in (x[0], x[0][::-1]))
    for key, array in whole.items():
        same = array[::-1].astype(np.float32) == turned[key].astype(np.float32)
        assert same.all(), "a latent is that of its sample, wherever this is"


@pytest.mark.parametrize("form", FORMATS)
def test_latents_of_8_bits(form: str, tmp_path: Path) -> None:
    """The latent of a quantized part is int8, and the head begins with its dequantization."""
    last = "gemm10"
    float_model("residual", tmp_path / "float.onnx")
    problem, program, part = split(quantized_model("residual", form, TYPES[1], tmp_path, (last,)))
    [latent] = part.latents
    assert (latent.type.dtype, part.sample_bytes) == ("int8", 8)
    first = part.head.graphs[0].nodes[0]
    assert first.inputs == (latent.name,)
    assert first.op == "DequantizeInt8Images"
    check(problem, program, part, [(x, np.array([2])) for x in images("residual", PASSES, 3)])


def test_statistics_of_a_batch_end_the_frozen_part(tmp_path: Path) -> None:
    """A norm by statistics of the batch, and what follows it, belongs to the head, although nothing trains it."""
    draw = np.random.default_rng(0)
    weights = {"w1": draw.standard_normal((6, 5)), "scale": np.ones(6), "shift": np.zeros(6)}
    weights |= {"mean": np.zeros(6), "var": np.ones(6), "w2": draw.standard_normal((6, 6))}
    weights |= {"head": draw.standard_normal((3, 6))}
    nodes = [
        node("Gemm", ("x", "w1"), ("a",), "first", transB=1),
        node("BatchNormalization", ("a", "scale", "shift", "mean", "var"), ("b", "", ""), "norm", training_mode=1),
        node("Gemm", ("b", "w2"), ("c",), "second", transB=1),
        node("Gemm", ("c", "head"), ("y",), "third", transB=1),
    ]
    stored = [constant(name, np.asarray(array, np.float32)) for name, array in weights.items()]
    model = Model(nodes, (value("x", (BATCH, 5)),), (value("y", None),), stored).save(tmp_path / "model.onnx")
    _, _, part = split(model, "head")
    assert [latent.name for latent in part.latents] == ["a"]
    assert "norm" in part.stopped[0]


def test_nothing_frozen(tmp_path: Path) -> None:
    """Without a frozen layer in front the error names what reads the data, and the options that freeze layers."""
    problem, program = posed(NETS["dense"][0](BATCH).save(tmp_path / "model.onnx"), "w1")
    with raises(OptionProblem, "no layer in front", "w1", "--trainable REGEX"):
        split_frozen(program, problem.graph.inputs)
