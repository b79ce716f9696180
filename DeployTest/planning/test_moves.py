"""Pad, Slice, Concat and Clip from the file to the trained weight, in every form that exporters write."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deployer.core import artefact
from deployer.core.errors import UnsupportedOperator
from deployer.core.ir import AttrValue, Node
from deployer.core.operator import registry
from deployer.core.samples import Sample
from deployer.testing.bench import bits, run_step, step_of
from deployer.verify.program import verify_program
from deployer.verify.reference import run_inference
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.built_cases import built, check_differences, mlp, opened, random
from DeployTest.support.graphs.small_graphs import (
    INT64,
    Model,
    chain,
    constant,
    infer,
    node,
    ops,
    opset_for,
    raises,
    value,
)

pytestmark = [pytest.mark.host, pytest.mark.training]


def ints(name: str, *values: int) -> onnx.TensorProto:
    """A constant vector as ONNX wants it."""
    return constant(name, np.array(values, np.int64))


LOW, HIGH = constant("low", np.float32(0.25)), constant("high", np.float32(0.75))
TRAINED: dict[str, tuple[Sequence[onnx.NodeProto], Sequence[onnx.TensorProto]]] = {
    "pad": ([node("Pad", ("h", "pads", "fill"), ("y",))], (ints("pads", 1, 0, 0, 2), constant("fill", np.float32(3)))),
    "pad_cuts": ([node("Pad", ("h", "pads"), ("y",))], (ints("pads", 1, -1, 0, 2),)),
    "pad_axes": ([node("Pad", ("h", "pads", "", "axes"), ("y",))], (ints("pads", 2, 1), ints("axes", -1))),
    "slice": (
        [node("Slice", ("h", "starts", "ends", "axes"), ("y",))],
        (ints("starts", -3), ints("ends", 2**63 - 1), ints("axes", 1)),
    ),
    "slice_steps": (
        [node("Slice", ("h", "starts", "ends", "axes", "steps"), ("y",))],
        (ints("starts", 1), ints("ends", 4), ints("axes", 1), ints("steps", 2)),
    ),
    "slice_attributes": ([node("Slice", ("h",), ("y",), starts=[0, 1], ends=[1, 3])], ()),
    "concat": ([node("Concat", ("h", "more", "h"), ("y",), axis=-1)], (constant("more", random(2, 3)),)),
    "concat_rows": ([node("Concat", ("h", "more"), ("y",), axis=0)], (constant("more", random(3, 4)),)),
    "clip": ([node("Clip", ("h", "low", "high"), ("y",))], (LOW, HIGH)),
    "clip_low": ([node("Clip", ("h", "low"), ("y",))], (LOW,)),
    "clip_high": ([node("Clip", ("h", "", "high"), ("y",))], (HIGH,)),
    "clip_vector": ([node("Clip", ("h", "low"), ("y",))], (constant("low", np.array([0.25], np.float32)),)),
    "clip_attributes": ([node("Clip", ("h",), ("y",), min=0.25, max=0.75)], ()),
    "split": (
        [
            node("Slice", ("h",), ("left",), starts=[0], ends=[2], axes=[1]),
            node("Slice", ("h",), ("right",), starts=[2], ends=[4], axes=[1]),
            node("Mul", ("left", "right"), ("product",)),
            node("Concat", ("product", "right", "left"), ("joined",), axis=1),
            node("Clip", ("joined",), ("y",), min=0.0, max=6.0),
        ],
        (),
    ),
}
PRODUCT = (node("Transpose", ("w1",), ("columns",), perm=[1, 0]), node("MatMul", ("x", "columns"), ("h",)))
"""The first layer where Gemm wants a bias."""


@pytest.mark.parametrize("name", TRAINED)
def test_training(name: str, tmp_path: Path) -> None:
    """The gradient is that of central differences, and the compiled case reaches the weights of the reference."""
    nodes, constants = TRAINED[name]
    model, opset = mlp(*nodes), opset_for(nodes)
    first = model.nodes[:1] if opset >= 11 else PRODUCT
    constants = (*model.initializers, *constants)
    model = replace(model, nodes=(*first, *nodes), initializers=constants, opsets=(("", opset),))
    report = built(tmp_path, model, trainable="w1|more")
    assert "w1" in report.trained
    check_differences(*opened(report.train))
    assert deployer("train", "-t", report.train, "-o", tmp_path) == 0


def _shapes(data: st.DataObject) -> tuple[int, ...]:
    return tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4), label="shape"))


def _pad(data: st.DataObject) -> Sample:
    shape = _shapes(data)
    pads = [data.draw(st.integers(-n + 1, 4)) for n in shape]
    ends = [data.draw(st.integers(max(1 - n - b, -n), 4)) for n, b in zip(shape, pads, strict=True)]
    return Sample("pad", (random(*shape),), {"pads": (*pads, *ends), "constant_value": -2.0})


def _slice(data: st.DataObject) -> Sample:
    shape = _shapes(data)
    starts = [data.draw(st.integers(0, n - 1)) for n in shape]
    ends = [data.draw(st.integers(s + 1, n)) for s, n in zip(starts, shape, strict=True)]
    steps = [data.draw(st.integers(1, 3)) for _ in shape]
    return Sample("slice", (random(*shape),), {"starts": tuple(starts), "ends": tuple(ends), "steps": tuple(steps)})


def _slice_grad(data: st.DataObject) -> Sample:
    shape = _shapes(data)
    steps = [data.draw(st.integers(1, 3)) for _ in shape]
    starts = [data.draw(st.integers(0, 3)) for _ in shape]
    rest = [data.draw(st.integers(1, 3)) for _ in shape]
    extents = [s + (n - 1) * t + r for n, t, s, r in zip(shape, steps, starts, rest, strict=True)]
    attrs: dict[str, AttrValue] = {"input_shape": tuple(extents), "starts": tuple(starts), "steps": tuple(steps)}
    return Sample("slice_grad", (random(*shape),), attrs)


def _concat(data: st.DataObject) -> Sample:
    shape = _shapes(data)
    axis, more = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.integers(1, 6))
    other = (*shape[:axis], more, *shape[axis + 1 :])
    return Sample("concat", (random(*shape), random(*other, seed=1)), {"axis": axis})


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("op", ["Pad", "Slice", "SliceGrad", "Concat"])
@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_form(op: str, data: st.DataObject) -> None:
    """Any shape, attributes and tile lengths give the bits of the reference."""
    sample = {"Pad": _pad, "Slice": _slice, "SliceGrad": _slice_grad, "Concat": _concat}[op](data)
    step = step_of(registry()[op], sample)
    if not step.access.dims:
        return
    [expected] = step.operator.reference(step.node, step.arrays)
    sizes = {d.name: data.draw(st.integers(1, d.size)) for d in step.access.dims}
    [result] = run_step(step, sizes, data.draw(st.permutations(range(3))))
    assert bits(result) == bits(expected)


def test_gradients_are_nodes_of_the_standard(tmp_path: Path) -> None:
    """If all steps are 1, the backward graph has operators of ONNX alone."""
    for name in ("pad", "slice", "concat"):
        nodes, constants = TRAINED[name]
        model = mlp(*nodes)
        model = Model(model.nodes, model.inputs, model.outputs, (*model.initializers, *constants))
        report = built(tmp_path / name, model, trainable="" if name != "concat" else "^(w1|more)$")
        graph = onnx.load(str(report.train / "network.onnx")).graph
        assert "SliceGrad" not in {n.op_type for n in graph.node}


@pytest.mark.torch
def test_gradient_at_the_bounds_is_pytorchs() -> None:
    """The gradient of Clip passes at the bounds and not beyond them, as in PyTorch."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = torch.tensor([-1.0, 0.0, 1.0, 6.0, 7.0, float("nan")], requires_grad=True)
    torch.clamp(x, 0.0, 6.0).sum().backward()
    step = Node("n", "ClipGrad", ("dy", "x"), ("dx",), {"min": 0.0, "max": 6.0})
    [gradient] = registry()["ClipGrad"].reference(step, [np.ones(6, np.float32), x.detach().numpy()])
    np.testing.assert_array_equal(gradient, x.grad.numpy())


