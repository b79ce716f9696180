"""Every operator names its wrong inputs and attributes: the node, the cause, the nearest form there is."""

from collections.abc import Sequence

import pytest

from deployer.core.errors import ShapeMismatch, UnsupportedOperator
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import registry
from deployer.frontend.node_checks import check_kernel

pytestmark = [pytest.mark.host, pytest.mark.kernels]

F32, I32 = "float32", "int32"
WRONG: list[tuple[str, list[tuple[str, tuple[int, ...]]], dict[str, AttrValue], type[Exception], str]] = [
    ("Trilu", [(F32, (3, 4))], {"k": (1, 2)}, UnsupportedOperator, "'k' is"),
    ("Trilu", [(F32, (3, 4))], {"k": ()}, UnsupportedOperator, "'k' is"),
    ("TopK", [(F32, (3, 4))], {"k": (1, 2)}, UnsupportedOperator, "'k' is"),
    ("CumSum", [(F32, (3, 4))], {"axis": (0, 1)}, UnsupportedOperator, "'axis' is"),
    ("Add", [(F32, (3,)), (F32, (4,))], {}, ShapeMismatch, "do not broadcast"),
    ("Add", [(F32, (3,)), (I32, (3,))], {}, ShapeMismatch, "dtype"),
    ("Add", [(F32, (3,))], {}, ShapeMismatch, "needs 2 inputs, has 1"),
    ("MatMul", [(F32, (3, 4)), (F32, (5, 6))], {}, ShapeMismatch, "K = 4"),
    ("MSELoss", [(F32, (3,)), (F32, (4,))], {}, ShapeMismatch, "differ"),
    ("ReduceSum", [(F32, (3, 4))], {"axes": (2,)}, ShapeMismatch, "outside rank 2"),
    ("ReduceMean", [(F32, (3, 4))], {"axes": (1, -1)}, ShapeMismatch, "twice"),
    ("Reshape", [(F32, (3, 4))], {"shape": (5, -1)}, ShapeMismatch, "do not fill"),
    ("Reshape", [(F32, (3, 4))], {"shape": (0, -1), "allowzero": 1}, ShapeMismatch, "do not fill"),
    ("Reshape", [(F32, (3, 4))], {"shape": (-1, -1)}, ShapeMismatch, "more than one -1"),
    ("Reshape", [(F32, (3, 4)), (I32, (2,))], {}, UnsupportedOperator, "not constant"),
    ("LayerNormalization", [(F32, (3, 4)), (F32, (3,)), (F32, (4,))], {}, ShapeMismatch, "scale or bias"),
    ("LayerNormalization", [(F32, (3, 4)), (F32, (4,)), (F32, (3,))], {}, ShapeMismatch, "scale or bias"),
    (
        "SkipLayerNormalization",
        [(F32, (3, 4)), (F32, (3, 4)), (F32, (4,))],
        {"epsilon": -1e-5},
        UnsupportedOperator,
        "epsilon is negative",
    ),
    ("Squeeze", [(F32, (3, 1))], {"axes": (0,)}, ShapeMismatch, "not all of one element"),
    ("Transpose", [(F32, (3, 4))], {"perm": (0, 0)}, ShapeMismatch, "not a permutation"),
    ("Expand", [(F32, (3,))], {"shape": (2,)}, ShapeMismatch, "does not broadcast"),
    ("Scale", [(F32, (3,)), (F32, (3,))], {}, ShapeMismatch, "one element"),
    ("LogSoftmax", [(F32, (3,))], {"axis": 1}, ShapeMismatch, "outside rank"),
    ("SoftmaxCrossEntropyLoss", [(F32, (3, 4)), (I32, (4,))], {}, ShapeMismatch, "labels"),
    ("SoftmaxCrossEntropyLoss", [(F32, (3, 4)), (F32, (3,))], {}, ShapeMismatch, "not integers"),
    (
        "SoftmaxCrossEntropyLoss",
        [(F32, (3, 4)), (I32, (3,)), (F32, (5,))],
        {},
        ShapeMismatch,
        "one float weight for each of 4 classes",
    ),
    ("SoftmaxCrossEntropyLossGrad", [(F32, (2,)), (F32, (3, 4)), (I32, (3,))], {}, ShapeMismatch, "dloss"),
    ("InPlaceAccumulatorV2", [(F32, (3,)), (F32, (4,)), (I32, (1,))], {}, ShapeMismatch, "differ"),
    ("Gemm", [(F32, (3, 4)), (F32, (4, 2)), (I32, (2,))], {}, UnsupportedOperator, "C is int32"),
    ("Pad", [(F32, (3, 4))], {}, UnsupportedOperator, "pads are not constant"),
    ("Pad", [(F32, (3, 4))], {"pads": (1, 1)}, ShapeMismatch, "not two for each of 2 axes"),
    ("Pad", [(F32, (3, 4))], {"pads": (1, 1), "axes": (2,)}, ShapeMismatch, "outside rank 2"),
    ("Pad", [(F32, (3, 4))], {"pads": (1, 1, 1, 1), "axes": (1, -1)}, ShapeMismatch, "twice"),
    ("Pad", [(F32, (3,))], {"pads": (-2, -1)}, ShapeMismatch, "nothing of X"),
    ("Pad", [(F32, (3, 4))], {"pads": (-2, 0, -1, 0)}, ShapeMismatch, "nothing of X"),
    ("Pad", [(F32, (3,))], {"pads": (3, 1), "mode": "reflect"}, UnsupportedOperator, "pads 3 and 1 of 3"),
    ("Pad", [], {"pads": (1, 1)}, ShapeMismatch, "needs 1 inputs"),
    ("Slice", [(F32, (3, 4))], {"starts": (0,)}, UnsupportedOperator, "not constant"),
    ("Slice", [(F32, (3, 4))], {"starts": (0,), "ends": (1, 2)}, ShapeMismatch, "differ in length"),
    ("Slice", [(F32, (3, 4))], {"starts": (0,), "ends": (1,), "axes": (-3,)}, ShapeMismatch, "outside rank 2"),
    ("Slice", [(F32, (3, 4))], {"starts": (2,), "ends": (2,)}, ShapeMismatch, "takes nothing along axis 0"),
    ("Slice", [(F32, (9,))], {"starts": (8,), "ends": (0,), "steps": (0,)}, UnsupportedOperator, "one stands"),
    ("SliceGrad", [(F32, (3,))], {"input_shape": (6,), "starts": (1,), "steps": (3,)}, ShapeMismatch, "inside of X"),
    ("SliceGrad", [(F32, (3,))], {"input_shape": (6, 1), "starts": (1,), "steps": (2,)}, ShapeMismatch, "rank"),
    ("Concat", [(F32, (3, 4)), (F32, (3, 5))], {"axis": 0}, ShapeMismatch, "along other axes than 0"),
    ("Concat", [(F32, (3, 4)), (F32, (3,))], {"axis": 0}, ShapeMismatch, "differ in rank"),
    ("Concat", [(F32, (3,)), (F32, (3,))], {"axis": 1}, ShapeMismatch, "no axis 1"),
    ("Concat", [(F32, (3,)), (I32, (3,))], {"axis": 0}, ShapeMismatch, "dtype"),
    ("Concat", [(F32, (3,)), (F32, (3,))], {}, UnsupportedOperator, "no axis"),
    ("Concat", [], {"axis": 0}, ShapeMismatch, "needs 1 inputs"),
    ("Clip", [(F32, (3,))], {"min": (0.0, 1.0)}, UnsupportedOperator, "not one number"),
    ("Clip", [], {"min": 0.0}, ShapeMismatch, "needs 1 inputs"),
    ("ClipGrad", [(F32, (3,)), (F32, (4,))], {}, ShapeMismatch, "differ in type"),
    ("Conv", [(F32, (1, 2, 5, 5))], {}, ShapeMismatch, "needs 2 inputs, has 1"),
    ("Conv", [(F32, (1, 2, 5, 5)), (F32, (3, 4, 3, 3))], {}, ShapeMismatch, "2 channels into 3"),
    ("Conv", [(F32, (1, 4, 5, 5)), (F32, (3, 2, 3, 3))], {"group": 2}, ShapeMismatch, "in 2 groups"),
    ("Conv", [(F32, (1, 4, 5, 5)), (F32, (3, 4, 3, 3))], {"group": 0}, ShapeMismatch, "in 0 groups"),
    ("Conv", [(F32, (1, 2, 5, 5)), (F32, (3, 2, 3, 3))], {"kernel_shape": (5, 5)}, ShapeMismatch, "not that of W"),
    ("Conv", [(F32, (1, 2, 5, 5)), (F32, (3, 2, 3, 3))], {"kernel_shape": ()}, ShapeMismatch, "not that of W"),
    ("Conv", [(F32, (1, 2, 5, 5)), (F32, (3, 2, 3, 3))], {"pads": ()}, ShapeMismatch, "not those of 2"),
    ("Conv", [(F32, (1, 2, 5, 5)), (F32, (3, 2, 3, 3))], {"strides": ()}, ShapeMismatch, "is not that of 2"),
    ("Conv", [(F32, (1, 2, 5, 5)), (F32, (3, 2, 3, 3))], {"dilations": ()}, ShapeMismatch, "is not that of 2"),
    ("MaxPool", [(F32, (1, 2, 5, 5))], {"kernel_shape": (2, 2), "strides": ()}, ShapeMismatch, "do not have 2 axes"),
    ("Conv", [(F32, (1, 2, 5, 5)), (F32, (3, 2, 3, 3))], {"strides": (1,)}, ShapeMismatch, "2 spatial axes"),
    ("Conv", [(F32, (1, 2, 5, 5)), (F32, (3, 2, 3, 3))], {"strides": (0, 1)}, ShapeMismatch, "strides"),
    ("Conv", [(F32, (1, 2, 5, 5)), (F32, (3, 2, 3, 3))], {"pads": (1, 1)}, ShapeMismatch, "pads"),
    ("Conv", [(F32, (1, 2, 5, 5)), (F32, (3, 2, 3, 3))], {"pads": (-1, 0, 0, 0)}, UnsupportedOperator, "cut X"),
    ("Conv", [(F32, (1, 2, 5, 5)), (F32, (3, 2, 3, 3))], {"auto_pad": "WIDE"}, UnsupportedOperator, "auto_pad"),
    ("Conv", [(F32, (1, 2, 5, 5)), (F32, (3, 2, 7, 3))], {}, ShapeMismatch, "does not fit into rows"),
    ("Conv", [(F32, (1, 2, 5, 5)), (F32, (3, 2, 3))], {}, UnsupportedOperator, "X has 4 axes, W 3"),
    ("Conv", [(F32, (1, 2, 3, 3, 3, 3)), (F32, (3, 2, 1, 1, 1, 1))], {}, UnsupportedOperator, "X has 6 axes"),
    ("Conv", [(F32, (1, 2, 5, 5)), (F32, (3, 2, 3, 3)), (F32, (2,))], {}, ShapeMismatch, "W has 3 outputs"),
    ("ConvGradX", [(F32, (1, 3, 3, 3))], {}, ShapeMismatch, "needs 2 inputs, has 1"),
    ("ConvGradX", [(F32, (1, 3, 3, 3)), (F32, (3, 2, 3))], {}, ShapeMismatch, "dY has 4 axes, W 3"),
    ("ConvGradX", [(F32, (1, 4, 3, 3)), (F32, (3, 2, 3, 3))], {}, ShapeMismatch, "the convolution gives"),
    ("ConvGradX", [(F32, (1, 3, 3, 3)), (F32, (3, 2, 3, 3))], {"input_shape": (5,)}, ShapeMismatch, "2 spatial axes"),
    (
        "ConvGradX",
        [(F32, (1, 3, 3, 3)), (F32, (3, 2, 3, 3))],
        {"auto_pad": "SAME_UPPER"},
        UnsupportedOperator,
        "leaves the shape of X open",
    ),
    ("ConvGradW", [(F32, (1, 3, 3, 3)), (F32, (1, 2, 5, 5))], {}, UnsupportedOperator, "shape of W is not said"),
    (
        "ConvGradW",
        [(F32, (1, 3, 4, 3)), (F32, (1, 2, 5, 5))],
        {"kernel_shape": (3, 3)},
        ShapeMismatch,
        "the convolution gives",
    ),
    ("ConvGradW", [(F32, (1, 3, 3)), (F32, (1, 2, 5, 5))], {"kernel_shape": (3, 3)}, ShapeMismatch, "dY has 3 axes"),
    ("ConvGradB", [(F32, (1, 3))], {}, UnsupportedOperator, "dY has 2 axes"),
    (
        "ConvGrad",
        [(F32, (1, 3, 4, 3)), (F32, (1, 2, 5, 5)), (F32, (3, 2, 3, 3))],
        {},
        ShapeMismatch,
        "the convolution gives",
    ),
    ("MaxPool", [(F32, (1, 2, 5, 5))], {}, ShapeMismatch, "not positive"),
    ("MaxPool", [(F32, (1, 2, 5, 5))], {"kernel_shape": (2,)}, ShapeMismatch, "do not have 2 axes"),
    ("MaxPool", [(F32, (1, 2, 5, 5))], {"kernel_shape": (2, 2), "strides": (0, 1)}, ShapeMismatch, "not positive"),
    ("MaxPool", [(F32, (1, 2, 5, 5))], {"kernel_shape": (6, 2)}, ShapeMismatch, "a window of 6 does not fit 5"),
    (
        "MaxPool",
        [(F32, (1, 2, 5, 5))],
        {"kernel_shape": (2, 2), "pads": (2, 0, 0, 0)},
        UnsupportedOperator,
        "wholly in padding",
    ),
    ("MaxPool", [(F32, (1, 2, 3, 3, 3, 3))], {"kernel_shape": (2,) * 4}, UnsupportedOperator, "rank 6"),
    ("AveragePool", [(I32, (1, 2, 5, 5))], {"kernel_shape": (2, 2)}, UnsupportedOperator, "int32"),
    (
        "MaxPool",
        [(F32, (1, 2, 5, 5))],
        {"kernel_shape": (1, 1), "strides": (3, 3), "auto_pad": "SAME_UPPER"},
        UnsupportedOperator,
        "auto_pad SAME_UPPER",
    ),
    ("AveragePool", [(F32, (1, 2, 5))], {"kernel_shape": (2,), "pads": (-1, 0)}, ShapeMismatch, "negative"),
    (
        "AveragePool",
        [(F32, (1, 2, 5))],
        {"kernel_shape": (2,), "ceil_mode": 1, "count_include_pad": 1},
        UnsupportedOperator,
        "ceil_mode together",
    ),
    (
        "AveragePoolGrad",
        [(F32, (1, 2, 3))],
        {"kernel_shape": (2,), "strides": (2,), "input_shape": (1, 2, 5), "ceil_mode": 1, "count_include_pad": 1},
        UnsupportedOperator,
        "ceil_mode together",
    ),
    ("AveragePoolGrad", [(F32, (1, 2, 3))], {"kernel_shape": (2, 2)}, ShapeMismatch, "do not have 1 axes"),
    (
        "AveragePoolGrad",
        [(F32, (1, 2, 3))],
        {"kernel_shape": (2,), "input_shape": (1, 2, 9)},
        ShapeMismatch,
        "does not belong to X",
    ),
    (
        "MaxPoolGrad",
        [(F32, (1, 2, 3)), (F32, (1, 2, 5))],
        {"kernel_shape": (2,)},
        ShapeMismatch,
        "does not belong to X",
    ),
    ("MaxPoolGrad", [(F32, (1, 2, 3))], {"kernel_shape": (2,)}, ShapeMismatch, "needs 2 inputs, has 1"),
    ("GlobalAveragePoolGrad", [(F32, (1, 2, 1, 1))], {}, UnsupportedOperator, "spatial shape of X is unknown"),
    ("GlobalAveragePoolGrad", [(F32, (1, 2, 1, 1))], {"kernel_shape": (3, 0)}, ShapeMismatch, "does not belong to X"),
]
TRUTH = (I32, (3,))
WRONG += [
    ("Sigmoid", [(I32, (3,))], {}, UnsupportedOperator, "float32 operands"),
    ("Sigmoid", [], {}, ShapeMismatch, "needs 1 inputs, has 0"),
    ("SigmoidGrad", [(F32, (3,)), (F32, (4,))], {}, ShapeMismatch, "differ in shape"),
    ("Gelu", [(F32, (3,))], {"approximate": "sigmoid"}, UnsupportedOperator, "'none' or 'tanh'"),
    ("PRelu", [(F32, (3,)), (F32, (4,))], {}, ShapeMismatch, "do not broadcast"),
    ("PRelu", [(F32, (3,)), (F32, (2, 3))], {}, ShapeMismatch, "the slope does not broadcast to X"),
    ("Max", [], {}, ShapeMismatch, "no operands"),
    ("Max", [(F32, (3,)), (I32, (3,))], {}, ShapeMismatch, "differ in dtype"),
    ("Min", [(F32, (3,)), (F32, (3,)), (F32, (2,))], {}, ShapeMismatch, "do not broadcast"),
    ("Mean", [(I32, (3,)), (I32, (3,))], {}, UnsupportedOperator, "float32 operands"),
    ("Less", [(F32, (3,)), (I32, (3,))], {}, ShapeMismatch, "differ in dtype"),
    ("And", [TRUTH, (F32, (3,))], {}, UnsupportedOperator, "truths"),
    ("Not", [(F32, (3,))], {}, UnsupportedOperator, "truths"),
    ("Where", [(F32, (3,)), (F32, (3,)), (F32, (3,))], {}, UnsupportedOperator, "truths"),
    ("Where", [TRUTH, (F32, (3,)), (I32, (3,))], {}, ShapeMismatch, "differ in dtype"),
]
NORMALIZED = [(F32, (2, 3, 4))] + [(F32, (3,))] * 4
WRONG += [
    ("Conv", [(I32, (1, 2, 5, 5)), (F32, (3, 2, 3, 3))], {}, UnsupportedOperator, "float32 operands"),
    ("ConvGradX", [(F32, (1, 3, 3, 3)), (I32, (3, 2, 3, 3))], {}, UnsupportedOperator, "float32 operands"),
    ("ConvGradB", [(I32, (1, 3, 3, 3))], {}, UnsupportedOperator, "float32 operands"),
    ("BatchNormalization", NORMALIZED[:4], {}, ShapeMismatch, "needs 5 inputs, has 4"),
    ("BatchNormalization", [*NORMALIZED[:4], (F32, (4,))], {}, ShapeMismatch, "of one float32 shape"),
    ("BatchNormalization", [(F32, (3,)), *NORMALIZED[1:]], {}, ShapeMismatch, "no channel axis"),
    ("BatchNormInternal", NORMALIZED, {"training_mode": 0}, UnsupportedOperator, "not in training mode"),
    ("BatchNormalizationGrad", NORMALIZED, {}, ShapeMismatch, "of one float32 shape"),
    (
        "BatchNormalizationGrad",
        [NORMALIZED[0], (F32, (2, 3, 5)), *NORMALIZED[2:]],
        {},
        ShapeMismatch,
        "of one float32 shape",
    ),
    ("GroupNormalization", [(F32, (2, 4, 3)), (F32, (4,)), (F32, (4,))], {}, ShapeMismatch, "do not make 0 groups"),
    ("RMSNormalization", [(F32, (2, 3, 4)), (F32, (5, 4))], {}, ShapeMismatch, "does not broadcast"),
]


