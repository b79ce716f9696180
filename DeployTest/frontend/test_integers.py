"""Integers of a file at run time: those of fewer bits wrap, those of more are refused where they may leave int32."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.errors import ShapeMismatch, UnsupportedOperator
from deployer.verify.reference import run_inference
from DeployTest.support.graphs.small_graphs import INT64, Model, chain, constant, infer, node, raises, value

pytestmark = [pytest.mark.host, pytest.mark.models]
UINT8 = onnx.TensorProto.UINT8
NARROW = ("int8", "uint8", "int16", "uint16")
WIDE = ("int64", "uint32", "uint64")
FUNCTIONS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}


def of(kind: str, *nodes: onnx.NodeProto) -> Model:
    """A graph of nodes from five integers in a and in b to y, which is of a type that is left open."""
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    inputs, opset = (value("a", (5,), element), value("b", (5,), element)), max(map(opset_of, nodes))
    return Model(nodes, inputs, (value("y", None, 0),), opsets=(("", opset),))


def opset_of(proto: onnx.NodeProto) -> int:
    """The lowest opset, from 17 on, that has the operator."""
    return max(17, min(s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == proto.op_type))


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
    """Constant folding gives the result that the program would compute."""
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
    with raises(ShapeMismatch, "'b'", "outside the range of int64"):
        infer(tmp_path, Model(plain.nodes, plain.inputs[:1], plain.outputs, numbers))


FOREIGN = {
    "two types": (of("uint8", node("BitwiseXor", ("a", "b"), ("y",))), ("'a' and 'b'", "UINT8 and INT64")),
    "a truth for a number": (of("bool", node("Equal", ("a", "b"), ("y",))), ("'a' and 'b'", "BOOL and INT64")),
    "a number for a truth": (of("bool", node("And", ("a", "b"), ("y",))), ("input 1 ('b')", "INT64", "type BOOL")),
    "places of few bits": (
        Model((node("Gather", ("x", "a"), ("y",)),), (value("x", (5,)), value("a", (2,), UINT8)), (value("y", None),)),
        ("input 1 ('a')", "UINT8", "type INT64"),
    ),
    "shifted integers with sign": (
        of("int64", node("BitShift", ("a", "b"), ("y",), direction="RIGHT")),
        ("input 0 ('a')", "INT64", "type UINT8"),
    ),
}
"""Nodes over types that ONNX's operator does not take, or does not take at once; b is of int64."""


@pytest.mark.parametrize(("model", "texts"), FOREIGN.values(), ids=FOREIGN)
def test_types_that_the_schema_does_not_allow(model: Model, texts: tuple[str, ...], tmp_path: Path) -> None:
    """The node, its inputs and the types are named."""
    inputs = tuple(value("b", (5,), INT64) if x.name == "b" else x for x in model.inputs)
    with raises(UnsupportedOperator, f"({model.nodes[0].op_type})", *texts):
        infer(tmp_path, replace(model, inputs=inputs))


def test_pads_of_few_bits(tmp_path: Path) -> None:
    """A constant that becomes an attribute must have the schema's type; an empty list may have any."""
    pads = constant("pads", np.array([1, 1], np.uint8))
    with raises(UnsupportedOperator, "(Pad)", "input 1 ('pads')", "UINT8", "type INT64"):
        infer(tmp_path, chain(node("Pad", ("x", "pads"), ("y",)), x=(3,), initializers=(pads,)))
    truths = constant("axes", np.ones(1, np.bool_))
    with raises(UnsupportedOperator, "(ReduceSum)", "input 1 ('axes')", "BOOL", "type INT64"):
        infer(tmp_path, chain(node("ReduceSum", ("x", "axes"), ("y",)), x=(3, 2), initializers=(truths,)))
    axes = constant("axes", np.zeros(0, np.float32))
    infer(tmp_path, chain(node("ReduceSum", ("x", "axes"), ("y",)), x=(3,), initializers=(axes,)))


def test_one_of_two_versions_allows_it(tmp_path: Path) -> None:
    """A file of several versions may have what any of them takes."""
    flat = node("Flatten", ("x",), ("y",))
    plain = Model((flat,), (value("x", (2, 3), INT64),), (value("y", None, INT64),), opsets=(("", 8),))
    with raises(UnsupportedOperator, "(Flatten)", "INT64", "type FLOAT"):
        infer(tmp_path, plain)
    infer(tmp_path, replace(plain, opsets=(("", 8), ("", 13))))


