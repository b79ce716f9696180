"""SliceGrad: dX of a Slice, zero but for the elements that the Slice took."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, Reach
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Sample, mismatch, register, registry, rng
from deployer.operators.copies.selection import Pick, Picking, dims_of, gathered, per_loop, pick_kernel
from deployer.operators.copies.slice import backward_axes, taken
from deployer.operators.inputs import arrays, normal, operands

SHAPE = "shape"
"""The attribute that the shape of X becomes where it is an input."""


@register
class SliceGrad(Picking):
    """dY to dX of `input_shape`: along each axis, dY's element i is dX's element `starts + i * steps`.

    ONNX Runtime's form has behind dY the shape of X, and starts, ends, axes and steps as Slice has them.
    """

    name = "SliceGrad"
    custom = Form((1, 6), (1, 1), {"input_shape": "INTS", "starts": "INTS", "steps": "INTS"})
    static_inputs: ClassVar[dict[int, str]] = dict(enumerate((SHAPE, "starts", "ends", "axes", "steps"), 1))
    kernel = pick_kernel(
        "slice_grad_f32", "dy", "dx", *per_loop("at", "i32"), *per_loop("len", "u32"), *per_loop("step", "u32")
    )
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X, inside of which all of dY must lie."""
        dy = operands(node, inputs, 1)[0]
        if SHAPE in node.attrs:
            x = TensorType(dy.dtype, node.attr_ints(SHAPE, ()))
            (taken,) = registry()["Slice"].infer(_slice(node), (x,))
            if taken != dy:
                raise mismatch(node, f"a Slice of {x} with its bounds is {taken}, not dY's type", inputs)
            return (x,)
        for p in _picks(node, dy):
            if p.first < 0 or p.step < 1 or p.first + (p.count - 1) * p.step >= p.size:
                raise mismatch(node, f"dY does not lie inside of X, {node.attr_ints('input_shape', ())}", inputs)
        return (TensorType(dy.dtype, node.attr_ints("input_shape", ())),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Zeros, with dY at the elements that the Slice took."""
        dy = arrays(inputs, 1)[0]
        if SHAPE in node.attrs:
            shape = node.attr_ints(SHAPE, ())
            numbers = np.arange(math.prod(shape)).reshape(shape)
            dx = np.zeros(numbers.size, dy.dtype)
            dx[registry()["Slice"].reference(_slice(node), (numbers,))[0]] = dy
            return (dx.reshape(shape),)
        dx = np.zeros(node.attr_ints("input_shape", ()), dy.dtype)
        picks = _picks(node, TensorType("float32", dy.shape))
        dx[tuple(slice(p.first, p.first + p.count * p.step, p.step) for p in picks)] = dy
        return (dx,)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ONNX Runtime's form as what the gradient of a Slice is here: axes turned round, then this operator or Pad."""
        if SHAPE not in node.attrs:
            return None
        dy = operands(node, inputs, 1)[0]
        x = TensorType(dy.dtype, node.attr_ints(SHAPE, ()))
        picks, axes = taken(_slice(node), x), backward_axes(_slice(node), x)
        name, nodes = node.inputs[0], list[Node]()
        if axes:
            turned = f"{node.name}/turned"
            chosen = Node(turned, "Gather", (name,), (turned,))
            nodes += gathered(chosen, name, [(axis, range(picks[axis].count)[::-1]) for axis in axes], "forward")
            name = turned
        if any(p.step > 1 for p in picks):
            columns = zip(*((p.size, p.first, p.step) for p in picks), strict=True)
            shape, starts, steps = (tuple(column) for column in columns)
            attrs: dict[str, AttrValue] = {"input_shape": shape, "starts": starts, "steps": steps}
            return [*nodes, Node(node.name, self.name, (name,), node.outputs, attrs)]
        pads = tuple(p.first for p in picks) + tuple(p.size - p.first - p.count for p in picks)
        return [*nodes, Node(node.name, "Pad", (name,), node.outputs, {"pads": pads})]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Up to four parallel dims over dX, merged from its axes; a tile between two steps has no dY."""
        picks = self.loops(node, _picks(node, types[node.inputs[0]]))
        maps = [Reach(d, 1, p.step, pad=-p.first) for d, p in zip(dims_of(len(picks)), picks, strict=True)]
        return self.picked(node, types, ([p.count for p in picks], [p.size for p in picks]), maps)

    def samples(self) -> Iterator[Sample]:
        """A vector, both axes of a matrix, an image, four axes, and a single element."""
        r = rng(94)
        forms: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
            "vector": ((4,), (13,), (2,), (3,)),
            "matrix": ((3, 5), (9, 11), (1, 0), (3, 2)),
            "image": ((2, 2, 3, 3), (2, 2, 7, 8), (0, 0, 1, 1), (1, 1, 2, 3)),
            "four_axes": ((1, 2, 2, 3), (4, 4, 5, 6), (3, 1, 0, 1), (2, 2, 3, 2)),
            "single": ((4, 1), (4, 6), (0, 2), (1, 5)),
        }
        for label, (part, shape, starts, steps) in forms.items():
            attrs: dict[str, AttrValue] = {"input_shape": shape, "starts": starts, "steps": steps}
            yield Sample(label, (normal(r, *part),), attrs, onnx=False)
        given: dict[str, tuple[tuple[int, ...], dict[str, AttrValue]]] = {
            "padded": ((3, 5), {SHAPE: (6, 5), "starts": (-4,), "ends": (-1,), "axes": (0,)}),
            "stepped": ((2, 3), {SHAPE: (5, 7), "starts": (1, 0), "ends": (99, 6), "axes": (0, 1), "steps": (2, 2)}),
            "reversed": ((4, 3), {SHAPE: (4, 7), "starts": (3, 6), "ends": (-9, 0), "axes": (0, 1), "steps": (-1, -2)}),
        }
        for label, (part, attrs) in given.items():
            yield Sample(label, (normal(r, *part),), attrs, onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """The samples that the kernel runs."""
        yield from (sample for sample in self.samples() if SHAPE not in sample.attrs)


def _slice(node: Node) -> Node:
    """The Slice whose gradient a node of ONNX Runtime's form is."""
    return Node(node.name, "Slice", (), node.outputs, {n: v for n, v in node.attrs.items() if n != SHAPE})


def _picks(node: Node, dy: TensorType) -> tuple[Pick, ...]:
    """For each axis of dX the elements at which dY lies."""
    shape, starts, steps = (node.attr_ints(name, ()) for name in ("input_shape", "starts", "steps"))
    if not len(shape) == len(starts) == len(steps) == len(dy.shape):
        raise mismatch(node, f"input_shape {shape}, starts {starts} and steps {steps} are not of dY's rank", (dy,))
    return tuple(map(Pick, shape, starts, steps, dy.shape))
