"""Slice: every step-th element of X from a start to an end, per axis."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, Window
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Sample, mismatch, register, rng, unsupported
from deployer.operators.copies.selection import Pick, Picking, dims_of, gathered, per_loop, pick_kernel
from deployer.operators.inputs import arrays, normal, operands, words
from deployer.operators.view import normalized_axes


@register
class Slice(Picking):
    """`starts`, `ends` and, optional, `axes` and `steps` are inputs or attributes, as in ONNX.

    Where a step goes backward, elements are taken forward and then turned round by a Gather.
    """

    name = "Slice"
    versions = (1, 10, 11, 13)
    kernel = pick_kernel("slice_f32", "x", "y", *per_loop("step", "u32"))
    moved = ("x", "y")
    static_inputs: ClassVar[dict[int, str]] = {1: "starts", 2: "ends", 3: "axes", 4: "steps"}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The number of elements taken along each axis; of floats at least one."""
        x = operands(node, inputs, 1)[0]
        shape = tuple(p.count for p in taken(node, x))
        if x.dtype == "float32" and 0 in shape:
            raise mismatch(node, f"it takes nothing along axis {shape.index(0)}", inputs)
        return (TensorType(x.dtype, shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's slice."""
        x = arrays(inputs, 1)[0]
        picks = taken(node, TensorType("float32", x.shape))
        y = x[tuple(slice(p.first, p.first + p.count * p.step, p.step) for p in picks)]
        return (np.ascontiguousarray(np.flip(y, backward_axes(node, TensorType("float32", x.shape)))),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX holds dY at the elements that the slice took, and zero elsewhere."""
        if b.needs_grad(0):
            x, dy = b.type(node.inputs[0]), douts[0]
            for axis in backward_axes(node, x):
                ids = b.constant("turned", np.arange(b.type(dy).shape[axis])[::-1].copy())
                turned = b.temp("turned")
                b.emit("Gather", (dy, ids), (turned,), axis=axis)
                dy = turned
            put_back(b, dy, taken(node, x), b.grad(0))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Identity where the slice takes all elements; what goes backward is turned round behind a Slice."""
        x = operands(node, inputs, 1)[0]
        picks, axes = taken(node, x), backward_axes(node, x)
        if axes:
            return _turned(node, picks, axes)
        if not all(p.everything for p in picks):
            return None
        return [Node(node.name, "Identity", node.inputs[:1], node.outputs)]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Up to four parallel dims over Y, merged from its axes; a tile's X begins with its first element."""
        picks = self.loops(node, taken(node, types[node.inputs[0]]))
        maps = [Window(d, 1, p.step, pad=-p.first) for d, p in zip(dims_of(len(picks)), picks, strict=True)]
        return self.picked(node, types, ([p.size for p in picks], [p.count for p in picks]), maps)

    def samples(self) -> Iterator[Sample]:
        """Every axis, inner and outer ones, negative indices, ends far outside, steps, and nothing left out."""
        r = rng(92)
        forms: dict[str, tuple[tuple[int, ...], dict[str, AttrValue]]] = {
            "vector": ((11,), {"starts": (3,), "ends": (9,)}),
            "rows": ((5, 7), {"starts": (1,), "ends": (4,), "axes": (0,)}),
            "columns": ((5, 7), {"starts": (2,), "ends": (6,), "axes": (1,)}),
            "negative": ((5, 7), {"starts": (-4, -3), "ends": (-1, 7), "axes": (-2, -1)}),
            "far": ((5, 7), {"starts": (-99, 2), "ends": (3, 2**31 - 1)}),
            "steps": ((9, 11), {"starts": (1, 0), "ends": (9, 11), "axes": (0, 1), "steps": (3, 2)}),
            "four_axes": ((4, 5, 6, 7), {"starts": (1, 0, 2, 3), "ends": (3, 4, 5, 7), "axes": (0, 1, 2, 3)}),
            "channels": ((2, 6, 3, 3), {"starts": (2,), "ends": (5,), "axes": (1,)}),
            "image": ((2, 2, 7, 8), {"starts": (1, 1), "ends": (7, 8), "axes": (2, 3), "steps": (2, 3)}),
            "single": ((4, 6), {"starts": (2,), "ends": (3,), "axes": (1,), "steps": (5,)}),
            "all": ((3, 4), {"starts": (0, 0), "ends": (3, 4)}),
            "backward": ((5, 7), {"starts": (-1, 5), "ends": (-99, 0), "axes": (0, 1), "steps": (-1, -2)}),
        }
        for label, (shape, attrs) in forms.items():
            yield Sample(label, (normal(r, *shape),), attrs)
        for label in ("steps", "channels", "backward"):
            shape, attrs = forms[label]
            yield Sample(f"{label}_integers", (words(r, *shape),), attrs)

    def sweep(self) -> Iterator[Sample]:
        """Rows of several lengths, side by side and with a step."""
        r = rng(93)
        for rows, columns, step in ((8, 16, 1), (32, 64, 1), (16, 32, 2), (4, 640, 1)):
            attrs: dict[str, AttrValue] = {"starts": (1,), "ends": (columns,), "axes": (1,), "steps": (step,)}
            yield Sample(f"{rows}x{columns} {step}", (normal(r, rows, columns),), attrs)


def put_back(b: GradientBuilder, dy: str, picks: Sequence[Pick], dx: str) -> None:
    """Emit the gradient of X where Y holds picked elements of it: dY there, and zero elsewhere."""
    if any(p.step > 1 for p in picks):
        shape = tuple(p.size for p in picks)
        starts, steps = tuple(p.first for p in picks), tuple(p.step for p in picks)
        b.emit("SliceGrad", (dy,), (dx,), input_shape=shape, starts=starts, steps=steps)
        return
    pads = [p.first for p in picks] + [p.size - p.first - p.count for p in picks]
    b.emit("Pad", (dy, b.constant("pads", np.array(pads, np.int64))), (dx,))


def taken(node: Node, x: TensorType) -> tuple[Pick, ...]:
    """For each axis of X the elements of it that Y holds."""
    if "starts" not in node.attrs or "ends" not in node.attrs:
        raise unsupported(node, "starts or ends are not constant", "constant starts and ends")
    starts, ends = node.attr_ints("starts", ()), node.attr_ints("ends", ())
    axes = node.attr_ints("axes", ()) if "axes" in node.attrs else tuple(range(len(starts)))
    steps = node.attr_ints("steps", ()) if "steps" in node.attrs else (1,) * len(starts)
    if len({len(starts), len(ends), len(axes), len(steps)}) != 1:
        raise mismatch(node, f"starts {starts}, ends {ends}, axes {axes} and steps {steps} differ in length", (x,))
    normalized_axes(node, axes, len(x.shape), (x,))
    if 0 in steps:
        raise unsupported(node, f"steps are {steps}, of which one stands", "steps other than 0")
    picks = [Pick(size, 0, 1, size) for size in x.shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        places = range(*slice(start, end, step).indices(x.shape[axis]))
        places = places[::-1] if step < 0 else places
        picks[axis] = Pick(x.shape[axis], places.start, places.step if len(places) > 1 else 1, len(places))
    return tuple(picks)


def backward_axes(node: Node, x: TensorType) -> tuple[int, ...]:
    """The axes along which several elements are taken backward; `taken` has them forward."""
    picks, rank = taken(node, x), len(x.shape)
    axes = node.attr_ints("axes", ()) if "axes" in node.attrs else tuple(range(rank))
    steps = zip(axes, node.attr_ints("steps", ()), strict=False)
    return tuple(axis % rank for axis, step in steps if step < 0 and picks[axis].count > 1)


def _turned(node: Node, picks: Sequence[Pick], axes: Sequence[int]) -> list[Node]:
    """The elements forward, then a Gather from the last to the first along each of the axes."""
    name = f"{node.name}/forward"
    attrs: dict[str, AttrValue] = {
        "starts": tuple(p.first for p in picks),
        "ends": tuple(p.first + (p.count - 1) * p.step + 1 for p in picks),
        "axes": tuple(range(len(picks))),
        "steps": tuple(p.step for p in picks),
    }
    forward = Node(name, "Slice", node.inputs[:1], (name,), attrs)
    return [forward, *gathered(node, name, [(axis, range(picks[axis].count)[::-1]) for axis in axes], "turned")]
