"""Pad: borders of a constant, of reflected or of repeated elements."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from deployer.core.access import Access, Window
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const
from deployer.core.operator import Array, GradientBuilder, mismatch, register, unsupported
from deployer.core.traits.execution import Execution
from deployer.core.traits.file import FileSpec
from deployer.operators.base.operands import arrays, check_scalar, operands
from deployer.operators.base.views import normalized_axes
from deployer.operators.movement.slicing import Pick, Picking, dims_of, gathered, per_loop, pick_kernel

SOURCES: Mapping[str, Callable[[Array, int], Array]] = {
    "edge": lambda at, size: np.clip(at, 0, size - 1),
    "reflect": lambda at, size: size - 1 - np.abs(size - 1 - np.abs(at)),
    "wrap": lambda at, size: at % size,
}
"""By mode, where in an axis of that size the elements come from that stand at places before, in and behind it."""
MODES = ("constant", *SOURCES)
EXACT = 1 << 53
"""Below, floats hold every integer."""


def _renamed(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 11: attributes `pads`, in version 1 `paddings`, and `value`."""
    if min(node.attr_ints("paddings", ()), default=0) < 0:
        raise unsupported(node, "paddings are negative, which has a meaning from version 2 on only", "a Slice")
    names = {"paddings": "pads", "value": "constant_value"}
    return [replace(node, attrs={names.get(name, name): value for name, value in node.attrs.items()})]