@pytest.mark.parametrize(("op", "inputs", "attrs", "error", "text"), WRONG)
def test_wrong_inputs_are_named(
    op: str,
    inputs: list[tuple[str, tuple[int, ...]]],
    attrs: dict[str, AttrValue],
    error: type[Exception],
    text: str,
) -> None:
    """`infer` raises the user's error with the node's name and the cause."""
    node = Node("culprit", op, tuple(f"x{i}" for i in range(len(inputs))), ("y",), attrs)
    with pytest.raises(error, match=text) as raised:
        registry()[op].infer(node, [TensorType(dtype, shape) for dtype, shape in inputs])
    assert "culprit" in str(raised.value)


@pytest.mark.parametrize("op", sorted(name for name, operator in registry().items() if name == operator.name))
def test_absent_inputs_are_named(op: str) -> None:
    """Each input of each sample left out alone: the operator does without it, or says so with the node's name."""
    for sample in registry()[op].samples():
        kinds = [None if x is None else TensorType(str(x.dtype), x.shape) for x in sample.inputs]
        for absent in range(len(kinds)):
            types = [None if i == absent else kind for i, kind in enumerate(kinds)]
            names = tuple(f"x{i}" if kind else "" for i, kind in enumerate(types))
            assert "culprit" in refusal(Node("culprit", op, names, ("y",), sample.attrs), types)


