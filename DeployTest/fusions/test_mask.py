"""Scores that are scaled, masked and made shares: what becomes one step, what does not; the bits."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.operator import registry
from deployer.core.plan import Options
from deployer.core.samples import Sample
from deployer.fusions import mask
from deployer.testing.bench import bits, run_step, step_of
from deployer.verify.reference import run_inference
from DeployTest.support.graphs.fusing import fused
from DeployTest.support.graphs.small_graphs import Model, chain, constant, infer, node, ops, value

pytestmark = [pytest.mark.host, pytest.mark.training]

JOINT = registry()["MaskedSoftmax"]
X = (2, 3, 4, 5)
SCALED = node("Mul", ("x", "f"), ("p",), "scale")
MASKED = node("Add", ("p", "m"), ("s",), "masked")
SHARES = node("Softmax", ("s",), ("y",), "shares", axis=-1)
FACTOR = constant("f", np.float32(0.35))
CAUSAL = np.triu(np.full((4, 5), -np.inf, np.float32), 1)


def attention(*nodes: onnx.NodeProto, m: Sequence[int] | np.ndarray = (4, 5), **parts: object) -> Model:
    """Scores of two samples with three heads each, and a mask: drawn, of a shape, or that array."""
    drawn = m if isinstance(m, np.ndarray) else np.random.default_rng(4).standard_normal(m).astype(np.float32)
    return chain(*(nodes or (SCALED, MASKED, SHARES)), x=X, initializers=(FACTOR, constant("m", drawn)), **parts)


ONE = {
    "scale, mask": (attention(), 0.35),
    "causal": (attention(m=CAUSAL), 0.35),
    "mask of a sample": (attention(m=(2, 1, 1, 5)), 0.35),
    "mask of each": (attention(m=X), 0.35),
    "mask of classes": (attention(m=(5,)), 0.35),
    "mask first": (attention(SCALED, node("Add", ("m", "p"), ("s",)), SHARES, m=X), 0.35),
    "mask alone": (attention(node("Add", ("x", "m"), ("s",)), SHARES), 1.0),
    "scale alone": (attention(node("Mul", ("x", "f"), ("s",)), SHARES), 0.35),
    "last axis by number": (attention(SCALED, MASKED, node("Softmax", ("s",), ("y",), axis=3)), 0.35),
}
"""Graphs of which one node is left, and its factor."""

APART = {
    "mask of heads": (attention(m=(1, 3, 1, 5)), ["Mul", "Add", "Softmax"]),
    "mask of rows": (attention(m=(4, 1)), ["Mul", "Add", "Softmax"]),
    "another axis": (attention(SCALED, MASKED, node("Softmax", ("s",), ("y",), axis=1)), ["Mul", "Add", "Softmax"]),
    "scaled behind": (
        attention(node("Add", ("x", "m"), ("p",)), node("Mul", ("p", "f"), ("s",)), SHARES),
        ["Add", "MaskedSoftmax"],
    ),
    "scaled twice": (
        attention(node("Mul", ("x", "f"), ("q",)), node("Mul", ("q", "f"), ("p",)), MASKED, SHARES),
        ["Mul", "MaskedSoftmax"],
    ),
    "no number": (attention(node("Mul", ("x", "m"), ("p",)), MASKED, SHARES), ["Mul", "MaskedSoftmax"]),
    "Relu between": (
        attention(SCALED, node("Add", ("p", "m"), ("r",)), node("Relu", ("r",), ("s",)), SHARES),
        ["Mul", "Add", "Softmax"],
    ),
}
"""Graphs of which more is left, and what."""


def same(tmp_path: Path, model: Model) -> list[str]:
    """The operators after fusion, which leaves all results of the graph as they were."""
    before = infer(tmp_path, model)
    after = fused(before)
    inputs = {"x": np.random.default_rng(5).standard_normal(X).astype(np.float32)}
    found, expected = run_inference(after, inputs), run_inference(before, inputs)
    assert {n: bits(x) for n, x in found.items()} == {n: bits(x) for n, x in expected.items()}
    return ops(after)


@pytest.mark.parametrize("name", ONE)
def test_shares_of_scores_are_one_step(name: str, tmp_path: Path) -> None:
    """Product, sum and softmax are one node under all names, with the operands of the first two."""
    model, factor = ONE[name]
    assert same(tmp_path, model) == ["MaskedSoftmax"]
    (joint,) = fused(infer(tmp_path, model)).nodes
    assert joint.inputs in (("x", "m"), ("x",))
    assert np.float32(joint.attr_float("alpha", 1.0)) == np.float32(factor)
    assert joint.name.count("+") == len(model.nodes) - 1


@pytest.mark.parametrize("name", APART)
def test_others_stay(name: str, tmp_path: Path) -> None:
    """A node that the kernel cannot fuse stays a step of its own."""
    model, expected = APART[name]
    assert same(tmp_path, model) == expected


def test_what_others_read_stays(tmp_path: Path) -> None:
    """Scores that are an output, or have a second reader, are made by a step of their own."""
    shown = replace(attention(), outputs=(value("y", None), value("s", None)))
    assert same(tmp_path, shown) == ["Mul", "Add", "Softmax"]
    again = attention(SCALED, MASKED, SHARES, node("Add", ("y", "p"), ("z",)))
    assert same(tmp_path, replace(again, outputs=(value("z", None),))) == ["Mul", "MaskedSoftmax", "Add"]


def test_products_take_what_they_can(tmp_path: Path) -> None:
    """A product before the scores has the factor and the mask; of two masks it has the first."""
    product = node("MatMul", ("x", "k"), ("q",))
    scaled, twice = node("Mul", ("q", "f"), ("p",)), node("Add", ("s", "m"), ("t",))
    key = constant("k", np.random.default_rng(6).standard_normal((2, 3, 5, 5)).astype(np.float32))
    given = (FACTOR, key, constant("m", CAUSAL))
    one = chain(product, scaled, MASKED, SHARES, x=X, initializers=given)
    assert same(tmp_path, one) == ["Gemm", "Softmax"]
    shares = node("Softmax", ("t",), ("y",), axis=-1)
    two = chain(product, scaled, MASKED, twice, shares, x=X, initializers=given)
    assert same(tmp_path, two) == ["Gemm", "MaskedSoftmax"]


@pytest.mark.parametrize(
    "options",
    [
        Options(allow_rewrites=False),
        Options(disabled_rewrites=(mask.__name__.rpartition(".")[2],)),
        Options(opt_out=("shares",)),
    ],
    ids=["all", "name", "node"],
)
def test_options_leave_it_out(options: Options, tmp_path: Path) -> None:
    """Options that forbid it leave all three steps."""
    assert ops(fused(infer(tmp_path, attention()), options)) == ["Mul", "Add", "Softmax"]


@pytest.mark.parametrize("sample", list(JOINT.samples()), ids=lambda sample: sample.label)
def test_kernels_leave_the_same_bits(sample: Sample) -> None:
    """The kernel leaves the bits that those of the three nodes leave one after the other."""

    def alone(op: str, *inputs: np.ndarray, **attrs: int) -> np.ndarray:
        step = step_of(registry()[op], Sample("part", inputs, dict(attrs)))
        return run_step(step, step.access.sizes)[0]

    scores, *masks = (x for x in sample.inputs if x is not None)
    if "alpha" in sample.attrs:
        scores = alone("Mul", scores, np.asarray(sample.attrs["alpha"], np.float32))
    if "causal" in sample.attrs:
        masks.append(np.triu(np.full(scores.shape[-2:], -np.inf, np.float32), 1))
    for added in masks:
        scores = alone("Add", scores, added)
    shares = alone("Softmax", scores, axis=-1)
    if "safe" in sample.attrs:
        hidden = np.isneginf(scores).all(-1, keepdims=True)
        assert hidden.any()
        assert not hidden.all()
        shares = np.where(hidden, np.float32(0), shares)
    step = step_of(JOINT, sample)
    for tile in (step.access.sizes, {"outer": 1, "inner": 2}):
        assert bits(run_step(step, tile)[0]) == bits(shares)
