"""ONNX's attention, rotary embedding and RMS norm in a model: few steps, ONNX's own results, and gradients."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from deployer import pipeline
from deployer.core.errors import UserError
from deployer.core.plan import Options
from deployer.planning import fuse
from deployer.training.train_graph import build_train_graph
from DeployTest.support.building.cases import compile_case, faults
from DeployTest.support.graphs.small_graphs import Model, constant, node, ops, raises, value
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]
BATCH, TOKENS, HEADS, GROUPS, WIDTH = 2, 6, 4, 2, 8
LOWER = np.tril(np.ones((TOKENS, TOKENS), bool))


def drawn(*shape: int) -> Any:
    """Normal numbers, the same for a shape."""
    return (0.4 * np.random.default_rng(list(shape)).standard_normal(shape)).astype(np.float32)


def net(apart: bool, turned: int, neighbours: int, mask: Any = None, opset: int = 23, **attrs: Any) -> Model:
    """A norm, grouped queries that are turned, attention, and scores; heads lie in the last axis, or are `apart`."""
    sizes = {"q": HEADS, "k": GROUPS, "v": GROUPS}
    weights = {name: drawn(16, heads * WIDTH) for name, heads in sizes.items()} | {"o": drawn(HEADS * WIDTH, 5)}
    constants = [constant(f"w{name}", array) for name, array in weights.items()]
    constants += [constant("gain", np.ones(16, np.float32)), constant("mean", np.array([1], np.int64))]
    nodes, names = [node("RMSNormalization", ("x", "gain"), ("n",))], {}
    for name, heads in sizes.items():
        nodes.append(node("MatMul", ("n", f"w{name}"), (name,)))
        names[name] = name
        if apart:
            constants.append(constant(f"s{name}", np.array([BATCH, TOKENS, heads, WIDTH], np.int64)))
            nodes.append(node("Reshape", (name, f"s{name}"), (f"{name}a",)))
            nodes.append(node("Transpose", (f"{name}a",), (f"{name}t",), perm=[0, 2, 1, 3]))
            names[name] = f"{name}t"
    if turned:
        angles = np.outer(np.arange(TOKENS), 10.0 ** -np.arange(turned // 2)).astype(np.float32)
        positions = np.tile(np.arange(TOKENS), (BATCH, 1))
        constants += [constant("c", np.cos(angles)), constant("s", np.sin(angles)), constant("at", positions)]
        for name in "qk":
            words: dict[str, Any] = {} if apart else {"num_heads": sizes[name]}
            words |= {"rotary_embedding_dim": turned % WIDTH, "interleaved": neighbours}
            nodes.append(node("RotaryEmbedding", (names[name], "c", "s", "at"), (f"{name}r",), **words))
            names[name] = f"{name}r"
    attrs |= {} if apart else {"q_num_heads": HEADS, "kv_num_heads": GROUPS}
    masks = [] if mask is None else ["mask"]
    constants += [] if mask is None else [constant("mask", mask)]
    nodes.append(node("Attention", (*names.values(), *masks), ("y",), **attrs))
    last = "y"
    if apart:
        constants.append(constant("flat", np.array([BATCH, TOKENS, HEADS * WIDTH], np.int64)))
        nodes.append(node("Transpose", ("y",), ("yt",), perm=[0, 2, 1, 3]))
        nodes.append(node("Reshape", ("yt", "flat"), ("ya",)))
        last = "ya"
    nodes += [node("MatMul", (last, "wo"), ("z",)), node("ReduceMean", ("z", "mean"), ("scores",), keepdims=0)]
    inputs, outputs = (value("x", (BATCH, TOKENS, 16)),), (value("scores", (BATCH, 5)),)
    return Model(tuple(nodes), inputs, outputs, tuple(constants), opsets=(("", opset),))


CASES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "tokens": ({"apart": False, "turned": 0, "neighbours": 0}, {"MaskedSoftmax"}),
    "heads": ({"apart": True, "turned": 0, "neighbours": 0, "is_causal": 1}, {"MaskedSoftmax"}),
    "version 24": ({"apart": True, "turned": 0, "neighbours": 0, "scale": 0.3, "opset": 24}, {"MaskedSoftmax"}),
    "bools": ({"apart": False, "turned": 0, "neighbours": 0, "mask": LOWER}, {"MaskedSoftmax"}),
    "integers": ({"apart": False, "turned": 0, "neighbours": 0, "mask": LOWER.astype(np.int32)}, {"Softmax"}),
    "turned": ({"apart": False, "turned": 8, "neighbours": 0, "is_causal": 1}, {"MaskedSoftmax", "Rotation"}),
    "neighbours": ({"apart": False, "turned": 8, "neighbours": 1}, {"MaskedSoftmax", "Rotation"}),
    "a part": ({"apart": False, "turned": 4, "neighbours": 0}, {"MaskedSoftmax", "Rotation"}),
    "a part of heads": ({"apart": True, "turned": 4, "neighbours": 1}, {"MaskedSoftmax"}),
    "bounded": ({"apart": True, "turned": 0, "neighbours": 0, "softcap": 3.0}, {"Softmax", "Tanh"}),
}


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("name", CASES)
def test_forward_is_onnx(name: str, tmp_path: Path) -> None:
    """The program computes what ONNX's reference evaluator does, in the steps that there are for it."""
    options, steps = CASES[name]
    model = net(**options)
    case = pipeline.load_inference_case(model.save(tmp_path / "model.onnx"))
    found = set(ops(fuse.fuse_program(case.program, Options())))
    assert steps <= found
    assert "Softmax" in steps or "Softmax" not in found
    built = compile_case(case, tmp_path / "c", "auto", 60_000)
    expected = ReferenceEvaluator(str(tmp_path / "model.onnx")).run(None, dict(case.inputs))[0]
    assert_close("Attention", built.run().arrays["scores"], expected)


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("name", CASES)
def test_trained(name: str, tmp_path: Path) -> None:
    """Training passes the check in float64; tables of angles and masks are no weights."""
    options, _ = CASES[name]
    model = net(**options).save(tmp_path / "model.onnx")
    data = {"x": drawn(4 * BATCH, TOKENS, 16), "labels": np.arange(4 * BATCH) % 5}
    report = build_train_graph(model, "cross_entropy", "sgd", 0.05, "", tmp_path, data=data)
    case = pipeline.load_training(report.train)
    assert {"wq", "wk", "wv", "wo", "gain"} >= set(case.program.weights)
    built = compile_case(case, tmp_path / "c", "auto", 60_000)
    assert not faults(built, built.run())


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "heads that do not divide": ({"q_num_heads": 5}, "has no 5 heads"),
    "no heads": ({"q_num_heads": 0}, "has no known number of heads"),
}