def test_shapes_are_folded(tmp_path: Path) -> None:
    """Shape arithmetic of exporters with these operators is folded at compile time."""
    model = chain(
        node("Shape", ("x",), ("s",)),
        node("Slice", ("s", "zero", "one"), ("batch",)),
        node("Concat", ("batch", "rest"), ("shape",), axis=0),
        node("Reshape", ("x", "shape"), ("y",)),
        x=(2, 3, 4),
        initializers=(ints("zero", 0), ints("one", 1), ints("rest", -1)),
    )
    program = infer(tmp_path, model)
    assert ops(program) == []
    assert program.tensors["y"].type.shape == (2, 12)


def test_axes_of_one_element_are_passed_over(tmp_path: Path) -> None:
    """An axis of one element, first or between others, does not hinder the exchange of the others."""
    x = np.arange(6, dtype=np.float32)
    for shape, perm in (((3, 1, 2), (2, 1, 0)), ((2, 3, 1), (2, 1, 0)), ((1, 2, 3), (0, 2, 1))):
        program = infer(tmp_path, chain(node("Transpose", ("x",), ("y",), perm=perm), x=shape))
        image = x.reshape(shape)
        np.testing.assert_array_equal(run_inference(program, {"x": image})["y"], image.transpose(perm))


def test_infinite_constants(tmp_path: Path) -> None:
    """An infinite padding value, as for maxima, survives in an artefact."""
    pad = node("Pad", ("x",), ("y",), pads=[0, 1, 0, 0], value=-float("inf"))
    program = infer(tmp_path, chain(pad, opsets=(("", opset_for([pad])),)))
    again = artefact.from_jsonable(type(program), artefact.to_jsonable(program))
    assert again == program
    padded = run_inference(again, {"x": np.zeros((2, 3), np.float32)}, np.float32)["y"]
    assert (padded[:, 0] == -np.inf).all()


