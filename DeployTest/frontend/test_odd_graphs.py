"""Graphs that no exporter should write: refused by name with exit code 2, or as ONNX Runtime has them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from deployer.verify.reference import run_inference
from DeployTest.support.building.command_line import refused
from DeployTest.support.graphs.small_graphs import (
    BUFFER,
    INT64,
    OPTIMIZER,
    TRAIN,
    Case,
    Model,
    chain,
    constant,
    infer,
    node,
    value,
)
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]

NAN, INF = float("nan"), float("inf")
FC, LOSS, _, PRODUCT, ACCUMULATE = TRAIN.nodes
CLASSES = 4


def f32(*numbers: float) -> np.ndarray:
    """A vector of float32."""
    return np.array(numbers, np.float32)


def with_gemm(**attrs: object) -> Case:
    """The small training case with another first layer."""
    return Case(replace(TRAIN, nodes=(node("Gemm", ("x", "w"), ("y",), "fc", **attrs), *TRAIN.nodes[1:])))


def with_step(*inputs: str, op: str = "SGD", **attrs: object) -> Case:
    """The small training case with another optimizer node."""
    step = node(op, inputs or ("w", BUFFER), ("w_updated",), "step", **attrs)
    return Case(optimizer=replace(OPTIMIZER, nodes=(step,)))


def with_layer(op: str, *inputs: str, **attrs: object) -> Case:
    """A node between the first layer and the loss."""
    layer = node(op, inputs or ("y",), ("z",), "odd", **attrs)
    loss = (node("MSELoss", ("z", "t"), ("loss",)), node("MSELossGrad", ("z", "t"), ("y_grad",)))
    return Case(replace(TRAIN, nodes=(FC, layer, *loss, PRODUCT, ACCUMULATE)))


def labelled(labels: Sequence[int], *between: object, name: str = "labels", fixed: bool = False) -> Case:
    """Cross entropy over CLASSES classes, with labels from the samples, through nodes, or in the graph."""
    nodes = (
        *(FC, *between, node("SoftmaxCrossEntropyLoss", ("y", name), ("loss", "log_prob"), "ce")),
        node("SoftmaxCrossEntropyLossGrad", ("log_prob", name), ("y_grad",), domain="com.microsoft"),
        *(PRODUCT, ACCUMULATE),
    )
    array = np.array(labels, np.int64)
    if fixed:
        inputs, initializers = (TRAIN.inputs[0], *TRAIN.inputs[1:]), (constant("labels", array),)
        return Case(replace(TRAIN, nodes=nodes, inputs=inputs, initializers=initializers))
    shape = (1, 2) if between else (2,)
    inputs = (TRAIN.inputs[0], value("labels", shape, INT64), *TRAIN.inputs[2:])
    arrays = {f"{prefix}arr_0001": array.reshape(shape) for prefix in ("", "mb1_")}
    return Case(replace(TRAIN, nodes=nodes, inputs=inputs), arrays=arrays)


def with_flag(name: str) -> Case:
    """The case whose accumulation is reset by another input."""
    step = node("InPlaceAccumulatorV2", (BUFFER, "w_grad", name), ("w_out",), domain="com.microsoft")
    return Case(replace(TRAIN, nodes=(*TRAIN.nodes[:-1], step)))


FLAT = node("Reshape", ("labels", "two"), ("flat",))
TWO = node("Constant", (), ("two",), value_ints=[2])

TRAINING: dict[str, tuple[Case, str]] = {
    "transB 2": (with_gemm(transB=2), "(Gemm): transB is 2"),
    "transB -1": (with_gemm(transB=-1), "transB 0 or 1"),
    "transB text": (with_gemm(transB="1"), "attribute 'transB' is of kind STRING"),
    "transB 1.0": (with_gemm(transB=1.0), "attribute 'transB' is of kind FLOAT"),
    "alpha NaN": (with_gemm(transB=1, alpha=NAN), "node 'fc' (Gemm): alpha is nan"),
    "beta infinite": (with_gemm(transB=1, beta=INF), "beta is inf"),
    "alpha text": (with_gemm(transB=1, alpha="one"), "alpha"),
    "rate NaN": (with_step(lr=NAN), "node 'step' (SGD): lr is nan"),
    "rate infinite": (with_step(lr=-INF), "lr is -inf"),
    "rate text": (with_step(lr="fast"), "lr"),
    "rates": (with_step(lr=[0.1, 0.2]), "lr"),
    "epsilon NaN": (with_layer("LayerNormalization", "y", "g", epsilon=NAN), "odd"),
    "keepdims 2": (with_layer("ReduceSum", keepdims=2), "keepdims is 2"),
    "the weight as its gradient": (with_step("w", "w"), "overwrites 'w' and reads it as another operand"),
    "weight as its gradient": (with_step(BUFFER, "w"), "overwrites no weight"),
    "no gradient": (with_step("w"), "(SGD)"),
    "an optimizer without nodes": (Case(optimizer=replace(OPTIMIZER, nodes=())), "'w_updated' has no producer"),
    "an initializer over the weight": (
        Case(optimizer=replace(OPTIMIZER, initializers=(constant("w", np.zeros((4, 3), "f4")),))),
        "has an initializer over 'w', which is an input",
    ),
    "an initializer in place of the weight": (
        Case(optimizer=replace(OPTIMIZER, inputs=OPTIMIZER.inputs[1:], initializers=(constant("w", f32(*[0] * 12)),))),
        "has an initializer over 'w', which is an input",
    ),
    "an initializer over the accumulator": (
        Case(optimizer=replace(OPTIMIZER, initializers=(constant(BUFFER, np.zeros((4, 3), "f4")),))),
        f"has an initializer over '{BUFFER}'",
    ),
    "a flag that is a weight": (with_flag("w"), "'w' is a reset flag and a weight as well"),
    "a flag that is a buffer": (with_flag(BUFFER), f"'{BUFFER}' is a reset flag and a gradient buffer as well"),
    "label above": (labelled([0, CLASSES]), "holds label 4, outside the classes"),
    "label below": (labelled([-1, 0]), "holds label -1, outside the classes"),
    "label behind a view": (labelled([9, 0], TWO, FLAT, name="flat"), "'labels' holds label 9"),
    "label in the graph": (labelled([0, 7], fixed=True), "constant 'labels' holds label 7"),
}


@pytest.mark.parametrize(("case", "words"), TRAINING.values(), ids=TRAINING)
def test_training_graphs(case: Case, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fault of a training graph is its author's, and is named."""
    case.train.save(tmp_path / "m_train" / "network.onnx")
    case.optimizer.save(tmp_path / "m_optimizer" / "network.onnx")
    assert words in refused(capsys, "compile", "-t", case.dataset(tmp_path), "-o", tmp_path / "c")


