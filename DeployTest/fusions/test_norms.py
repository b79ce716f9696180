"""Norms by rows, their gradients in fewer steps, and the Relu or the gate of one in the same step; the bits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer import pipeline
from deployer.core.ir import AttrValue, Program
from deployer.core.operator import Array, registry
from deployer.core.plan import Options
from deployer.core.samples import Sample
from deployer.fusions.pair import is_plain
from deployer.testing.bench import bits, run_step, step_of
from deployer.verify.reference import run_inference
from DeployTest.support.graphs.fusing import EVERY, fused
from DeployTest.support.graphs.small_graphs import Model, constant, infer, node, ops, value

pytestmark = [pytest.mark.host, pytest.mark.training]

ROWS, COLUMNS = 9, 70
WIDE, ROW = (ROWS, COLUMNS), (COLUMNS,)
MICROSOFT = "com.microsoft"
NORM = node("LayerNormalization", ("x", "scale", "bias"), ("n",), "norm", axis=-1)
RELU = node("Relu", ("n",), ("y",), "relu")
GRADS = ("dx", "dscale", "dbias")


def graph(nodes: list[onnx.NodeProto], outputs: tuple[str, ...], rows: int = ROWS, **shapes: tuple[int, ...]) -> Model:
    """Nodes over `x` and `dy` of so many rows, and numbers of a column or of a row."""
    known = {
        "x": (rows, COLUMNS),
        "dy": (rows, COLUMNS),
        "scale": ROW,
        "bias": ROW,
        "mean": (rows, 1),
        "inv": (rows, 1),
    }
    read = {name for n in nodes for name in n.input} - {name for n in nodes for name in n.output}
    inputs = tuple(value(name, shape) for name, shape in (known | shapes).items() if name in read)
    return Model(tuple(nodes), inputs, tuple(value(name, None) for name in outputs))


def gradient(x: str = "x", outputs: tuple[str, ...] = GRADS) -> onnx.NodeProto:
    """The gradient of layer normalization of `x`."""
    return node("LayerNormalizationGrad", ("dy", x, "scale", "mean", "inv"), outputs, "grad", domain=MICROSOFT, axis=-1)


def same(program: Program, options: Options = EVERY) -> Program:
    """The program after fusion, which gives the same float32 results on drawn inputs."""
    fusion, random = fused(program, options), np.random.default_rng(3)
    inputs = {n: random.standard_normal(program.tensors[n].type.shape).astype(np.float32) for n in program.data}
    before, after = run_inference(program, inputs), run_inference(fusion, inputs)
    assert {n: bits(x) for n, x in before.items()} == {n: bits(x) for n, x in after.items()}
    return fusion


@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
def test_layer_normalization_is_one_step(relu: bool, tmp_path: Path) -> None:
    """Moments and result are one node, with a Relu behind; statistics that nobody reads are not made."""
    program = infer(tmp_path, graph([NORM, RELU] if relu else [NORM], ("y",) if relu else ("n",)))
    (joint,) = same(program).nodes
    assert joint.op == "LayerNormalizeRows"
    assert joint.attr_str("activation", "") == ("Relu" if relu else "")
    assert len(joint.outputs) == 1
    apart = ["ChannelMoments", "LayerNormalize"]
    assert ops(same(program, Options(disabled_rewrites=("joint",)))) == apart
    assert ops(fused(program, Options(allow_rewrites=False))) == [*apart, "Relu"][: 2 + relu]


def test_saved_statistics_stay(tmp_path: Path) -> None:
    """Statistics that are read are results of the one step."""
    whole = node("LayerNormalization", ("x", "scale", "bias"), ("n", "m", "i"), "norm", axis=-1)
    (joint,) = same(infer(tmp_path, graph([whole], ("n", "m", "i")))).nodes
    assert joint.op == "LayerNormalizeRows"
    assert len(joint.outputs) == 3


def test_few_rows_stay_two_steps(tmp_path: Path) -> None:
    """Fewer rows than cores are normalized by all cores, not by one each."""
    program = infer(tmp_path, graph([NORM], ("n",), rows=7))
    assert ops(same(program)) == ["ChannelMoments", "LayerNormalize"]
    program = infer(tmp_path, graph([gradient()], GRADS, rows=7))
    assert ops(same(program)) == ["LayerScaleGrad", "LayerSums", "LayerNormalizeGrad"]


def test_gradients_of_layer_normalization_are_two_steps(tmp_path: Path) -> None:
    """Sums over columns of both parameters are one node, those over rows are one with dX."""
    program = infer(tmp_path, graph([gradient()], GRADS))
    assert ops(fused(program, Options(allow_rewrites=False))) == [
        "ReduceSum",
        "LayerScaleGrad",
        "LayerSums",
        "LayerNormalizeGrad",
    ]
    fusion = same(program)
    assert ops(fusion) == ["LayerScaleGrad", "LayerInputGrad"]
    assert fusion.nodes[0].outputs[:2] == ("dscale", "dbias")
    assert ops(same(program, Options(disabled_rewrites=("joint",)))) == ops(
        fused(program, Options(allow_rewrites=False))
    )


@pytest.mark.parametrize(
    "total",
    [
        node("ReduceSum", ("dy",), ("t",), "total", keepdims=1),
        node("ReduceSum", ("x",), ("t",), "total", keepdims=0),
    ],
    ids=["everything", "another operand"],
)
def test_other_sums_stay(total: onnx.NodeProto, tmp_path: Path) -> None:
    """A sum of something else, or over other axes, is no gradient of the bias."""
    program = infer(tmp_path, graph([gradient(outputs=("", "dscale")), total], ("dscale", "t")))
    assert sorted(ops(same(program))) == ["LayerScaleGrad", "ReduceSum"]


def relu_before(op: str, reads: str) -> tuple[list[onnx.NodeProto], tuple[str, ...]]:
    """The gradient of a norm of a Relu's Y, and behind it that of the Relu whose Y is `reads`."""
    forward = node("Relu", ("x",), ("r",), "forward")
    other = node("Relu", ("dy",), ("q",), "other")
    if op == "layer":
        norm = gradient("r", ("d",))
    else:
        operands = ("dy", "r", "scale", "mean", "inv")
        norm = node("BatchNormalizationGrad", operands, ("d", "dscale", "dbias"), "grad", domain=MICROSOFT)
    gate = node("ReluGrad", ("d", reads), ("y",), "gate", domain=MICROSOFT)
    return [forward, other, norm, gate], ("y", "q")


