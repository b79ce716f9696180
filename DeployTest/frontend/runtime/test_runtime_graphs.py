"""Forms of ONNX Runtime's training artifacts: inputs that no step reads, and scales computed from sizes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from deployer.core.errors import ShapeMismatch, UnsupportedOperator
from deployer.core.ir import Node
from deployer.operators.elementwise.arithmetic import Div
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.small_graphs import (
    INT64,
    TRAIN,
    Case,
    chain,
    constant,
    infer,
    losses_and_weights,
    node,
    raises,
    value,
)
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]

STATISTICS = {
    "float": (value("mean", (3,)), np.array([0.5, -2.0, 7.0], np.float32)),
    "integer": (value("count", (2, 2), INT64), np.array([[1, 2], [3, -4]], np.int64)),
}
FORMS = [("float", ("--doublebuffer",)), ("integer", ("--fused", "--accumulate-grad-batches", "1"))]


@pytest.mark.parametrize(("kind", "flags"), FORMS)
def test_unread_weight(kind: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    """A frozen input that no step reads, as unused running statistics are, is loaded, kept and dumped as it came."""
    declared, content = STATISTICS[kind]
    train = replace(TRAIN, inputs=(*TRAIN.inputs[:3], declared, *TRAIN.inputs[3:]))
    case = Case(train, arrays={"arr_0003": content, "arr_0004": np.array([True])})
    case.program(tmp_path)
    folder, dump = case.dataset(tmp_path), tmp_path / "dump.npz"
    words = ("train", "-t", folder, "-o", tmp_path / "c", "--lr", "0.5", "--dump", dump, *flags)
    assert deployer(*words) == 0
    with np.load(dump) as arrays:
        np.testing.assert_array_equal(arrays[declared.name], content)
        assert not np.array_equal(arrays["w"], np.load(folder / "inputs.npz")["arr_0002"])


def test_unread_data(tmp_path: Path) -> None:
    """A data input that no step reads takes no memory, and the case trains."""
    train = replace(TRAIN, inputs=(TRAIN.inputs[0], value("mask", (5,)), *TRAIN.inputs[1:]))
    draw = np.random.default_rng(1)
    order = [(2, 3), (5,), (2, 4)]
    arrays = {
        f"{p}arr_{i:04d}": draw.standard_normal(s).astype("f4") for p in ("", "mb1_") for i, s in enumerate(order)
    }
    arrays |= {"arr_0003": draw.standard_normal((4, 3)).astype("f4"), "arr_0004": np.array([True])}
    case = Case(train, arrays=arrays)
    case.program(tmp_path)
    assert deployer("train", "-t", case.dataset(tmp_path), "-o", tmp_path / "c", "--lr", "0.5") == 0


def scaled(*counting: object) -> Case:
    """MSE as the mean of squares; its gradient divides by a count from these nodes, as ONNX Runtime writes it."""
    fc, _, _, grad, accumulate = TRAIN.nodes
    nodes = (
        *(fc, node("Sub", ("y", "t"), ("e",)), node("Mul", ("e", "e"), ("q",))),
        *(node("ReduceMean", ("q",), ("loss",), keepdims=0), node("Shape", ("q",), ("shape",))),
        *counting,
        node("Expand", ("two", "shape"), ("spread",)),
        node("Scale", ("spread", "count"), ("q_grad",), domain="com.microsoft", scale_down=1),
        node("Mul", ("q_grad", "e"), ("y_grad",)),
        *(grad, accumulate),
    )
    return Case(replace(TRAIN, nodes=nodes, initializers=(constant("two", np.array(2, np.float32)),)))


SIZES = (
    node("Size", ("q",), ("numel",)),
    node("Size", ("loss",), ("kept",)),
    node("Div", ("numel", "kept"), ("count",)),
)


def test_scale_by_a_quotient_of_sizes(tmp_path: Path) -> None:
    """The gradient of ReduceMean with an int64 count is that of MSELossGrad, in the reference and on the host."""
    results = []
    for name, case in (("plain", Case()), ("scaled", scaled(*SIZES))):
        program = case.program(tmp_path / name)
        folder = case.dataset(tmp_path / name)
        results.append(losses_and_weights(program, folder))
        assert deployer("train", "-t", folder, "-o", tmp_path / name / "c", "--lr", "0.5") == 0
    (losses, weights), (scaled_losses, scaled_weights) = results
    assert_close("MSELoss", np.array(scaled_losses, np.float32), np.array(losses, np.float32))
    assert_close("Gemm", scaled_weights["w"], weights["w"])


def test_scale_by_other_integers(tmp_path: Path) -> None:
    """A scale of several integers, or one that is known at run time only, is refused by name."""
    several = node("Constant", (), ("count",), value_ints=[8, 8])
    with raises(ShapeMismatch, "(Scale)", "one element"):
        scaled(several).program(tmp_path)
    case = scaled()
    late = replace(case.train, inputs=(*TRAIN.inputs[:2], value("count", (), INT64), *TRAIN.inputs[2:]))
    with raises(UnsupportedOperator, "node 'Scale_q_grad_number' (AsFloat)", "constant inputs"):
        replace(case, train=late).program(tmp_path)


def test_integer_quotient() -> None:
    """Integers divide towards zero, exactly, as in ONNX Runtime; what has no quotient is refused."""
    edges = np.array([0, 1, -1, 2, -3, 7, -7, 2**31, 2**53 + 1, -(2**62), 2**63 - 1, -(2**63)], np.int64)
    a, b = (x.reshape(-1) for x in np.meshgrid(edges, edges))
    defined = (b != 0) & ~((b == -1) & (a == edges[-1]))
    model = helper.make_model(
        helper.make_graph(
            [node("Div", ("a", "b"), ("y",))],
            "g",
            [value(name, (int(defined.sum()),), INT64) for name in "ab"],
            [value("y", (int(defined.sum()),), INT64)],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=10,
    )
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"a": a[defined], "b": b[defined]})
    form = Node("n", "Div", ("a", "b"), ("y",))
    (quotient,) = Div().reference(form, (a[defined], b[defined]))
    np.testing.assert_array_equal(quotient, expected)
    for x, y in zip(a[~defined], b[~defined], strict=True):
        with raises(UnsupportedOperator, "divided by zero, or overflows"):
            Div().reference(form, (np.array([x]), np.array([y])))


def test_indices_of_a_pool(tmp_path: Path) -> None:
    """MaxPoolGrad over the indices of a pool is that over its input, by the pool's attributes."""
    form = {"kernel_shape": [2, 2], "strides": [2, 2]}
    pool = node("MaxPool", ("x",), ("p", "indices"), **form)
    found = [
        infer(tmp_path / second, chain(pool, node("MaxPoolGrad", ("p", second), ("y",), **attrs), x=(1, 2, 4, 4)))
        for second, attrs in (("x", form), ("indices", {"kernel_shape": [3, 3]}))
    ]
    assert found[0] == found[1]
    for reader in (node("MaxPoolGrad", ("indices", "p"), ("y",), **form), node("Identity", ("indices",), ("y",))):
        with raises(UnsupportedOperator, "its output 1 ('indices')", "nothing here computes"):
            infer(tmp_path / "other", chain(pool, reader, x=(1, 2, 4, 4)))


def test_versioned_name_of_softmax_grad(tmp_path: Path) -> None:
    """ONNX Runtime numbers the gradient of Softmax by the version it belongs to."""
    found = [
        infer(tmp_path / op, chain(node(op, ("x", "x"), ("y",), "n", domain="com.microsoft", axis=1)))
        for op in ("SoftmaxGrad", "SoftmaxGrad_13")
    ]
    assert found[0] == found[1]