def reduction(op: str, *constants: object, x: tuple[int, ...] = (2, 3), **attrs: object) -> Model:
    """One node from `x` to `y`, with further constant inputs; None is an absent one."""
    names = ["" if c is None else f"c{i}" for i, c in enumerate(constants)]
    initializers = [constant(n, np.asarray(c)) for n, c in zip(names, constants, strict=True) if n]
    return chain(node(op, ("x", *names), ("y",), "odd", **attrs), x=x, initializers=initializers, opsets=(("", 21),))


def integers(op: str, count: int = 1, **attrs: object) -> Model:
    """One node over integers that come with the samples."""
    inputs = tuple(value(f"i{k}", (2, 3), INT64) for k in range(count))
    return Model((node(op, [i.name for i in inputs], ("y",), "odd", **attrs),), inputs, (value("y", None),))


IMAGE = (1, 2, 6, 7)
KERNEL = np.ones((2, 2, 3, 3), np.float32)
REFUSED: dict[str, tuple[Model, str]] = {
    **{f"integer {op}": (integers(op), f"({op})") for op in ("Relu", "Exp", "Log", "Gelu", "ReduceSum", "Clip")},
    **{f"integer {op}": (integers(op, 2), f"({op})") for op in ("Add", "Pow", "MatMul", "Gemm", "MSELoss", "Concat")},
    "integer Transpose": (integers("Transpose", perm=[1, 0]), "int32"),
    "integer Softmax": (integers("Softmax"), "float32"),
    "keepdims 2": (reduction("ReduceMean", keepdims=2), "keepdims is 2"),
    "keepdims -1": (reduction("ReduceMax", keepdims=-1), "keepdims is -1"),
    "noop 3": (reduction("ReduceSum", noop_with_empty_axes=3), "noop_with_empty_axes is 3"),
    "axes twice": (reduction("ReduceSum", np.array([0, -2])), "one axis twice"),
    "axis outside": (reduction("ReduceSum", np.array([2])), "outside rank 2"),
    "axes of floats": (reduction("ReduceSum", f32(0.0)), "not a list of integers"),
    "ceil_mode 2": (reduction("MaxPool", x=IMAGE, kernel_shape=[2, 2], ceil_mode=2), "ceil_mode is 2"),
    "storage_order 2": (reduction("MaxPool", x=IMAGE, kernel_shape=[2, 2], storage_order=2), "storage_order is 2"),
    "count_include_pad 3": (
        reduction("AveragePool", x=IMAGE, kernel_shape=[2, 2], count_include_pad=3),
        "count_include_pad is 3",
    ),
    "pool VALID and pads": (
        reduction("MaxPool", x=IMAGE, kernel_shape=[2, 2], auto_pad="VALID", pads=[1, 0, 0, 0]),
        "auto_pad VALID with pads",
    ),
    "Conv VALID and pads": (
        reduction("Conv", KERNEL, x=IMAGE, auto_pad="VALID", pads=[1, 0, 0, 0]),
        "and pads at once",
    ),
    "Conv SAME and pads": (reduction("Conv", KERNEL, x=IMAGE, auto_pad="SAME_UPPER", pads=[1] * 4), "and pads at once"),
    "SAME_UPPER, stride 7": (reduction("Conv", KERNEL, x=IMAGE, auto_pad="SAME_UPPER", strides=[7, 7]), "would cut X"),
    "SAME_LOWER, stride 9": (reduction("Conv", KERNEL, x=IMAGE, auto_pad="SAME_LOWER", strides=[9, 9]), "would cut X"),
    "stride 0": (reduction("Conv", KERNEL, x=IMAGE, strides=[0, 1]), "strides"),
    "dilation 0": (reduction("Conv", KERNEL, x=IMAGE, dilations=[0, 1]), "dilations"),
    "group 0": (reduction("Conv", KERNEL, x=IMAGE, group=0), "in 0 groups"),
    "stride 2^40": (reduction("Conv", KERNEL, x=(1, 2, 3, 3), strides=[1 << 40, 1]), "kernel argument sh"),
    "pads below 0": (reduction("Conv", KERNEL, x=IMAGE, pads=[-1, 0, 0, 0]), "cut X"),
    "floats as strides": (reduction("Conv", KERNEL, x=IMAGE, strides=[1.5, 1.0]), "strides"),
    "Clip with NaN": (reduction("Clip", np.float32(NAN)), "min is NaN"),
    "Clip up to NaN": (reduction("Clip", None, np.float32(NAN)), "max is NaN"),
    "allowzero 2": (reduction("Reshape", np.array([3, 2]), allowzero=2), "allowzero is 2"),
    "two -1": (reduction("Reshape", np.array([-1, -1])), "more than one -1"),
    "a shape of floats": (reduction("Reshape", f32(3, 2)), "not a list of integers"),
    "no permutation": (reduction("Transpose", perm=[0, 0]), "not a permutation"),
    "step 0": (reduction("Slice", *(np.array([n]) for n in (0, 1, 0, 0))), "(Slice)"),
    "mode mirror": (reduction("Pad", np.array([1, 0, 1, 0]), mode="mirror"), "mode is 'mirror'"),
    "two numbers that no element is filled with": (
        reduction("Pad", np.array([1, 0, 1, 0]), f32(0.5, -2), mode="edge"),
        "constant_value is (0.5, -2.0)",
    ),
    "Dropout by NaN": (reduction("Dropout", np.float32(NAN)), "ratio is nan"),
    "Dropout of all": (reduction("Dropout", np.float32(1)), "ratio is 1.0"),
    "parts beyond number": (reduction("Split", num_outputs=1 << 62), "makes 4611686018427387904 parts"),
    "parts of a number": (reduction("Split", np.array(2), x=(2, 3)), "its lengths are the number 2"),
    "gradient without batch": (reduction("KLDivLossGrad", f32(1, 2), x=(2,)), "its batch is 0"),
    "batch below zero": (reduction("KLDivLoss", f32(1, 2), x=(2,), batch=-2), "its batch is -2"),
    "momentum NaN": (
        reduction("BatchNormalization", *[f32(1, 1)] * 4, x=IMAGE, momentum=NAN),
        "momentum is nan",
    ),
    "epsilon infinite": (reduction("BatchNormalization", *[f32(1, 1)] * 4, x=IMAGE, epsilon=INF), "epsilon is inf"),
    "training_mode 3": (
        reduction("BatchNormalization", *[f32(1, 1)] * 4, x=IMAGE, training_mode=3),
        "training_mode is 3",
    ),
    "ignore_index 2^40": (
        reduction("SoftmaxCrossEntropyLoss", np.array([0, 1]), ignore_index=1 << 40),
        "kernel argument ignore",
    ),
    "a label beyond": (reduction("SoftmaxCrossEntropyLoss", np.array([0, 3])), "constant 'c0' holds label 3"),
    "a label below, in a loss of constants": (
        Model(
            (node("NegativeLogLikelihoodLoss", ("p", "l"), ("y",), "odd"),),
            (),
            (value("y", None),),
            (constant("p", np.zeros((2, 3), np.float32)), constant("l", np.array([0, -1]))),
        ),
        "constant 'l' holds label -1",
    ),
    "Concat of nothing": (Model((node("Concat", (), ("y",), "odd", axis=0),), (), (value("y", None),)), "(Concat)"),
    "0 to the power -1": (
        Model(
            (node("Pow", ("a", "b"), ("y",), "odd"),),
            (),
            (value("y", None, INT64),),
            (constant("a", np.array([0, 2])), constant("b", np.array([-1, 2]))),
        ),
        "negative exponent",
    ),
    "integers by zero": (
        Model(
            (node("Div", ("a", "b"), ("y",), "odd"),),
            (),
            (value("y", None, INT64),),
            (constant("a", np.array([1, 2])), constant("b", np.array([1, 0]))),
        ),
        "divided by zero",
    ),
    "an integer padded by a half": (
        Model(
            (node("Pad", ("a", "p", "h"), ("y",), "odd"),),
            (),
            (value("y", None, INT64),),
            (constant("a", np.array([1])), constant("p", np.array([1, 1])), constant("h", np.float32(0.5))),
        ),
        "constant_value is a float",
    ),
    "a float padded by an integer": (
        reduction("Pad", np.array([1, 0, 1, 0]), np.int64(1)),
        "constant_value is an integer",
    ),
    "Clip from an integer": (reduction("Clip", np.int32(0)), "min is an integer"),
    "Clip to integers": (reduction("Clip", None, np.array([1])), "max is an integer"),
    "Clip from a row": (
        chain(node("Clip", ("c", "", "x"), ("y",), "odd"), x=(3,), initializers=(constant("c", f32(1)),)),
        "max is float32[3]",
    ),
    "Clip of a scalar to a list": (
        chain(node("Clip", ("c", "x"), ("y",), "odd"), x=(1,), initializers=(constant("c", np.float32(1)),)),
        "min is float32[1]",
    ),
    "Concat with an input without name": (
        chain(node("Concat", ("x", "x", ""), ("y",), "odd", axis=0), x=(3,)),
        "its input 2 has no name",
    ),
    "Split of less than all": (reduction("Split", np.array([1])), "lengths (1,) do not add up to 2"),
    "Tile by zero": (reduction("Tile", np.array([2, 0])), "not one positive number for each axis"),
    "Dropout told by a float": (reduction("Dropout", None, np.float32(1)), "training_mode is 1.0, not an integer"),
    "Dropout told by an integer": (reduction("Dropout", None, np.array(0)), "its input 2 ('c1') is of type INT64"),
    "InstanceNormalization of rows": (
        reduction("InstanceNormalization", f32(1, 1, 1), f32(0, 0, 0), x=(2, 3)),
        "no axis behind its channels",
    ),
    "Flatten before version 11": (replace(reduction("Flatten", axis=-1), opsets=(("", 9),)), "axis is -1"),
    "Squeeze by no axes of one element": (
        reduction("Squeeze", np.array([], np.int64), x=(1, 3)),
        "axes are an empty list",
    ),
    "no imports": (replace(reduction("Relu"), opsets=()), "imports no version of any domain"),
}