@register
class Pad(Picking):
    """A constant around X, or elements of X; negative pads cut X.

    `pads` and, optional, `constant_value` and `axes` are inputs or attributes.

    In modes other than `constant` a Gather takes the elements of X along each axis.
    """

    name = "Pad"
    kernel = pick_kernel("pad_f32", "x", "y", *per_loop("at", "i32"), *per_loop("len", "u32"), ("value", "f32"))
    execution = Execution(moved=("x", "y"))
    file = FileSpec(
        versions=(11, 13, 18, 19, 21, 23, 24, 25),
        older={1: _renamed, 2: _renamed},
        static_inputs={1: "pads", 2: "constant_value", 3: "axes"},
        unbounded=("constant_value", "value"),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's type, each axis longer by its two pads."""
        x = operands(node, inputs, 1)[0]
        mode = node.attr_str("mode", "constant")
        if mode not in MODES:
            raise unsupported(node, f"mode is {mode!r}", f"one of {', '.join(MODES)}")
        check_scalar(node, "constant_value", x)
        shape = tuple(p.count for p in _picks(node, x))
        if min(shape, default=1) < int(x.dtype == "float32"):
            raise mismatch(node, f"pads leave shape {shape}, nothing of X", inputs)
        if x.dtype != "float32" and abs(_value(node)) >= EXACT:
            raise mismatch(node, f"the constant {_value(node)} is not an integer that X can hold", inputs)
        places_of(node, x)
        return (TensorType(x.dtype, shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Y filled with the pad value, then X written at its place in Y."""
        x = arrays(inputs, 1)[0]
        picks = _picks(node, TensorType("float32", x.shape))
        if node.attr_str("mode", "constant") != "constant":
            for axis, places in places_of(node, TensorType("float32", x.shape)):
                x = np.take(x, places, axis)
            return (np.ascontiguousarray(x),)
        y = np.full([p.count for p in picks], x.dtype.type(_value(node)), x.dtype)
        source, target = [], []
        for p in picks:
            low, high = max(-p.first, 0), min(p.size - p.first, p.count)
            target.append(slice(low, max(low, high)))
            source.append(slice(low + p.first, max(low, high) + p.first))
        y[tuple(target)] = x[tuple(source)]
        return (y,)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX is dY with the pads cut off; elements that negative pads removed have gradient zero."""
        if node.attr_str("mode", "constant") != "constant":
            _gathered_back(node, douts[0], b)
        else:
            picks = _picks(node, b.type(node.inputs[0]))
            pads = [p.first for p in picks] + [p.size - p.first - p.count for p in picks]
            b.emit("Pad", (douts[0], b.constant("pads", np.array(pads, np.int64))), (b.grad(0),))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Identity without pads; a Gather along each axis where elements of X are the pads.

        Integers around which others than 0 go have these subtracted before, and added behind, which wraps both times.
        """
        x = operands(node, inputs, 1)[0]
        places = places_of(node, x)
        if places:
            return gathered(node, node.inputs[0], [(axis, ids.tolist()) for axis, ids in places], "padded")
        if all(p.everything for p in _picks(node, x)):
            return [Node(node.name, "Identity", node.inputs[:1], node.outputs)]
        return _above(node, int(_value(node))) if x.dtype == "int32" and _value(node) else None

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Up to four parallel dims over Y, merged from its axes; a tile in the padding has no X."""
        picks = self.loops(node, _picks(node, types[node.inputs[0]]))
        maps = [Window(d, 1, pad=-p.first) for d, p in zip(dims_of(len(picks)), picks, strict=True)]
        return self.picked(node, types, ([p.size for p in picks], [p.count for p in picks]), maps)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The arguments of Picking, and the pad value."""
        return super().args(node, access) | {"value": Const(_value(node))}


def places_of(node: Node, x: TensorType) -> list[tuple[int, Array]]:
    """For each axis that gets elements of X as pads where they come from; nothing in mode `constant`.

    UnsupportedOperator where X has too few elements, or pads cut it.
    """
    mode, rows = node.attr_str("mode", "constant"), []
    for axis, p in enumerate(_picks(node, x) if mode != "constant" else ()):
        before, after = -p.first, p.count + p.first - p.size
        repeats = mode == "edge" and p.size > 0
        most = p.size - 1 if mode == "reflect" else p.size
        if min(before, after) < 0 or (not repeats and max(before, after) > most):
            why = f"mode is {mode!r}, and pads {before} and {after} of {p.size} elements"
            raise unsupported(node, why, "pads from 0 on" if repeats else f"pads from 0 to {most}")
        if before or after:
            rows.append((axis, SOURCES[mode](np.arange(-before, p.size + after), p.size)))
    return rows


def _above(node: Node, value: int) -> list[Node]:
    """Integers padded with zeros, as they are above the value, and brought back."""
    constant, above, padded = (f"{node.name}/{label}" for label in ("value", "above", "padded"))
    attrs = {name: given for name, given in node.attrs.items() if name not in Pad.file.unbounded}
    return [
        Node(constant, "Constant", (), (constant,), {"value_int": value}),
        Node(above, "Sub", (node.inputs[0], constant), (above,)),
        Node(padded, node.op, (above,), (padded,), attrs),
        Node(node.name, "Add", (padded, constant), node.outputs),
    ]


def _gathered_back(node: Node, dy: str, b: GradientBuilder) -> None:
    """dX where elements of X are the pads: each element gets the sum of what its copies get, axis by axis."""
    x = b.type(node.inputs[0])
    places = places_of(node, x)
    first = min((axis for axis, _ in places), default=0)
    for axis, ids in reversed(places):
        shape = list(b.type(dy).shape)
        shape[axis] = x.shape[axis]
        target = b.grad(0) if axis == first else b.temp("unpadded")
        operands = b.constant("shape", np.array(shape, np.int64)), b.constant("places", ids), dy
        b.emit("GatherGrad", operands, (target,), axis=axis)
        dy = target
    if not places:
        b.emit("Identity", (dy,), (b.grad(0),))


def _value(node: Node) -> float:
    """The constant as a number; a tensor of one element will do."""
    value = node.attrs.get("constant_value", node.attrs.get("value", 0.0))
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if not isinstance(value, (int, float)):
        raise unsupported(node, f"the constant {value!r} is not one number", "a scalar")
    return float(value)


def _picks(node: Node, x: TensorType) -> tuple[Pick, ...]:
    """For each axis of X the elements of it that Y holds."""
    if "pads" not in node.attrs:
        raise unsupported(node, "the pads are not constant", "a constant pads input")
    rank, pads = len(x.shape), node.attr_ints("pads", ())
    axes = node.attr_ints("axes", ()) if "axes" in node.attrs else tuple(range(rank))
    normalized_axes(node, axes, rank, (x,))
    if len(pads) != 2 * len(axes):
        raise mismatch(node, f"pads {pads} are not two for each of {len(axes)} axes", (x,))
    begin, end = dict.fromkeys(range(rank), 0), dict.fromkeys(range(rank), 0)
    for i, axis in enumerate(axes):
        begin[axis % rank], end[axis % rank] = pads[i], pads[len(axes) + i]
    return tuple(Pick(n, -begin[i], 1, n + begin[i] + end[i]) for i, n in enumerate(x.shape))
