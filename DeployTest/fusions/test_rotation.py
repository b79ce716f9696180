"""Rotations of pairs in every form that models write them in: one node, with the bits of the many."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.testing.bench import bits
from deployer.verify.reference import run_inference
from DeployTest.support.graphs.fusing import EVERY, fused
from DeployTest.support.graphs.small_graphs import Model, infer, node, ops, value

pytestmark = [pytest.mark.host, pytest.mark.training]

BATCH, HEADS, PLACES, WIDTH = 2, 3, 5, 8
HALF = WIDTH // 2
ANGLES = np.random.default_rng(7).uniform(0, 6, (PLACES, HALF)).astype(np.float32)

PADS = [np.array([0, 0, 0, a, 0, 0, 0, b], np.int64) for a, b in ((HALF, 0), (0, HALF))]
"""Zeros in front of a half, and behind it."""


@dataclass
class Writer:
    """Nodes of a graph whose results get names by themselves."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def __call__(self, op: str, *inputs: str | Array, **attrs: object) -> str:
        """Append a node; arrays become initializers."""
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        output = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(node(op, tuple(names), (output,), output, **attrs))
        return output

    def constant(self, array: Array) -> str:
        """The name of an initializer with these elements, shared by equal ones."""
        for tensor in self.constants:
            known = numpy_helper.to_array(tensor)
            if known.shape == array.shape and known.tobytes() == array.tobytes():
                return tensor.name
        self.constants.append(numpy_helper.from_array(array, f"constant{len(self.constants)}"))
        return self.constants[-1].name

    def part(self, x: str, first: int, end: int, step: int = 1) -> str:
        """Elements of the last axis."""
        return self("Slice", x, *(np.array([i], np.int64) for i in (first, end, -1, step)))

    def shape(self, x: str, *sizes: int) -> str:
        """The tensor in another shape."""
        return self("Reshape", x, np.array(sizes, np.int64))


def halves(w: Writer, x: str, cos: Array, sin: Array) -> str:
    """Both halves apart, put together again."""
    a, b = w.part(x, 0, HALF), w.part(x, HALF, WIDTH)
    first = w("Sub", w("Mul", a, cos), w("Mul", b, sin))
    return w("Concat", first, w("Add", w("Mul", b, cos), w("Mul", a, sin)), axis=-1)


def back(w: Writer, x: str, cos: Array, sin: Array) -> str:
    """The gradient of that, as automatic differentiation writes it."""
    a, b = w.part(x, 0, HALF), w.part(x, HALF, WIDTH)
    first = w("Add", w("Mul", b, sin), w("Mul", a, cos))
    return w("Concat", first, w("Add", w("Neg", w("Mul", a, sin)), w("Mul", b, cos)), axis=-1)


def swapped(w: Writer, x: str, cos: Array, sin: Array) -> str:
    """A copy whose halves are swapped, and tables of full width."""
    wide = [np.concatenate([table, table], -1) for table in (cos, sin)]
    copy = w("Concat", w("Neg", w.part(x, HALF, WIDTH)), w.part(x, 0, HALF), axis=-1)
    return w("Add", w("Mul", x, wide[0]), w("Mul", copy, wide[1]))


def padded(w: Writer, x: str, cos: Array, sin: Array) -> str:
    """The gradient of that: zeros beside each half, and three tensors are added."""
    wide = [np.concatenate([table, table], -1) for table in (cos, sin)]
    turned = w("Mul", x, wide[1])
    first = w("Pad", w("Neg", w.part(turned, 0, HALF)), PADS[0])
    second = w("Pad", w.part(turned, HALF, WIDTH), PADS[1])
    return w("Add", w("Add", w("Mul", x, wide[0]), first), second)


def neighbours(w: Writer, x: str, cos: Array, sin: Array) -> str:
    """Every second element, stacked along an axis of its own."""
    a, b = (w("Unsqueeze", w.part(x, i, WIDTH, 2), np.array([-1], np.int64)) for i in (0, 1))
    c, s = cos[..., np.newaxis], sin[..., np.newaxis]
    first = w("Sub", w("Mul", a, c), w("Mul", b, s))
    return w("Concat", first, w("Add", w("Mul", a, s), w("Mul", b, c)), axis=-1)


FORMS: dict[str, Callable[[Writer, str, Array, Array], str]] = {
    form.__name__: form for form in (halves, back, swapped, padded, neighbours)
}
ORDERS = {
    "heads": ((BATCH, HEADS, PLACES, WIDTH), (PLACES, HALF)),
    "places": ((BATCH, PLACES, HEADS, WIDTH), (PLACES, 1, HALF)),
}


def program(form: str, order: str, folder: Path) -> Program:
    """A graph that turns x."""
    shape, table = ORDERS[order]
    w = Writer()
    result = FORMS[form](w, "x", np.cos(ANGLES).reshape(table), np.sin(ANGLES).reshape(table))
    model = Model(tuple(w.nodes), (value("x", shape),), (value(result, None),), tuple(w.constants))
    return infer(folder, model)


