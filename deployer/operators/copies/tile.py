"""Tile: X side by side along each axis, as often as `repeats` says."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, Sample, mismatch, register, rng, unsupported
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.view import reshape_to


@register
class Tile(Operator):
    """An Expand between two views, one for each axis that is repeated, the innermost first."""

    name = "Tile"
    versions = (6, 13)
    static_inputs: ClassVar[dict[int, str]] = {1: "repeats"}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each length times its repeats."""
        x = operands(node, inputs, 1)[0]
        if "repeats" not in node.attrs:
            raise unsupported(node, "the repeats are not constant", "a constant repeats input")
        repeats = node.attr_ints("repeats", ())
        if len(repeats) != len(x.shape) or min(repeats, default=1) < int(x.dtype == "float32"):
            raise mismatch(node, f"repeats {repeats} are not one positive number for each axis", inputs)
        return (TensorType(x.dtype, tuple(n * times for n, times in zip(x.shape, repeats, strict=True))),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's tile."""
        x = arrays(inputs, 1)[0]
        return (np.tile(x, node.attr_ints("repeats", ())),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The elements from an axis on as lines, which Expand repeats; an Identity where nothing is repeated."""
        shape, repeats = list(operands(node, inputs, 1)[0].shape), node.attr_ints("repeats", ())
        source, nodes = node.inputs[0], []
        for axis in reversed([i for i, times in enumerate(repeats) if times > 1]):
            before, behind = (int(np.prod(part, dtype=int)) for part in (shape[:axis], shape[axis:]))
            lines, tiled = (f"{node.name}/{label}{axis}" for label in ("lines", "tiled"))
            nodes.append(Node(lines, "Reshape", (source,), (lines,), {"shape": (before, 1, behind)}))
            nodes.append(Node(tiled, "Expand", (lines,), (tiled,), {"shape": (before, repeats[axis], behind)}))
            source, shape[axis] = tiled, shape[axis] * repeats[axis]
        return [*nodes, Node(node.name, "Reshape", (source,), node.outputs, {"shape": tuple(shape)})]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """The sum of dY's tiles, axis by axis, the outermost first."""
        if not b.needs_grad(0):
            return
        x, repeats = b.type(node.inputs[0]).shape, node.attr_ints("repeats", ())
        source, shape = douts[0], list(b.type(douts[0]).shape)
        for axis in [i for i, times in enumerate(repeats) if times > 1]:
            before, behind = int(np.prod(shape[:axis], dtype=int)), int(np.prod(shape[axis:], dtype=int))
            lines, total = b.temp("lines"), b.temp("total")
            reshape_to(b, source, (before, repeats[axis], behind // repeats[axis]), lines)
            axes = b.constant("axes", np.array([1], np.int64))
            b.emit("ReduceSum", (lines, axes), (total,), keepdims=0)
            source, shape[axis] = total, x[axis]
        reshape_to(b, source, x, b.grad(0))

    def samples(self) -> Iterator[Sample]:
        """One axis, several, a vector, and nothing repeated."""
        r = rng(117)
        forms: dict[str, tuple[tuple[int, ...], dict[str, AttrValue]]] = {
            "vector": ((5,), {"repeats": (3,)}),
            "rows": ((3, 4), {"repeats": (2, 1)}),
            "both": ((3, 4), {"repeats": (2, 3)}),
            "image": ((2, 3, 2, 4), {"repeats": (1, 2, 3, 2)}),
            "none": ((3, 4), {"repeats": (1, 1)}),
        }
        for label, (shape, attrs) in forms.items():
            yield Sample(label, (normal(r, *shape),), attrs)
