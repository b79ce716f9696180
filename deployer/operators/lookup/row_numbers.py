"""RowNumbers: the number of a row among all from its place along several axes: a step of GatherND and ScatterND."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Whole
from deployer.core.declarations import Indices
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    Kernel,
    Operator,
    Sample,
    Start,
    Stride,
    Work,
    mismatch,
    register,
    rng,
    unsupported,
)
from deployer.operators.inputs import operands
from deployer.operators.lookup.table import check_ids, place_indices

AXES = 4
"""The most axes of a place: arguments of the kernel."""
NOWHERE = np.iinfo(np.int32).min
"""What a place outside of the table becomes, which is no row of any."""


@register
class RowNumbers(Operator):
    """Places, along the last axis one index per entry of `sizes`, negative ones from the end.

    Each `each` places in turn belong to a table of their own, behind the one before.
    """

    name = "RowNumbers"
    custom = Form((1, 1), (1, 1), {"sizes": "INTS", "each": "INT"})
    kernel = Kernel(
        "row_numbers_i32",
        pointers=(("ids", "int32", False), ("y", "int32", True)),
        scalars=tuple(
            (n, "u32") for n in ("n", "n_start", "each", "ids_n", "axes", *(f"size{i}" for i in range(AXES)))
        ),
    )
    no_gradient = "a number has none"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """One number in place of the last axis."""
        ids = operands(node, inputs, 1)[0]
        check_ids(node, ids, inputs)
        sizes = node.attr_ints("sizes", ())
        if not ids.shape or ids.shape[-1] != len(sizes):
            raise mismatch(node, f"a place does not have {len(sizes)} indices", inputs)
        if len(sizes) > AXES:
            raise unsupported(node, f"a place has {len(sizes)} indices", f"at most {AXES}")
        return (TensorType("int32", ids.shape[:-1]),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Horner's scheme over the axes."""
        [ids] = (x for x in inputs if x is not None)
        places = ids.reshape(-1, ids.shape[-1]).astype(np.int64)
        number = np.arange(len(places)) // node.attr_int("each", max(len(places), 1))
        outside = np.zeros(len(places), bool)
        for column, size in zip(places.T, node.attr_ints("sizes", ()), strict=True):
            front = column + size * (column < 0)
            outside |= (front < 0) | (front >= size)
            number = number * size + front
        return (np.where(outside, NOWHERE, number).astype(np.int32).reshape(ids.shape[:-1]),)

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices:
        """The places."""
        return place_indices(node.inputs[0], node.attr_ints("sizes", ()))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One dim over places."""
        shape = types[node.inputs[0]].shape
        count = math.prod(shape[:-1])
        listed = (
            Operand("ids", node.inputs[0], "in", (count, shape[-1]), (At("n"), Whole())),
            Operand("y", node.outputs[0], "out", (count,), (At("n"),)),
        )
        return Access((Dim("n", count),), listed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length and first place, and the axes."""
        sizes = node.attr_ints("sizes", ())
        each = node.attr_int("each", access.dim("n").size)
        lengths = {f"size{i}": Const(sizes[i] if i < len(sizes) else 1) for i in range(AXES)}
        own: dict[str, ArgValue] = {
            "n": Extent("n"),
            "n_start": Start("n"),
            "each": Const(each),
            "ids_n": Stride("ids", 0),
        }
        return {**own, "axes": Const(len(sizes)), **lengths}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One step per index."""
        return Work(macs=0, elements=tile["n"] * access.operand("ids").view[1], parallel=tile["n"])

    def samples(self) -> Iterator[Sample]:
        """One and several axes, several tables, places that are outside."""
        r = rng(164)
        forms: dict[str, tuple[tuple[int, ...], tuple[int, ...], int]] = {
            "one": ((7,), (9,), 9),
            "three": ((4, 3, 5), (2, 6), 12),
            "tables": ((4, 3), (3, 5), 5),
        }
        for label, (sizes, places, each) in forms.items():
            ids = np.stack([r.integers(-size - 1, size + 1, places) for size in sizes], -1).astype(np.int32)
            attrs: dict[str, AttrValue] = {"sizes": sizes, "each": each}
            yield Sample(label, (ids,), attrs, onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """Few and many places."""
        r = rng(165)
        for count in (16, 128, 1024):
            ids = np.asarray(r.integers(0, 8, (count, 2)), np.int32)
            yield Sample(f"n{count}", (ids,), {"sizes": (8, 8)}, onnx=False)