@pytest.mark.parametrize("op", ["layer", "batch"])
def test_gate_of_the_norms_own_input(op: str, tmp_path: Path) -> None:
    """The gradient of a Relu before a norm is a part of the norm's dX, which reads its Y; another's is not."""
    shapes = {"scale": (COLUMNS,), "mean": (COLUMNS,), "inv": (COLUMNS,)} if op == "batch" else {}
    nodes, outputs = relu_before(op, "r")
    fusion = same(infer(tmp_path, graph(nodes, outputs, **shapes)))
    assert "ReluGrad" not in ops(fusion)
    assert fusion.nodes[-1].attr_int("gated", 0) == 1
    assert fusion.nodes[-1].name.endswith("+gate")
    nodes, outputs = relu_before(op, "q")
    assert "ReluGrad" in ops(same(infer(tmp_path, graph(nodes, outputs, **shapes))))


def test_gates_are_named(tmp_path: Path) -> None:
    """A plan says of the joint step that it has a gate, and nothing more is taken into one that has."""
    program = infer(tmp_path, graph(*relu_before("layer", "r")))
    _, plan = pipeline.plan_program(program, Options("host"))
    assert [step.op_label for step in plan.steps if step.op == "LayerInputGrad"] == ["LayerInputGrad+ReluGrad"]
    joint = next(n for n in fused(program).nodes if n.op == "LayerInputGrad")
    assert not is_plain(joint)
    assert is_plain(replace(joint, attrs={"axis": -1}))


def _kernel(op: str, inputs: tuple[Array | None, ...], attrs: dict[str, AttrValue], outputs: int = 1) -> list[Array]:
    step = step_of(registry()[op], Sample("part", inputs, attrs, outputs))
    return run_step(step, step.access.sizes)[:outputs]