def test_integers_that_version_24_pads(tmp_path: Path) -> None:
    """Version 24 pads a mask of integers with the least one, which no int32 is: refused, and not taken for bools."""
    model = net(True, 0, 0, LOWER.astype(np.int64), opset=24)
    with raises(UserError, "(Pad)", "is not an integer that X can hold"):
        pipeline.load_inference_case(model.save(tmp_path / "model.onnx"))


@pytest.mark.parametrize("keys", [1, TOKENS - 1])
def test_masks_of_fewer_keys(keys: int, tmp_path: Path) -> None:
    """A mask that has not a number for each key is refused: versions of ONNX do not agree about it."""
    model = net(False, 0, 0, np.zeros((TOKENS, keys), np.float32), opset=24)
    with raises(UserError, "(Attention)", f"has no number for each of {TOKENS} keys"):
        pipeline.load_inference_case(model.save(tmp_path / "model.onnx"))


@pytest.mark.parametrize("name", WRONG)
def test_refused(name: str, tmp_path: Path) -> None:
    """A node whose operands have no such heads is named."""
    attrs, message = WRONG[name]
    nodes = [node("Attention", ("q", "q", "q"), ("y",), **{"q_num_heads": 2, "kv_num_heads": 2, **attrs})]
    model = Model(tuple(nodes), (value("q", (1, 3, 8)),), (value("y", None),), (), opsets=(("", 23),))
    with raises(UserError, "(Attention)", message):
        pipeline.load_inference_case(model.save(tmp_path / "model.onnx"))