def same(before: Program, options: Options = EVERY) -> Program:
    """The program after fusion, which gives the same bits on drawn numbers and on zeros of both signs."""
    after = fused(before, options)
    (name,), random = before.data, np.random.default_rng(3)
    shape = before.tensors[name].type.shape
    for x in (random.standard_normal(shape), random.choice([0.0, -0.0, 1.0], shape)):
        inputs = {name: x.astype(np.float32)}
        results = [run_inference(p, inputs) for p in (before, after)]
        assert [bits(y) for y in results[0].values()] == [bits(y) for y in results[1].values()]
    return after


@pytest.mark.parametrize("end", ["before", "behind"])
@pytest.mark.parametrize("form", [form for form in FORMS if form != "neighbours"])
def test_heads_are_turned_by_token(form: str, end: str, tmp_path: Path) -> None:
    """Next to a Transpose between heads and tokens, tokens are turned, and heads are on the other side of the two."""
    (shape, _), (tokens, _) = ORDERS["heads"], ORDERS["places"]
    w, behind = Writer(), end == "behind"
    turned = "x" if behind else w("Transpose", "x", perm=[0, 2, 1, 3])
    table = ORDERS["heads"][1]
    result = FORMS[form](w, turned, np.cos(ANGLES).reshape(table), np.sin(ANGLES).reshape(table))
    result = w("Transpose", result, perm=[0, 2, 1, 3]) if behind else result
    given = (value("x", shape if behind else tokens),)
    before = infer(tmp_path, Model(tuple(w.nodes), given, (value(result, None),), tuple(w.constants)))
    after = same(before)
    assert ops(after) == (["Transpose", "Rotation"] if behind else ["Rotation", "Transpose"])
    (rotation,) = [n for n in after.nodes if n.op == "Rotation"]
    assert after.tensors[rotation.inputs[0]].type.shape == tokens
    apart = same(before, Options(opt_out=tuple(n.name for n in before.nodes if n.op == "Transpose")))
    assert ops(apart) == ops(after)[::-1]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_one_node(form: str, order: str, tmp_path: Path) -> None:
    """Nothing but the rotation is left, and it has the bits of what it stands for."""
    before = program(form, order, tmp_path)
    after = same(before)
    assert ops(after) == ["Rotation"]
    assert after.nodes[0].attr_int("inverse", 0) == (form in ("back", "padded"))
    assert ops(same(before, Options(disabled_rewrites=("rotation",)))) != ["Rotation"]
    assert "Rotation" not in ops(same(before, Options(opt_out=(before.nodes[0].name,))))


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("form", FORMS)
def test_a_part_of_a_tensor(form: str, first: int, tmp_path: Path) -> None:
    """Queries that are sliced from a tensor with keys, at its begin or behind, are turned after that."""
    shape, table = (1, 2 * HEADS, PLACES, WIDTH), (PLACES, HALF)
    w = Writer()
    part = w("Slice", "x", *(np.array([i], np.int64) for i in (first * HEADS, (first + 1) * HEADS, 1)))
    result = FORMS[form](w, part, np.cos(ANGLES).reshape(table), np.sin(ANGLES).reshape(table))
    model = Model(tuple(w.nodes), (value("x", shape),), (value(result, None),), tuple(w.constants))
    assert ops(same(infer(tmp_path, model))) == ["Slice", "Rotation"]


KEPT = {"behind": (0, 3), "before": (2, 0), "around": (1, 2)}
"""Elements of each row that are no part of a pair."""


def partly(w: Writer, form: str, kept: tuple[int, int], order: str, zeros: bool) -> Model:
    """Some elements of each row turned, the others concatenated, or added beside zeros."""
    shape, table = ORDERS[order]
    (before, behind), width = kept, WIDTH + sum(kept)
    pieces = [
        w.part("x", begin, end) for begin, end in ((0, before), (before, before + WIDTH), (width - behind, width))
    ]
    pieces[1] = FORMS[form](w, pieces[1], np.cos(ANGLES).reshape(table), np.sin(ANGLES).reshape(table))
    pieces[1] = w.shape(pieces[1], *shape[:-1], WIDTH) if form == "neighbours" else pieces[1]
    sizes = (before, WIDTH, behind)
    listed = [(piece, sum(sizes[:i]), sum(sizes[i + 1 :])) for i, piece in enumerate(pieces) if sizes[i]]
    if zeros:
        beside = [w("Pad", x, np.array([0, 0, 0, a, 0, 0, 0, b], np.int64)) for x, a, b in listed]
        result = beside[0]
        for other in beside[1:]:
            result = w("Add", result, other)
    else:
        result = w("Concat", *(x for x, _, _ in listed), axis=-1)
    nodes = [n for n in w.nodes if n.op_type != "Slice" or any(n.output[0] in other.input for other in w.nodes)]
    return Model(tuple(nodes), (value("x", (*shape[:-1], width)),), (value(result, None),), tuple(w.constants))


