"""Clip: X kept between a minimum and a maximum."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.declarations import Borders
from deployer.core.errors import NotDifferentiable
from deployer.core.forms import Rule, without
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Kernel, Sample, register, rng, unsupported
from deployer.operators.elementwise import BOUNDS, Clipping, bounds
from deployer.operators.inputs import arrays, check_scalar, normal, operands

_FURTHEST: dict[str, AttrValue] = {name: float(getattr(np.finfo(np.float32), name)) for name in ("min", "max")}


def _bounded(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 11 the bounds are attributes; an absent bound is the smallest or the largest finite float32."""
    current = without(node, "consumed_inputs")
    return [replace(current, attrs=_FURTHEST | current.attrs)]


@register
class Clip(Clipping):
    """`min` and `max` are inputs or attributes, either may be absent; where they cross, all becomes `max`."""

    name = "Clip"
    versions = (11, 12, 13)
    older: ClassVar[dict[int, Rule]] = {1: _bounded, 6: _bounded}
    kernel = Kernel("clip_f32", (("x", "float32", False), ("y", "float32", True)), BOUNDS)
    static_inputs: ClassVar[dict[int, str]] = {1: "min", 2: "max"}
    unbounded = ("min", "max")

    def is_static(self, position: int, value: Array | None) -> bool:
        """Where the bound is constant; others are operands of Max and Min."""
        return value is not None

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Max and Min where a bound is not constant, and for integers."""
        names = (*node.inputs, "", "")[: len(BOUNDS)]
        if not any(names[1:]) and operands(node, inputs, 1)[0].dtype == "float32":
            return None
        nodes, result = [], names[0]
        for name, bound, op in (("min", names[1], "Max"), ("max", names[2], "Min")):
            if name in node.attrs:
                bound = f"{node.name}/{name}"
                value = node.attrs[name]
                one = value[0] if isinstance(value, tuple) else value
                kind = "value_float" if isinstance(one, float) else "value_int"
                nodes.append(Node(bound, "Constant", (), (bound,), {kind: one}))
            if bound:
                nodes.append(Node(f"{node.name}/{op}", op, (result, bound), (f"{node.name}/{op}",)))
                result = f"{node.name}/{op}"
        return [*nodes, Node(node.name, "Identity", (result,), node.outputs)]

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X; a bound at run time is a scalar, or a list of one where X is no scalar."""
        bounds(node)
        x = operands(node, inputs, 1)[0]
        for name in ("min", "max"):
            check_scalar(node, name, x)
        for name, bound in zip(("min", "max"), inputs[1:], strict=False):
            if bound and bound.shape not in ((), (1,) if x.shape else ()):
                raise unsupported(node, f"{name} is {bound}", "a scalar, or Min and Max, which broadcast")
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """min(max(X, low), high); NaN stays NaN."""
        x = arrays(inputs, 1)[0]
        _, *limits = (*inputs, None, None)[: len(BOUNDS)]
        low, high = (
            np.asarray(bound if limit is None else limit) for bound, limit in zip(bounds(node), limits, strict=True)
        )
        return (np.minimum(np.maximum(x, low), high).astype(x.dtype),)

    def borders(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Borders, ...]:
        """Each element decides at either bound whether its gradient passes."""
        flat = arrays(inputs, 1)[0].reshape(-1)
        rows = []
        for bound, outside in zip(map(float, bounds(node)), (-np.inf, np.inf), strict=True):
            inside = flat >= bound if outside < 0 else flat <= bound
            turned = np.where(inside, np.nextafter(bound, outside), bound)
            rows.append(Borders(0, np.arange(flat.size), np.abs(flat - bound), turned))
        return tuple(rows)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY where min <= X <= max."""
        if any(node.inputs[1:]):
            raise NotDifferentiable(f"node {node.name!r} (Clip) has no gradient: its bounds are not constant")
        if b.needs_grad(0):
            values = dict(zip(("min", "max"), map(float, bounds(node)), strict=True))
            limits = {name: value for name, value in values.items() if name in node.attrs}
            b.emit("ClipGrad", (douts[0], node.inputs[0]), (b.grad(0),), **limits)

    def samples(self) -> Iterator[Sample]:
        """Both bounds as ReLU6 has them, either, none, and bounds that cross."""
        r = rng(97)
        yield Sample("relu6", (normal(r, 37) * np.float32(6),), {"min": 0.0, "max": 6.0})
        yield Sample("min", (normal(r, 5, 7),), {"min": -0.25})
        yield Sample("max", (normal(r, 5, 7),), {"max": 0.5})
        yield Sample("none", (normal(r, 7),))
        yield Sample("crossed", (normal(r, 7),), {"min": 1.0, "max": -1.0})
