"""GatherElements: for each number an element of X, from the row of that number along an axis."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.declarations import Indices
from deployer.core.ir import Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    GradientBuilder,
    Kernel,
    Operator,
    Sample,
    Work,
    register,
    rng,
)
from deployer.operators.copies.selection import Pick
from deployer.operators.copies.slice import put_back
from deployer.operators.inputs import arrays, normal, operands, words
from deployer.operators.lines import axis_of, lines
from deployer.operators.lookup.elements import LENGTHS, check_elements_ids, element_args, grid
from deployer.operators.lookup.table import absent, row_indices


@register
class GatherElements(Operator):
    """Numbers count from the end where they are negative; one that is no row gives NaN."""

    name = "GatherElements"
    versions = (11, 13)
    kernel = Kernel(
        "gather_elements_f32",
        pointers=(("x", "float32", False), ("ids", "int32", False), ("y", "float32", True)),
        scalars=(*LENGTHS, *((n, "u32") for n in ("x_o", "x_r", "ids_o", "ids_k", "ids_i", "y_o", "y_k", "first"))),
    )
    moved = ("x", "y")

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The shape of the indices."""
        x, ids = operands(node, inputs, 2)
        check_elements_ids(node, x, ids, axis_of(node, x.shape, 0, inputs), inputs)
        return (TensorType(x.dtype, ids.shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Elements at the places of a grid; what `absent` says for a number that is no row."""
        x, ids = arrays(inputs, 2)
        axis = axis_of(node, x.shape, 0)
        where, present = grid(ids, x.shape[axis], axis)
        return (x[where] if present.all() else np.where(present, x[where], absent(x.dtype)),)

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices:
        """The second input, of rows along the axis."""
        shape = types[node.inputs[0]].shape
        return row_indices(node.inputs[1], shape[axis_of(node, shape, 0)])

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY at the elements that were taken, added up; zero elsewhere."""
        if not b.needs_grad(0):
            return
        picks = _picks(node, b.type(node.inputs[0]), b.type(node.inputs[1]))
        part = b.grad(0) if all(p.everything for p in picks) else b.temp("part")
        size = b.constant("shape", np.array([p.count for p in picks], np.int64))
        axis = axis_of(node, b.type(node.inputs[0]).shape, 0)
        b.emit("GatherElementsGrad", (douts[0], size, node.inputs[1]), (part,), axis=axis)
        if part != b.grad(0):
            put_back(b, part, picks, b.grad(0))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A Slice before it where the indices leave out the ends of other axes."""
        x, ids = operands(node, inputs, 2)
        picks = _picks(node, x, ids)
        if all(p.everything for p in picks):
            return None
        part, ends = f"{node.name}/part", tuple(p.count for p in picks)
        return [
            Node(part, "Slice", node.inputs[:1], (part,), {"starts": (0,) * len(ends), "ends": ends}),
            Node(node.name, node.op, (part, node.inputs[1]), node.outputs, node.attrs),
        ]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims o, k, i of the indices, and rows as the reduction r."""
        x, ids = types[node.inputs[0]], types[node.inputs[1]]
        axis = axis_of(node, x.shape, 0)
        (o, r, i), k = lines(x.shape, axis), ids.shape[axis]
        ends = (At("o"), At("k"), At("i"))
        listed = (
            Operand("x", node.inputs[0], "in", (o, r, i), (At("o"), At("r"), At("i"))),
            Operand("ids", node.inputs[1], "in", (o, k, i), ends),
            Operand("y", node.outputs[0], "out", (o, k, i), ends),
        )
        return Access((Dim("o", o), Dim("k", k), Dim("i", i), Dim("r", r, "reduction")), listed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Those of all elements."""
        return element_args(access)

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A look at each number."""
        count = math.prod(tile[d] for d in "oki")
        return Work(macs=0, elements=count, parallel=count)

    def samples(self) -> Iterator[Sample]:
        """Each axis, more and fewer numbers than rows, negative and repeated ones; other axes that are left out."""
        r = rng(150)
        forms: dict[str, tuple[tuple[int, ...], int, tuple[int, ...]]] = {
            "rows": ((6, 6), 0, (4, 6)),
            "columns": ((4, 7), 1, (4, 9)),
            "middle": ((3, 5, 4), 1, (3, 6, 4)),
            "last": ((2, 3, 7), -1, (2, 3, 5)),
            "vector": ((11,), 0, (13,)),
            "part": ((5, 6, 4), 1, (3, 4, 2)),
        }
        for label, (shape, axis, ids) in forms.items():
            numbers = np.asarray(r.integers(-shape[axis], shape[axis], ids), np.int32)
            yield Sample(label, (normal(r, *shape), numbers), {"axis": axis})
        numbers = np.asarray(r.integers(-5, 5, (3, 6, 4)), np.int32)
        yield Sample("integers", (words(r, 3, 5, 4), numbers), {"axis": 1})

    def sweep(self) -> Iterator[Sample]:
        """Tables of several sizes."""
        r = rng(151)
        for rows, columns, count in ((16, 16, 8), (64, 32, 16), (128, 16, 64), (32, 128, 4)):
            numbers = np.asarray(r.integers(0, rows, (count, columns)), np.int32)
            yield Sample(f"{rows}x{columns} {count}", (normal(r, rows, columns), numbers))


def _picks(node: Node, x: TensorType, ids: TensorType) -> list[Pick]:
    """What the indices reach of each axis of X."""
    picks = [Pick(size, 0, 1, count) for size, count in zip(x.shape, ids.shape, strict=True)]
    axis = axis_of(node, x.shape, 0)
    picks[axis] = Pick(x.shape[axis], 0, 1, x.shape[axis])
    return picks