@pytest.mark.parametrize("zeros", [False, True], ids=["concatenated", "added"])
@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("form", FORMS)
def test_a_part_of_each_row(form: str, kept: str, zeros: bool, tmp_path: Path) -> None:
    """Elements that no pair has stay what they are in the same node, signs of zeros included."""
    for order in ORDERS:
        before = infer(tmp_path, partly(Writer(), form, KEPT[kept], order, zeros))
        after = same(before)
        assert ops(after) == ["Rotation"]
        assert tuple(after.nodes[0].attr_int(name, 0) for name in ("before", "behind")) == KEPT[kept]


def test_one_pair_of_each_row(tmp_path: Path) -> None:
    """Rows of which only one pair is turned: its elements are neighbours and halves alike."""
    w = Writer()
    cos, sin = np.cos(ANGLES[:, :1]), np.sin(ANGLES[:, :1])
    a, b = w.part("x", 0, 1), w.part("x", 1, 2)
    first = w("Sub", w("Mul", a, cos), w("Mul", b, sin))
    result = w("Concat", first, w("Add", w("Mul", b, cos), w("Mul", a, sin)), w.part("x", 2, WIDTH), axis=-1)
    model = Model(tuple(w.nodes), (value("x", ORDERS["heads"][0]),), (value(result, None),), tuple(w.constants))
    assert ops(same(infer(tmp_path, model))) == ["Rotation"]


def test_kept_elements_that_change(tmp_path: Path) -> None:
    """Elements beside the pairs that are doubled, or in another order, leave a rotation of the others alone."""
    shape, table = ORDERS["heads"]
    for change in ("doubled", "reversed"):
        w = Writer()
        kept = w.part("x", WIDTH, WIDTH + 3) if change == "doubled" else w.part("x", WIDTH + 2, WIDTH - 1, -1)
        kept = w("Add", kept, kept) if change == "doubled" else kept
        turned = halves(w, w.part("x", 0, WIDTH), np.cos(ANGLES).reshape(table), np.sin(ANGLES).reshape(table))
        result = w("Concat", turned, kept, axis=-1)
        inputs = (value("x", (*shape[:-1], WIDTH + 3)),)
        after = same(infer(tmp_path, Model(tuple(w.nodes), inputs, (value(result, None),), tuple(w.constants))))
        assert "Rotation" in ops(after)
        assert "Concat" in ops(after)


def copied(w: Writer, x: str) -> str:
    """The copy with swapped halves, the second one with the other sign, as a sum of halves beside zeros."""
    first, second = w("Pad", w.part(x, 0, HALF), PADS[0]), w("Pad", w("Neg", w.part(x, HALF, WIDTH)), PADS[1])
    return w("Add", first, second)


@pytest.mark.parametrize("form", ["product", "difference", "negative"])
def test_zeros_that_change_signs(form: str, tmp_path: Path) -> None:
    """Zeros that are subtracted, or added before a product, do not make 0 of -0 in the end: the bits are the same."""
    shape, table = ORDERS["heads"]
    w = Writer()
    cos, sin = (np.concatenate([x(ANGLES).reshape(table)] * 2, -1) for x in (np.cos, np.sin))
    near, turned = w("Mul", "x", cos), w("Mul", "x", sin)
    first, second = w("Pad", w.part(turned, 0, HALF), PADS[0]), w("Pad", w.part(turned, HALF, WIDTH), PADS[1])
    last = {
        "product": lambda: w("Add", near, w("Mul", copied(w, "x"), sin)),
        "difference": lambda: w("Add", w("Sub", near, second), first),
        "negative": lambda: w("Add", w("Add", near, w("Neg", second)), first),
    }[form]()
    model = Model(tuple(w.nodes), (value("x", shape),), (value(last, None),), tuple(w.constants))
    same(infer(tmp_path, model))


def test_no_rotation(tmp_path: Path) -> None:
    """Nothing is fused if angles differ between both of a pair: here by one number of one table."""
    shape, table = ORDERS["heads"]
    w = Writer()
    cos, sin = np.cos(ANGLES).reshape(table), np.sin(ANGLES).reshape(table)
    a, b = w.part("x", 0, HALF), w.part("x", HALF, WIDTH)
    other = sin.copy()
    other[2, 1] *= np.float32(1.5)
    first = w("Sub", w("Mul", a, cos), w("Mul", b, sin))
    last = w("Concat", first, w("Add", w("Mul", b, cos), w("Mul", a, other)), axis=-1)
    model = Model(tuple(w.nodes), (value("x", shape),), (value(last, None),), tuple(w.constants))
    assert "Rotation" not in ops(same(infer(tmp_path, model)))


def test_parts_that_others_read_stay(tmp_path: Path) -> None:
    """A product that is an output, too, is computed, and the rotation beside it."""
    w = Writer()
    result = halves(w, "x", np.cos(ANGLES), np.sin(ANGLES))
    kept = next(n.output[0] for n in w.nodes if n.op_type == "Mul")
    outputs = (value(result, None), value(kept, None))
    model = Model(tuple(w.nodes), (value("x", ORDERS["heads"][0]),), outputs, tuple(w.constants))
    assert sorted(ops(same(infer(tmp_path, model)))) == ["Mul", "Rotation", "Slice"]
