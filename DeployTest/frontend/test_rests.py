"""Means that are two floats: which steps of a norm read what the stored mean lacks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.ir import Node, Program
from deployer.core.operator import numerics_of, registry
from deployer.verify.reference import run_inference
from DeployTest.support.graphs.small_graphs import Model, infer, node, value
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]
MICROSOFT = "com.microsoft"
IMAGES, CHANNELS, ROWS = (2, 3, 4, 5), (3,), (2, 3, 4, 1)
STATISTICS = ("mean", "inv")
GRADIENTS = ("dx", "dscale")
EVERY = ("y_mean", *GRADIENTS)


def batch(outputs: Sequence[str] = STATISTICS, x: str = "x") -> onnx.NodeProto:
    """Batch normalization with its statistics, as ONNX Runtime has it."""
    operands = (x, "scale", "bias", "scale", "scale")
    return node("BatchNormInternal", operands, (f"y_{outputs[0]}", "", "", *outputs), domain=MICROSOFT)


def layer() -> onnx.NodeProto:
    """Layer normalization with its statistics."""
    return node("LayerNormalization", ("x", "row", "row"), ("y_mean", *STATISTICS), axis=-1)


def gradient(op: str, statistics: Sequence[str] = STATISTICS) -> onnx.NodeProto:
    """The gradient of a norm of `x` by these statistics."""
    scale = "scale" if op.startswith("Batch") else "row"
    return node(op, ("dy", "x", scale, *statistics), ("dx", "dscale", "dbias"), domain=MICROSOFT)


def program(folder: Path, *nodes: onnx.NodeProto, outputs: Sequence[str] = GRADIENTS) -> Program:
    """A graph of these nodes; what none of them makes is an input."""
    shapes = {"x": IMAGES, "dy": IMAGES, "z": IMAGES, "row": IMAGES[-1:]}
    shapes |= dict.fromkeys(("scale", "bias", "mean", "inv", "other"), CHANNELS)
    if any(n.op_type.startswith("Layer") for n in nodes):
        shapes |= dict.fromkeys(STATISTICS, ROWS)
    made = {name for n in nodes for name in n.output}
    read = dict.fromkeys(name for n in nodes for name in n.input if name not in made)
    inputs = tuple(value(name, shapes[name]) for name in read)
    return infer(folder, Model(nodes, inputs, tuple(value(name, None) for name in outputs)))


def rests(found: Program) -> dict[str, str]:
    """The rest that each step reads beside a mean, by the name of its operator; empty where it reads none."""
    return {n.op: _rest(n) for n in found.nodes if numerics_of(n).centre and n.op != "ChannelMoments"}


def _rest(reader: Node) -> str:
    centre = numerics_of(reader).centre
    assert centre is not None
    return (*reader.inputs, *[""] * centre.rest)[centre.rest]


@pytest.mark.parametrize("op", ["BatchNormalizationGrad", "LayerNormalizationGrad"])
def test_every_step_reads_the_rest(op: str, tmp_path: Path) -> None:
    """The steps of a norm and of its gradient, though the graph gives the mean alone, and of rows in another shape."""
    found = program(tmp_path, batch() if op.startswith("Batch") else layer(), gradient(op), outputs=EVERY)
    [moments] = [n for n in found.nodes if n.op == "ChannelMoments"]
    assert set(rests(found).values()) == {moments.outputs[2]}
    assert len(rests(found)) == 3 + op.startswith("Layer")


def test_views_of_the_statistics(tmp_path: Path) -> None:
    """A mean and a deviation that reach the gradient through views bring their rest; of something else they do not."""
    through = [node("Identity", (name,), (f"{name}_seen",)) for name in STATISTICS]
    seen = gradient("BatchNormalizationGrad", ("mean_seen", "inv_seen"))
    assert all(rests(program(tmp_path / "views", batch(), *through, seen, outputs=EVERY)).values())
    changed = [node("Relu", (name,), (f"{name}_seen",)) for name in STATISTICS]
    found = rests(program(tmp_path / "values", batch(), *changed, seen, outputs=EVERY))
    assert found == {"ChannelNormalize": found["ChannelNormalize"], "ChannelGradSums": "", "ChannelNormalizeGrad": ""}


@pytest.mark.parametrize("statistics", [("mean", "other"), ("mean", "inv_z"), ("other", "inv")], ids=str)
def test_a_rest_belongs_to_both(statistics: tuple[str, str], tmp_path: Path) -> None:
    """A mean and a deviation that no one node made have no rest: it is in units of the deviation."""
    found = program(
        tmp_path,
        batch(),
        batch(("mean_z", "inv_z"), "z"),
        gradient("BatchNormalizationGrad", statistics),
        outputs=EVERY,
    )
    read = rests(found)
    assert (read["ChannelGradSums"], read["ChannelNormalizeGrad"]) == ("", "")
    assert read["ChannelNormalize"]


@pytest.mark.parametrize("op", ["BatchNormalizationGrad", "LayerNormalizationGrad"])
def test_a_gradient_alone(op: str, tmp_path: Path) -> None:
    """One whose statistics are given has none, and computes what it is to."""
    found = program(tmp_path, gradient(op))
    assert set(rests(found).values()) == {""}
    random = np.random.default_rng(1)
    drawn = {n: random.standard_normal(found.tensors[n].type.shape).astype(np.float32) for n in found.data}
    names = [n.name for n in found.nodes]
    assert names
    whole = registry()[op]
    inputs = [drawn[name] for name in gradient(op).input]
    expected = whole.reference(Node("whole", op, (), ("dx", "dscale", "dbias"), {"axis": -1}), inputs)
    results = run_inference(found, drawn)
    for name, right in zip(GRADIENTS, expected, strict=False):
        assert_close(op, results[name], right)