@pytest.mark.parametrize("sample", list(registry()["LayerNormalizeRows"].samples()), ids=lambda sample: sample.label)
def test_kernel_by_rows_leaves_the_same_bits(sample: Sample) -> None:
    """Kernels by rows leave the bits that moments and normalization leave one after the other, in any tiles."""
    x, *affine = (v for v in sample.inputs if v is not None)
    axis = step_of(registry()["LayerNormalizeRows"], sample).node.attr_int("axis", -1) % x.ndim
    rows = int(np.prod(x.shape[:axis], dtype=int))
    epsilon: dict[str, AttrValue] = {"epsilon": sample.attrs.get("epsilon", 1e-5)}
    moments = _kernel("ChannelMoments", (x.reshape(1, rows, -1),), epsilon, 3)
    shape = x.shape[:axis] + (1,) * (x.ndim - axis)
    attrs = {name: v for name, v in sample.attrs.items() if name != "epsilon"}
    mean, inv_std, rest = (m.reshape(shape) for m in moments)
    (y,) = _kernel("LayerNormalize", (x, mean, inv_std, *affine, *[None] * (2 - len(affine)), rest), attrs)
    step = step_of(registry()["LayerNormalizeRows"], sample)
    for tile in (step.access.sizes, {"r": 3}):
        found = run_step(step, tile)
        assert [bits(v) for v in found] == [bits(v) for v in (y, *moments)[: len(found)]]


@pytest.mark.parametrize("sample", list(registry()["LayerInputGrad"].samples()), ids=lambda sample: sample.label)
def test_gradient_by_rows_leaves_the_same_bits(sample: Sample) -> None:
    """dX by rows has the bits of the sums and of what reads them."""
    operands, (rest, *added) = sample.inputs[:5], sample.inputs[5:]
    axis = {"axis": sample.attrs["axis"]}
    sums = _kernel("LayerSums", (*operands, rest), axis, 2)
    (dx,) = _kernel("LayerNormalizeGrad", (*operands, *sums, rest, *added), dict(sample.attrs))
    step = step_of(registry()["LayerInputGrad"], sample)
    for tile in (step.access.sizes, {"r": 2}):
        assert bits(run_step(step, tile)[0]) == bits(dx)


def test_second_sum_leaves_the_same_bits() -> None:
    """The gradient of the bias has the bits of a sum of its own, of one block and of several."""
    samples = [s for s in registry()["LayerScaleGrad"].samples() if s.label in ("rows", "long")]
    assert len(samples) == 2
    for sample in samples:
        dy, *rest = (v for v in sample.inputs if v is not None)
        step = step_of(registry()["LayerScaleGrad"], replace(sample, label="both"))
        axis = step.node.attr_int("axis", -1) % dy.ndim
        (scale,) = _kernel("LayerScaleGrad", (dy, *rest), dict(sample.attrs))
        (bias,) = _kernel("ReduceSum", (dy,), {"axes": tuple(range(axis)), "keepdims": 0})
        assert [bits(v) for v in run_step(step, step.access.sizes)[:2]] == [bits(scale), bits(bias)]


RESIDUAL = node("Add", ("dx", "res"), ("y",), "sum")
SWAPPED = node("Add", ("res", "dx"), ("y",), "sum")
VIEWED = [
    node("Reshape", ("dx", "shape"), ("v",)),
    node("Add", ("v", "res"), ("y",), "sum"),
]
SUMS: dict[str, tuple[list[onnx.NodeProto], tuple[int, ...]]] = {
    "behind": ([RESIDUAL], WIDE),
    "in front": ([SWAPPED], WIDE),
    "in another view": (VIEWED, (3, 3, COLUMNS)),
}
STAYS: dict[str, tuple[list[onnx.NodeProto], tuple[int, ...], tuple[str, ...]]] = {
    "a row": ([RESIDUAL], ROW, ("y",)),
    "a number per row": ([RESIDUAL], (ROWS, 1), ("y",)),
    "with itself": ([node("Add", ("dx", "dx"), ("y",), "sum")], WIDE, ("y",)),
    "with another reader": ([RESIDUAL], WIDE, ("y", "dx")),
}


