"""What layer normalization is made of: steps over X as rows by columns, with numbers per row and per column.

A row is what is normalized together: the axes from `axis` on.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.ir import Node, TensorType
from deployer.core.kernel_facts import measured
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    CType,
    Extent,
    First,
    Kernel,
    Last,
    Operator,
    Sample,
    Stride,
    Work,
    mismatch,
    rng,
)
from deployer.operators.carry import CARRY, CARRY_SCALARS, carry_args, carry_operands, operand_pointers, result_count
from deployer.operators.inputs import floats, normal

EPSILON = 1e-5
FLOATS = ("count", "inverse_count", "epsilon")
"""Scalars of kernels that are no integers."""


class Layerwise(Operator):
    """A step of layer normalization. `layout` says per kernel argument what it runs over: "rc", "r" or "c".

    One with `sums` does so along one dim. Missing inputs are no operands, and count as zeros.
    """

    kernel: ClassVar[Kernel]
    layout: ClassVar[dict[str, str]]
    no_gradient = "it is a step of another operator, whose gradient includes it"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each output has X's shape, one element per row or one per column, as `layout` says."""
        x = floats(node, inputs, 1)[0]
        axis = first_axis(node, x.shape)
        sizes = {"rc": x.size, "r": math.prod(x.shape[:axis]), "c": math.prod(x.shape[axis:])}
        for kind, operand in zip(self.layout.values(), inputs, strict=False):
            if operand is not None and (operand.dtype != "float32" or operand.size != sizes[kind]):
                raise mismatch(node, f"{operand} is not of {sizes[kind]} floats", inputs)
        shapes = {"rc": x.shape, "r": x.shape[:axis] + (1,) * (len(x.shape) - axis), "c": x.shape[axis:]}
        return tuple(TensorType("float32", shapes[self.layout[arg]]) for arg in self._arguments(outputs=True))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The step's `formula` on arrays of rows by columns, its outputs in their own shapes."""
        first = next(x for x in inputs if x is not None)
        count = math.prod(first.shape[: first_axis(node, first.shape)])
        flat = {"rc": (count, -1), "r": (count, 1), "c": (1, -1)}
        given = dict(zip(self._arguments(outputs=False), inputs, strict=False))
        zero = np.zeros((1, 1), first.dtype)
        names = ((given.get(name), self.layout[name]) for name in self._arguments(outputs=False))
        outputs = self.formula(node, *(zero if x is None else x.reshape(flat[kind]) for x, kind in names))
        types = self.infer(node, [None if x is None else TensorType("float32", x.shape) for x in inputs])
        found = outputs[: len(types)]
        return tuple(x.reshape(t.shape).astype(first.dtype) for x, t in zip(found, types, strict=True))

    @abstractmethod
    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """The step's formula: X is [r, c], numbers per row are [r, 1], per column [1, c]; outputs have any shape."""

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims r (rows) and c (columns), the reduced one last."""
        shape = types[node.inputs[0]].shape
        axis = first_axis(node, shape)
        sizes = {"r": math.prod(shape[:axis]), "c": math.prod(shape[axis:])}
        absent = [""] * (len(self._arguments(outputs=False)) - len(node.inputs))
        results = (*node.outputs, *[""] * result_count(self.kernel))[: result_count(self.kernel)]
        tensors = (*node.inputs, *absent, *results)
        listed = []
        for (arg, _, is_output), tensor in zip(operand_pointers(self.kernel), tensors, strict=True):
            if tensor:
                kind = self.layout[arg]
                view, axes = tuple(sizes[d] for d in kind), tuple(At(d) for d in kind)
                listed.append(Operand(arg, tensor, "out" if is_output else "in", view, axes))
        summed = self.sums.dims if self.sums else ()
        if self.sums:
            listed += carry_operands(node, self.kernel, self.sums, listed[-1])
        dims = [Dim(n, sizes[n], "reduction" if n in summed else "parallel") for n in "rc"]
        return Access(tuple(sorted(dims, key=lambda d: d.kind)), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, row strides, whether the tile is first or last in the sum, and the columns of a full row."""
        values: dict[str, ArgValue] = {"r": Extent("r"), "c": Extent("c")}
        values |= {f"{o.arg}_r": Stride(o.arg, 0) for o in access.operands if len(o.view) == 2 and o.arg in self.layout}
        if self.sums:
            values |= {"first": First(), "last": Last(), **carry_args(self.sums, access)}
        values |= {"count": Const(float(access.dim("c").size)), **self.more_args(node, access)}
        return {name: values[name] for name, _ in self.kernel.scalars}

    def more_args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Kernel arguments of this step alone, by name."""
        return {}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """Two operations per element; a sum is not split between cores."""
        count = tile["r"] * tile["c"]
        summed = math.prod(tile[dim] for dim in self.sums.dims) if self.sums else 1
        return Work(macs=count, elements=count, parallel=count // summed)

    def samples(self) -> Iterator[Sample]:
        """Rows, one row, rows of one element, and axes in the middle."""
        r = rng(95)
        forms = (("rows", (7, 5), -1), ("row", (1, 13), 1), ("column", (6, 1), -1), ("middle", (2, 3, 4, 5), 2))
        for label, shape, axis in (*forms, ("long", (71, 133), -1)):
            yield self._sample(r, label, shape, axis)

    def sweep(self) -> Iterator[Sample]:
        """Layers of small transformers, and parts of them."""
        r = rng(96)
        for shape in measured("rows"):
            yield self._sample(r, "x".join(map(str, shape)), shape, -1)

    def _arguments(self, outputs: bool) -> list[str]:
        return [name for name, _, is_output in self.kernel.pointers if is_output == outputs and name in self.layout]

    def _sample(self, r: np.random.Generator, label: str, shape: tuple[int, ...], axis: int) -> Sample:
        first = axis % len(shape)
        shapes = {"rc": shape, "r": shape[:first] + (1,) * (len(shape) - first), "c": shape[first:]}
        inputs = tuple(normal(r, *shapes[self.layout[name]]) for name in self._arguments(outputs=False))
        return Sample(label, inputs, {"axis": axis}, len(self._arguments(outputs=True)), onnx=False)


def layer_kernel(
    symbol: str, layout: Mapping[str, str], outputs: Sequence[str], *more: str, sums: bool = False
) -> Kernel:
    """The kernel of a step with that layout; `more` are further scalars."""
    names = ("r", "c", *(f"{arg}_r" for arg, kind in layout.items() if kind == "rc"), *more)
    scalars: list[tuple[str, CType]] = [(name, "f32" if name in FLOATS else "u32") for name in names]
    pointers = [(arg, "float32", arg in outputs) for arg in layout]
    if sums:
        scalars += [("first", "u32"), ("last", "u32"), *CARRY_SCALARS]
        pointers.append(CARRY)
    return Kernel(symbol, tuple(pointers), tuple(scalars))


def first_axis(node: Node, shape: tuple[int, ...]) -> int:
    """The first axis of a row, counted from the front; ShapeMismatch where there is none."""
    axis = node.attr_int("axis", -1)
    if not -len(shape) <= axis < len(shape):
        raise mismatch(node, f"axis {axis} outside rank {len(shape)}", (TensorType("float32", shape),))
    return axis % len(shape)
