"""Concat: tensors one after the other along an axis."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Window
from deployer.core.forms import Rule
from deployer.core.ir import Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Extent,
    GradientBuilder,
    Kernel,
    Length,
    Operator,
    Sample,
    Stride,
    Work,
    mismatch,
    register,
    rng,
    unsupported,
)
from deployer.operators.inputs import normal, operands, words


def _second_axis(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 1 need not say the axis, which then is 1."""
    return [replace(node, attrs={"axis": 1} | node.attrs)]


@register
class Concat(Operator):
    """Any number of inputs; the kernel joins two, more are joined half and half."""

    name = "Concat"
    versions = (4, 11, 13)
    older: ClassVar[dict[int, Rule]] = {1: _second_axis}
    kernel = Kernel(
        "concat_f32",
        pointers=(("a", "float32", False), ("b", "float32", False), ("y", "float32", True)),
        scalars=(("r", "u32"), ("n", "u32"), ("a_n", "u32"), ("a_r", "u32"), ("b_r", "u32"), ("y_r", "u32")),
    )
    moved = ("a", "b", "y")

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The inputs' shape, with the sum of their lengths along `axis`."""
        present = operands(node, inputs, max(len(node.inputs), 1))
        first, axis = present[0], _axis(node, present)
        if any(t.dtype != first.dtype for t in present):
            raise mismatch(node, "operands differ in dtype", inputs)
        if any(t.shape[:axis] + t.shape[axis + 1 :] != first.shape[:axis] + first.shape[axis + 1 :] for t in present):
            raise mismatch(node, f"operands differ along other axes than {axis}", inputs)
        total = sum(t.shape[axis] for t in present)
        return (TensorType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :])),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's concatenate."""
        present = [x for x in inputs if x is not None]
        return (np.concatenate(present, node.attr_int("axis", 0)),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """The slice of dY that each input became."""
        types = [b.type(name) for name in node.inputs]
        axis, start = _axis(node, types), 0
        for index, kind in enumerate(types):
            end = start + kind.shape[axis]
            if b.needs_grad(index):
                ends = (("starts", start), ("ends", end), ("axes", axis))
                bounds = [b.constant(label, np.array([value], np.int64)) for label, value in ends]
                b.emit("Slice", (douts[0], *bounds), (b.grad(index),))
            start = end

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Two Concats of half the inputs each, and one of both; a single input is an Identity.

        Halves copy an element once per level; a chain would copy the first ones once per input.
        """
        if len(node.inputs) == 1:
            return [Node(node.name, "Identity", node.inputs, node.outputs)]
        if len(node.inputs) == 2:
            return None
        middle = len(node.inputs) // 2
        nodes, joined = [], []
        for side, names in (("left", node.inputs[:middle]), ("right", node.inputs[middle:])):
            if len(names) == 1:
                joined.append(names[0])
                continue
            joined.append(f"{node.outputs[0]}_{side}")
            nodes.append(Node(f"{node.name}_{side}", self.name, names, (joined[-1],), dict(node.attrs)))
        return [*nodes, Node(node.name, self.name, tuple(joined), node.outputs, dict(node.attrs))]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dim r joins the axes before `axis`, n the others; a tile may lie in one of the inputs alone."""
        a, b = (types[name] for name in node.inputs)
        axis = _axis(node, (a, b))
        rows = math.prod(a.shape[:axis])
        sizes = [math.prod(t.shape[axis:]) for t in (a, b)]
        boxes = (
            Operand("a", node.inputs[0], "in", (rows, sizes[0]), (At("r"), Window("n", 1))),
            Operand("b", node.inputs[1], "in", (rows, sizes[1]), (At("r"), Window("n", 1, pad=sizes[0]))),
            Operand("y", node.outputs[0], "out", (rows, sum(sizes)), (At("r"), At("n"))),
        )
        return Access((Dim("r", rows), Dim("n", sum(sizes))), boxes)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, the length of A's rows, and the strides between rows in elements."""
        rows: dict[str, ArgValue] = {f"{name}_r": Stride(name, 0) for name in "aby"}
        return {"r": Extent("r"), "n": Extent("n"), "a_n": Length("a", 1), **rows}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One copy per element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count, parallel=count)

    def samples(self) -> Iterator[Sample]:
        """Each axis, negative ones, uneven lengths, one, three and five inputs."""
        r = rng(95)
        yield Sample("vectors", (normal(r, 5), normal(r, 8)), {"axis": 0})
        yield Sample("rows", (normal(r, 2, 5), normal(r, 3, 5)), {"axis": 0})
        yield Sample("columns", (normal(r, 4, 3), normal(r, 4, 6)), {"axis": -1})
        yield Sample("channels", (normal(r, 2, 3, 2, 2), normal(r, 2, 1, 2, 2)), {"axis": 1})
        yield Sample("integers", (words(r, 4, 3), words(r, 4, 6)), {"axis": 1})
        yield Sample("one", (normal(r, 2, 3),), {"axis": 0})
        yield Sample("three", tuple(normal(r, 2, n) for n in (1, 4, 2)), {"axis": 1})
        yield Sample("five", tuple(normal(r, n, 3) for n in (1, 2, 3, 2, 1)), {"axis": -2})

    def sweep(self) -> Iterator[Sample]:
        """Pairs of several sizes."""
        r = rng(96)
        for rows, a, b in ((1, 64, 64), (8, 16, 16), (32, 32, 8), (4, 512, 256)):
            yield Sample(f"{rows}x{a}+{b}", (normal(r, rows, a), normal(r, rows, b)), {"axis": 1})


def _axis(node: Node, present: Sequence[TensorType]) -> int:
    """The axis from the front; all inputs have it."""
    if "axis" not in node.attrs:
        raise unsupported(node, "there is no axis", "an axis attribute")
    axis, rank = node.attr_int("axis", 0), len(present[0].shape)
    if any(len(t.shape) != rank for t in present) or not -rank <= axis < rank:
        raise mismatch(node, f"operands differ in rank, or have no axis {axis}", present)
    return axis % rank