def with_sum(
    kind: str, sums: list[onnx.NodeProto], shape: tuple[int, ...], outputs: tuple[str, ...], rows: int
) -> Model:
    """The gradient of a norm by X, and a sum with `res` behind it."""
    outer = node("SimplifiedLayerNormalizationGrad", ("dy", "x", "scale", "inv"), ("dx",), "grad", domain=MICROSOFT)
    norm = gradient(outputs=("dx",)) if kind == "layer" else outer
    whole = graph([norm, *sums], outputs, rows, res=shape)
    return replace(whole, initializers=(constant("shape", np.array([3, 3, COLUMNS])),)) if sums is VIEWED else whole


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_residual_gradient_is_added_by_the_norm(kind: str, name: str, tmp_path: Path) -> None:
    """The gradient of a residual branch is added by the step that makes dX of the norm beside it."""
    program = infer(tmp_path, with_sum(kind, *SUMS[name], ("y",), ROWS))
    fusion = same(program)
    assert ops(fusion) == ["LayerInputGrad" if kind == "layer" else "RmsInputGrad"]
    assert fusion.nodes[-1].inputs[-1].startswith("res")
    assert fusion.nodes[-1].name.endswith("+sum")
    assert not is_plain(fusion.nodes[-1])
    assert "Add" in ops(same(program, Options(disabled_rewrites=("addend",))))


@pytest.mark.parametrize("name", STAYS)
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_other_sums_of_a_norms_gradient_stay(kind: str, name: str, tmp_path: Path) -> None:
    """A sum with what has fewer elements, with itself or of what others read stays a step of its own."""
    sums, shape, outputs = STAYS[name]
    assert ops(same(infer(tmp_path, with_sum(kind, sums, shape, outputs, ROWS)))).count("Add") == 1


def test_residual_gradient_of_few_rows(tmp_path: Path) -> None:
    """The second of two steps that make dX of few rows adds the other gradient."""
    program = infer(tmp_path, with_sum("layer", [RESIDUAL], (7, COLUMNS), ("y",), 7))
    assert ops(same(program)) == ["LayerSums", "LayerNormalizeGrad"]


def test_residual_gradient_that_comes_later(tmp_path: Path) -> None:
    """An RMS norm's dX is computed at the time of the sum where the other gradient comes behind."""
    late = node("Exp", ("x",), ("res",), "late")
    model = with_sum("rms", [late, RESIDUAL], WIDE, ("y",), ROWS)
    assert ops(same(infer(tmp_path, model))) == ["Exp", "RmsInputGrad"]


def test_gate_behind_a_residual_gradient(tmp_path: Path) -> None:
    """The gradient of a Relu whose Y the norm and a residual branch read is a part of the norm's dX, too."""
    gate = node("ReluGrad", ("y", "r"), ("z",), "gate", domain=MICROSOFT)
    nodes = [node("Relu", ("x",), ("r",), "forward"), gradient("r", ("dx",)), RESIDUAL, gate]
    fusion = same(infer(tmp_path, graph(nodes, ("z",), res=WIDE)))
    assert ops(fusion) == ["Relu", "LayerInputGrad"]
    assert fusion.nodes[-1].name.endswith("+sum+gate")


@pytest.mark.parametrize("op", ["RmsInputGrad", "LayerInputGrad", "LayerNormalizeGrad"])
def test_added_gradient_leaves_the_same_bits(op: str) -> None:
    """A kernel that adds has the bits of one that does not with an Add behind, in any tiles."""
    samples = [sample for sample in registry()[op].samples() if sample.label.endswith("_added")]
    assert len(samples) == 5
    for sample in samples:
        *operands, added = sample.inputs
        (dx,) = _kernel(op, tuple(operands), dict(sample.attrs))
        (total,) = _kernel("Add", (dx, added), {})
        step = step_of(registry()[op], sample)
        for tile in (step.access.sizes, {**step.access.sizes, "r": 2}):
            assert bits(run_step(step, tile)[0]) == bits(total)