def test_int32_and_int64_are_one(tmp_path: Path) -> None:
    """A target has one width of integer, and truths are the integers 0 and 1."""
    pair = (value("a", (5,), onnx.TensorProto.INT32), value("b", (5,), INT64))
    infer(tmp_path, Model((node("Max", ("a", "b"), ("y",)),), pair, (value("y", None, INT64),)))
    infer(tmp_path, of("bool", node("Max", ("a", "b"), ("y",))))


def test_declared_result_of_other_integers(tmp_path: Path) -> None:
    """A result of another type than is declared is refused; a truth may be declared as an integer of any width."""
    model = of("uint8", node("Max", ("a", "b"), ("y",)))
    with raises(ShapeMismatch, "'y' is declared", "INT64 and UINT8"):
        infer(tmp_path, replace(model, outputs=(value("y", None, INT64),)))
    infer(tmp_path, replace(model, outputs=(value("y", None, UINT8),)))
    infer(tmp_path, replace(of("int64", node("Less", ("a", "b"), ("y",))), outputs=(value("y", None, INT64),)))


def test_default_of_other_integers(tmp_path: Path) -> None:
    """A graph input that is an initializer as well has the declared type."""
    model = of("int64", node("Max", ("a", "b"), ("y",)))
    with raises(ShapeMismatch, "'b'", "uint8", "int64"):
        infer(tmp_path, replace(model, initializers=(constant("b", np.arange(5, dtype=np.uint8)),)))


FOLDED = {
    "BitwiseXor": ("int64", 1 << 32, -3, -4294967299),
    "BitwiseAnd": ("int64", (1 << 33) + 5, 3, 1),
    "Div": ("int64", 1 << 40, 1 << 38, 4),
    "Mul": ("int32", 1 << 30, 6, -(1 << 31)),
    "Sub": ("uint32", 5, 6, (1 << 32) - 1),
}
"""What becomes of two constants of a type, by C's rules of that type."""


@pytest.mark.parametrize("op", FOLDED)
def test_folded_integers(op: str, tmp_path: Path) -> None:
    """Constants are computed in the width of the file, not of the target."""
    kind, first, second, result = FOLDED[op]
    numbers = (constant("c", np.array([first], kind)), constant("d", np.array([second], kind)))
    expected = constant("e", np.array([result], kind))
    nodes = (node(op, ("c", "d"), ("z",)), node("Equal", ("z", "e"), ("y",)))
    truth = (value("y", None, onnx.TensorProto.BOOL),)
    model = Model((*nodes,), (value("x", (1,)),), truth, (*numbers, expected), opsets=(("", 18),))
    assert run_inference(infer(tmp_path, model), {"x": np.zeros(1, np.float32)})["y"].tolist() == [1]


def test_folded_cast(tmp_path: Path) -> None:
    """A float beyond int32 is an integer of 64 bits; as an operand of a kernel it is refused by name."""
    floats = constant("c", np.array([1.5, -2.5, 3e9], np.float32))
    nodes = (node("Cast", ("c",), ("z",), to=INT64), node("Equal", ("z", "e"), ("y",)))
    constants = (floats, constant("e", np.array([1, -2, 3_000_000_000])))
    model = Model(nodes, (value("x", (1,)),), (value("y", None, onnx.TensorProto.BOOL),), constants)
    assert run_inference(infer(tmp_path, model), {"x": np.zeros(1, np.float32)})["y"].tolist() == [1, 1, 1]
    with raises(ShapeMismatch, "'z' holds 3000000000", "int32"):
        infer(tmp_path, Model(nodes[:1], model.inputs, (value("z", None, INT64),), constants[:1]))


def test_folded_below_zero(tmp_path: Path) -> None:
    """An unsigned number of 64 bits beyond those of a sign is not held here."""
    numbers = (constant("c", np.array([5], np.uint64)), constant("d", np.array([6], np.uint64)))
    outputs = (value("y", None, onnx.TensorProto.UINT64),)
    with raises(UnsupportedOperator, "(Sub)", "-1 for 'y'", "uint64"):
        infer(tmp_path, Model((node("Sub", ("c", "d"), ("y",)),), (value("x", (1,)),), outputs, numbers))


def test_range_of_lists(tmp_path: Path) -> None:
    """ONNX: `Scalar. First entry for the range of output values.`"""
    for shape in ((), (1,)):
        numbers = [constant(name, np.full(shape, n)) for name, n in (("a", 0), ("b", 4), ("c", 1))]
        model = Model(
            (node("Range", ("a", "b", "c"), ("y",)),), (value("x", (1,)),), (value("y", None, INT64),), numbers
        )
        if shape:
            with raises(UnsupportedOperator, "(Range)", "start", "shape []"):
                infer(tmp_path, model)
        else:
            infer(tmp_path, model)