@pytest.mark.parametrize(("model", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(model: Model, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A form without one meaning is refused, and the message says which attribute or input it is."""
    model.save(tmp_path / "network.onnx")
    np.savez(tmp_path / "inputs.npz", x=np.zeros(1))
    np.savez(tmp_path / "outputs.npz", y=np.zeros(1))
    assert words in refused(capsys, "infer", "-t", tmp_path, "-o", tmp_path / "c", "--skipsim")


ACCEPTED: dict[str, Model] = {
    "Softmax of rank 3": reduction("Softmax", x=(2, 3, 4)),
    "LogSoftmax of rank 4": reduction("LogSoftmax", x=(2, 3, 4, 2)),
    "Squeeze by no axes": reduction("Squeeze", np.array([], np.int64), x=(2, 3)),
    "Squeeze of all": reduction("Squeeze", x=(1, 1)),
    "Clip from infinity": reduction("Clip", np.float32(INF)),
    "Clip to -infinity": reduction("Clip", None, np.float32(-INF)),
    "Clip of infinities": reduction("Clip", np.float32(-1)),
    "Clip without bounds": reduction("Clip"),
    "Clip crossed": reduction("Clip", np.float32(1), np.float32(-1)),
    "SAME_UPPER, stride above the kernel": reduction(
        "Conv", np.ones((2, 2, 1, 1), np.float32), x=IMAGE, auto_pad="SAME_UPPER", strides=[2, 2]
    ),
    "SAME_LOWER, stride above the kernel": reduction(
        "Conv", np.ones((2, 2, 1, 1), np.float32), x=IMAGE, auto_pad="SAME_LOWER", strides=[2, 2]
    ),
    "SAME_LOWER, even kernel": reduction(
        "Conv", np.ones((2, 2, 2, 4), np.float32), x=IMAGE, auto_pad="SAME_LOWER", strides=[2, 3]
    ),
    "pool VALID": reduction("MaxPool", x=IMAGE, kernel_shape=[2, 3], strides=[3, 2], auto_pad="VALID", pads=[0] * 4),
    "pool VALID with ceil_mode": reduction("AveragePool", x=IMAGE, kernel_shape=[2, 3], auto_pad="VALID"),
    "negative epsilon": reduction("LayerNormalization", f32(1, 2, 3), epsilon=-1.0),
    "negative axes": reduction("ReduceMax", np.array([-1, 0]), x=(2, 3, 4)),
    "end of the world": reduction("Slice", *(np.array([n]) for n in (-(1 << 63), (1 << 63) - 1, 1, 1 << 62))),
    "Reshape with zero and -1": reduction("Reshape", np.array([0, -1, 1]), x=(2, 3, 4)),
    "Pad with infinity": reduction("Pad", np.array([1, 0, 0, 1]), np.float32(-INF)),
    "Pad with NaN": reduction("Pad", np.array([1, 0, 0, 1]), np.float32(NAN)),
    "alpha 0": reduction("Gemm", np.ones((3, 2), np.float32), f32(1, 2), alpha=0.0, beta=-2.0),
}


@pytest.mark.parametrize("model", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(model: Model, tmp_path: Path) -> None:
    """The forms beside those refused mean what ONNX Runtime computes, infinities included."""
    program = infer(tmp_path, model)
    draw = np.random.default_rng(5)
    x = draw.standard_normal(program.tensors["x"].type.shape).astype(np.float32)
    if model.nodes[0].op_type == "Clip":
        x.reshape(-1)[:3] = INF, -INF, NAN
    (expected,) = onnxruntime.InferenceSession(str(tmp_path / "network.onnx")).run(None, {"x": x})
    with np.errstate(invalid="ignore"):
        output = run_inference(program, {"x": x})["y"]
    assert_close(model.nodes[0].op_type, output, expected)


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("place", range(6))
def test_reduce_max_of_nan(place: int, op: str, tmp_path: Path) -> None:
    """A NaN anywhere in a row is its extremum, as in ONNX's reference implementation."""
    model = chain(node(op, ("x",), ("y",), keepdims=0), x=(2, 3), opsets=(("", 21),))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    x[place // 3, place % 3] = NAN
    program = infer(tmp_path, model)
    expected = ReferenceEvaluator(str(tmp_path / "network.onnx")).run(None, {"x": x})[0]
    np.testing.assert_array_equal(run_inference(program, {"x": x})["y"], expected)


def test_batch_norm_of_a_huge_scale(tmp_path: Path) -> None:
    """A result beyond float32 is an infinity, as by the formula of ONNX, though all but the scale are ordinary.

    A limit: the factor scale / sqrt(var) is computed first; where it overflows smaller results are infinite as well.
    """
    nodes = node("BatchNormalization", ("x", "scale", "zeros", "zeros", "var"), ("y",), epsilon=0.0)
    values = {"scale": 3e38, "zeros": 0, "var": 0.25}
    arrays = [constant(name, np.full(2, number, np.float32)) for name, number in values.items()]
    program = infer(tmp_path, chain(nodes, x=(1, 2), opsets=(("", 21),), initializers=arrays))
    x = np.array([[-1.0, 2.0]], np.float32)
    with np.errstate(over="ignore"):
        expected = ReferenceEvaluator(str(tmp_path / "network.onnx")).run(None, {"x": x})[0]
    assert expected.tolist() == [[-np.inf, np.inf]]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run_inference(program, {"x": x})["y"], expected)
        assert run_inference(program, {"x": x / 8})["y"].tolist() == [[-np.inf, np.inf]]


def test_update_of_what_nobody_reads(tmp_path: Path) -> None:
    """An operator in place on a value of an inference graph has no effect beyond its result, here its shape alone."""
    nodes = node("Exp", ("x",), ("e",)), node("SGD", ("e", "x"), ("u",)), node("Shape", ("u",), ("y",))
    program = infer(tmp_path, Model(nodes, (value("x", (2, 3)),), (value("y", None, INT64),)))
    assert program.nodes == ()
    assert run_inference(program, {"x": np.zeros((2, 3), np.float32)})["y"].tolist() == [2, 3]