def test_forms_that_do_not_exist(tmp_path: Path) -> None:
    """Modes, steps that stand and values computed at run time are refused by name."""
    with raises(UnsupportedOperator, "node 'Pad_y' (Pad)", "mode is 'mirror'"):
        infer(tmp_path, chain(node("Pad", ("x",), ("y",), pads=[1, 1, 1, 1], mode="mirror"), opsets=(("", 10),)))
    with raises(UnsupportedOperator, "node 'Slice_y' (Slice)", "step"):
        steps = (ints("starts", 0), ints("ends", 2), ints("axes", 1), ints("steps", 0))
        infer(tmp_path, chain(node("Slice", ("x", *(t.name for t in steps)), ("y",)), initializers=steps))
    model = chain(node("Pad", ("x", "pads"), ("y",)))
    with raises(UnsupportedOperator, "input 1 ('pads'), its 'pads'", "run time"):
        infer(tmp_path, Model(model.nodes, (*model.inputs, value("pads", (4,), onnx.TensorProto.INT64)), model.outputs))


POOL = {"kernel_shape": [2, 2]}
IMAGE = (1, 1, 4, 4)


@pytest.mark.parametrize("outputs", [("y",), ("y", ""), ("y", "mask")])
@pytest.mark.parametrize(("op", "attrs"), [("MaxPool", POOL), ("Dropout", {})])
def test_masks_that_nobody_reads(op: str, attrs: dict[str, object], outputs: tuple[str, ...], tmp_path: Path) -> None:
    """A second output that no node reads is no obstacle, whether it has a name or not."""
    program = infer(tmp_path, chain(node(op, ("x",), outputs, **attrs), x=IMAGE))
    verify_program(program)
    assert "mask" not in program.tensors


@pytest.mark.parametrize(("op", "attrs"), [("MaxPool", POOL)])
def test_masks_that_are_read(op: str, attrs: dict[str, object], tmp_path: Path) -> None:
    """The error for an output that is not computed names its reader, a node or the graph's outputs."""
    first = node(op, ("x",), ("p", "m"), "first", **attrs)
    texts = (f"node 'first' ({op})", "its output 1 ('m')", "nothing here computes")
    with raises(UnsupportedOperator, *texts, "node 'Flatten_y' (Flatten) reads"):
        infer(tmp_path, chain(first, node("Flatten", ("m",), ("y",)), x=IMAGE))
    model = Model((first,), (value("x", IMAGE),), (value("p", None), value("m", None, INT64)))
    with raises(UnsupportedOperator, *texts, "the infer graph reads"):
        infer(tmp_path, model)


def test_mask_of_a_constant(tmp_path: Path) -> None:
    """A node that is computed at compile time has no second output either."""
    nodes = (node("MaxPool", ("c",), ("p", "m"), "first", **POOL), node("Flatten", ("m",), ("y",)))
    constants = (constant("c", np.ones(IMAGE, np.float32)),)
    with raises(UnsupportedOperator, "node 'first' (MaxPool)", "nothing here computes"):
        infer(tmp_path, Model(nodes, (), (value("y", None, INT64),), constants))
