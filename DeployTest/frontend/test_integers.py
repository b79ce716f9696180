"""Integers of a file at run time: those of fewer bits wrap, those of more are refused where they may leave int32."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.errors import ShapeMismatch, UnsupportedOperator
from deployer.verify.reference import run_inference
from DeployTest.support.small_graphs import INT64, Model, constant, infer, node, raises, value

pytestmark = [pytest.mark.host, pytest.mark.models]
NARROW = ("int8", "uint8", "int16", "uint16")
WIDE = ("int64", "uint32", "uint64")
FUNCTIONS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}


def of(kind: str, *nodes: onnx.NodeProto) -> Model:
    """A graph of nodes from five integers in a and in b to y."""
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    return Model(nodes, (value("a", (5,), element), value("b", (5,), element)), (value("y", None, INT64),))


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("op", FUNCTIONS)
def test_narrow_integers_wrap(op: str, kind: str, tmp_path: Path) -> None:
    """Also between two nodes: what did not wrap would be another maximum."""
    limits = np.iinfo(kind)
    a = np.array([limits.max, limits.min, limits.max // 2, 3, 1], kind)
    b = np.array([limits.max, limits.max, 77, 5, 2], kind)
    program = infer(tmp_path, of(kind, node(op, ("a", "b"), ("h",)), node("Max", ("h", "b"), ("y",))))
    result = run_inference(program, {"a": a.astype(np.int32), "b": b.astype(np.int32)})["y"]
    np.testing.assert_array_equal(result, np.maximum(FUNCTIONS[op](a, b), b))


@pytest.mark.parametrize("kind", WIDE)
def test_wide_integers(kind: str, tmp_path: Path) -> None:
    """Sums might leave int32; what is compared or chosen does not."""
    with raises(UnsupportedOperator, "(Add)", kind, "int32 operands"):
        infer(tmp_path, of(kind, node("Add", ("a", "b"), ("y",))))
    for op in ("Max", "Less"):
        a, b = np.arange(5, dtype=np.int32), np.full(5, 2, np.int32)
        result = run_inference(infer(tmp_path, of(kind, node(op, ("a", "b"), ("y",)))), {"a": a, "b": b})["y"]
        np.testing.assert_array_equal(result, np.maximum(a, b) if op == "Max" else a < b)


def test_cast_integers(tmp_path: Path) -> None:
    """The type that Cast names decides, not that of its operand."""

    def cast(kind: str, to: str) -> Model:
        element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))
        return of(kind, node("Cast", ("a",), ("h",), to=element), node("Mul", ("h", "h"), ("y",)))

    with raises(UnsupportedOperator, "(Mul)", "int64", "int32 operands"):
        infer(tmp_path, cast("int32", "int64"))
    for kind in ("int64", "uint8"):
        a = np.array([200, 3, 0, 1, 2], np.int32)
        result = run_inference(infer(tmp_path, cast(kind, "int32")), {"a": a})["y"]
        np.testing.assert_array_equal(result, a * a)


def test_integers_of_32_bits_are_as_they_are(tmp_path: Path) -> None:
    """No node is added to wrap them."""
    program = infer(tmp_path, of("int32", node("Sub", ("a", "b"), ("y",))))
    assert len(program.nodes) == 1


def test_constants_wrap_too(tmp_path: Path) -> None:
    """What is folded is what would be computed."""
    numbers = (constant("c", np.full(5, 200, np.uint8)), constant("d", np.full(5, 100, np.uint8)))
    nodes = (node("Add", ("c", "d"), ("e",)), node("Max", ("a", "e"), ("y",)))
    plain = of("uint8", *nodes)
    model = Model(nodes, plain.inputs[:1], plain.outputs, numbers)
    result = run_inference(infer(tmp_path, model), {"a": np.arange(5, dtype=np.int32)})["y"]
    np.testing.assert_array_equal(result, np.full(5, 44))


def test_constants_beyond_int64(tmp_path: Path) -> None:
    """A number that nothing here holds is named."""
    numbers = (constant("b", np.full(5, 2**63, np.uint64)),)
    plain = of("uint64", node("Max", ("a", "b"), ("y",)))
    with raises(ShapeMismatch, "'b'", "beyond int64"):
        infer(tmp_path, Model(plain.nodes, plain.inputs[:1], plain.outputs, numbers))