def refusal(node: Node, types: Sequence[TensorType | None]) -> str:
    """Return the message by which `infer` refuses the node, or the node's name if it accepts it."""
    try:
        registry()[node.op].infer(node, types)
    except (ShapeMismatch, UnsupportedOperator) as refused:
        return str(refused)
    return node.name


@pytest.mark.parametrize(
    ("op", "attrs"),
    [("Pad", {"pads": (1,) * 10}), ("Slice", {"starts": (1,) * 5, "ends": (3,) * 5, "steps": (2,) * 5})],
)
def test_too_many_loops(op: str, attrs: dict[str, AttrValue]) -> None:
    """More axes that cannot be merged than the kernel has loops."""
    node = Node("culprit", op, ("x",), ("y",), attrs)
    kind = TensorType(F32, (4,) * 5)
    with pytest.raises(UnsupportedOperator, match="needs 5 loops"):
        registry()[op].access(node, {"x": kind, "y": registry()[op].infer(node, [kind])[0]})


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("SliceGrad", {"input_shape": (9,), "starts": (1,), "steps": (2,)}),
        ("Clip", {"max": 1}),
    ],
)
def test_integers_never_reach_the_target(op: str, attrs: dict[str, AttrValue]) -> None:
    """Constants of integers are folded; others have no kernel."""
    node, kind = Node("culprit", op, ("a",), ("y",), attrs), TensorType(I32, (4,))
    [result] = registry()[op].infer(node, [kind])
    with pytest.raises(UnsupportedOperator, match=r"integer operands reach the target|its operand 'a' is int32"):
        check_kernel(node, {"a": kind, "y": result})
