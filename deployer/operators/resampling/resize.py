"""Resize: axes of other lengths, by the nearest elements or by products with a table of shares for each axis."""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.limits import check_elements
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng, unsupported
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.resampling.places import (
    CUBIC,
    LINEAR,
    NEAREST,
    OUTSIDE,
    PLACES,
    ROUNDINGS,
    TANGENT,
    Axis,
    Manner,
    nearest,
    shares,
)
from deployer.operators.view import normalized_axes

ENDS = "align_corners"
"""The place for which ONNX Runtime takes the length as rounded, and ONNX's reference evaluator as it was."""
POLICIES = {"stretch": None, "not_larger": min, "not_smaller": max}
"""Which of the scales of several axes holds for all of them."""


@register
class Resize(Operator):
    """Nearest elements are an Expand where each is repeated as often, else a Gather; others are a MatMul per axis."""

    name = "Resize"
    versions = (11, 13, 18, 19)
    flags = ("antialias", "exclude_outside")
    static_inputs: ClassVar[dict[int, str]] = {1: "roi", 2: "scales", 3: "sizes"}
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each length times its scale, or the sizes."""
        x = operands(node, inputs, 1)[0]
        _manner(node)
        shape = tuple(axis.result for axis in _axes(node, x))
        if min(shape, default=1) < 1:
            raise mismatch(node, f"it becomes {list(shape)}", inputs)
        for axis in _axes(node, x):
            check_elements(node, "the shares of an axis", (axis.result, axis.size))
        return (TensorType(x.dtype, shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Axis by axis the elements, or the sums of shares of them."""
        x = arrays(inputs, 1)[0]
        manner = _manner(node)
        for number, axis in enumerate(_axes(node, TensorType("float32", x.shape))):
            if manner.mode == NEAREST and manner.place != OUTSIDE:
                x = x.take(nearest(axis, manner), number)
            elif not axis.is_same:
                table = shares(axis, manner).astype(x.dtype)
                x = np.moveaxis(np.tensordot(x, table, ((number,), (1,))), -1, number)
        return (np.ascontiguousarray(x),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Whole numbers of equal elements are repeated; else an axis at a time, from the first."""
        x = operands(node, inputs, 1)[0]
        manner, axes = _manner(node), _axes(node, x)
        if manner.mode == NEAREST and all(_repeats(axis, manner) for axis in axes):
            return _repeated(node, x.shape, [axis.result // axis.size for axis in axes])
        shape, source, nodes = list(x.shape), node.inputs[0], list[Node]()
        for number, axis in enumerate(axes):
            if axis.is_same:
                continue
            before, behind = math.prod(shape[:number]), math.prod(shape[number + 1 :])
            shape[number] = axis.result
            label = f"{node.name}/axis{number}"
            nodes.append(Node(label, "Reshape", (source,), (label,), {"shape": (before, axis.size, behind)}))
            exact = manner.mode == NEAREST and manner.place != OUTSIDE
            nodes += _gathered(label, axis, manner) if exact else _mixed(label, axis, manner)
            source = f"{label}_y"
        return [*nodes, Node(node.name, "Reshape", (source,), node.outputs, {"shape": tuple(shape)})]

    def samples(self) -> Iterator[Sample]:
        """Images and signals, by scales and by sizes, in all modes and places."""
        r = rng(132)
        kept: dict[str, AttrValue] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        yield Sample("image", (normal(r, 1, 2, 3, 4),), {"scales": (1.0, 1.0, 2.0, 3.0), **kept})
        yield Sample("default", (normal(r, 1, 2, 3, 2),), {"scales": (1.0, 1.0, 2.0, 2.0)})
        yield Sample("sizes", (normal(r, 2, 1, 2, 3),), {"sizes": (2, 1, 6, 3), **kept})
        yield Sample("signal", (normal(r, 2, 3, 5),), {"scales": (1.0, 1.0, 4.0), **kept})
        yield Sample("same", (normal(r, 1, 2, 3),), {"scales": (1.0, 1.0, 1.0)})
        for rounding in ROUNDINGS:
            attrs: dict[str, AttrValue] = {"scales": (1.0, 1.0, 1.75, 0.5), "nearest_mode": rounding}
            yield Sample(rounding, (normal(r, 1, 2, 4, 6),), attrs)
        for mode in (LINEAR, CUBIC):
            for place in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
                attrs = {"mode": mode, "coordinate_transformation_mode": place}
                yield Sample(f"{mode}_{place}_up", (normal(r, 1, 2, 4, 6),), {**attrs, "scales": (1.0, 1.0, 2.0, 2.5)})
                yield Sample(f"{mode}_{place}_down", (normal(r, 1, 2, 7, 6),), {**attrs, "sizes": (1, 2, 3, 5)})
            down: dict[str, AttrValue] = {"mode": mode, "antialias": 1, "sizes": (1, 2, 3, 4)}
            yield Sample(f"{mode}_antialias", (normal(r, 1, 2, 7, 9),), down)
        attrs = {"axes": (3, 2), "sizes": (5, 2), "mode": LINEAR, "keep_aspect_ratio_policy": "not_larger"}
        yield Sample("axes", (normal(r, 1, 2, 4, 6),), attrs)
        yield Sample("linear_signal", (normal(r, 2, 3, 5),), {"mode": LINEAR, "scales": (1.0, 1.0, 2.0)})
        yield Sample("linear_volume", (normal(r, 1, 2, 2, 3, 3),), {"mode": LINEAR, "sizes": (1, 2, 4, 5, 4)})
        attrs = {"mode": CUBIC, "exclude_outside": 1, "cubic_coeff_a": -0.5, "sizes": (1, 1, 7, 3)}
        yield Sample("cubic_inside", (normal(r, 1, 1, 4, 5),), attrs)


def _repeats(axis: Axis, manner: Manner) -> bool:
    """Whether each old element is as many new ones, one after the other."""
    times, rest = divmod(axis.result, axis.size)
    return not rest and bool((nearest(axis, manner) == np.arange(axis.result) // times).all())


def _repeated(node: Node, lengths: Sequence[int], times: Sequence[int]) -> list[Node]:
    """Each element as an image of one, which Expand repeats, an axis at a time but for the last two."""
    shape, source, nodes = list(lengths), node.inputs[0], []
    outer = max(len(shape) - 2, 0)
    groups = [*((axis,) for axis in range(outer)), tuple(range(outer, len(shape)))]
    for group in groups:
        if all(times[axis] == 1 for axis in group):
            continue
        before, behind = math.prod(shape[: group[0]]), math.prod(shape[group[-1] + 1 :])
        pixels, target = [before], [before]
        for axis in group:
            pixels += [shape[axis], 1]
            target += [shape[axis], times[axis]]
            shape[axis] *= times[axis]
        label = f"{node.name}/axis{group[0]}"
        view, repeated = f"{label}_pixels", f"{label}_repeated"
        nodes.append(Node(view, "Reshape", (source,), (view,), {"shape": (*pixels, behind)}))
        nodes.append(Node(repeated, "Expand", (view,), (repeated,), {"shape": (*target, behind)}))
        source = repeated
    return [*nodes, Node(node.name, "Reshape", (source,), node.outputs, {"shape": tuple(shape)})]


def _gathered(label: str, axis: Axis, manner: Manner) -> list[Node]:
    """The nearest elements of the axis in the middle."""
    ids, result = f"{label}_ids", f"{label}_y"
    chosen = tuple(map(int, nearest(axis, manner)))
    return [
        Node(ids, "Constant", (), (ids,), {"value_ints": chosen}),
        Node(result, "Gather", (label, ids), (result,), {"axis": 1}),
    ]


def _mixed(label: str, axis: Axis, manner: Manner) -> list[Node]:
    """The sums of shares of the elements of the axis in the middle."""
    numbers, table, result = (f"{label}_{part}" for part in ("numbers", "shares", "y"))
    values = tuple(map(float, shares(axis, manner).reshape(-1)))
    return [
        Node(numbers, "Constant", (), (numbers,), {"value_floats": values}),
        Node(table, "Reshape", (numbers,), (table,), {"shape": (axis.result, axis.size)}),
        Node(result, "MatMul", (table, label), (result,)),
    ]


def _manner(node: Node) -> Manner:
    """The node's attributes; UnsupportedOperator for a value that ONNX does not have, or that has no table."""
    manner = Manner(
        node.attr_str("mode", NEAREST),
        node.attr_str("coordinate_transformation_mode", "half_pixel"),
        node.attr_str("nearest_mode", "round_prefer_floor"),
        node.attr_float("cubic_coeff_a", TANGENT),
        bool(node.attr_int("antialias", 0)),
        bool(node.attr_int("exclude_outside", 0)),
    )
    for value, known in ((manner.mode, (NEAREST, LINEAR, CUBIC)), (manner.place, PLACES), (manner.rounding, ROUNDINGS)):
        if value not in known:
            raise unsupported(node, f"there is no mode {value!r}", f"one of {', '.join(known)}")
    if manner.antialias and manner.mode == NEAREST:
        raise unsupported(node, "antialias has no meaning for nearest elements", f"mode {LINEAR} or {CUBIC}")
    if manner.exclude_outside and manner.mode != CUBIC:
        raise unsupported(node, "exclude_outside has a meaning for cubic shares alone", f"mode {CUBIC}")
    if manner.place == OUTSIDE and node.attr_float("extrapolation_value", 0.0) != 0:
        raise unsupported(node, f"extrapolation_value is {node.attrs['extrapolation_value']}", "0")
    return manner


def _axes(node: Node, x: TensorType) -> tuple[Axis, ...]:
    """What becomes of each axis of X; ShapeMismatch or UnsupportedOperator where that is not said."""
    rank = len(x.shape)
    named = node.attr_ints("axes", tuple(range(rank)))
    normalized_axes(node, named, rank, (x,))
    chosen = [axis % rank for axis in named]
    if ("scales" in node.attrs) == ("sizes" in node.attrs):
        raise unsupported(node, "there are no constant scales or sizes, or both", "one of both as a constant")
    given = _numbers(node, "scales" if "scales" in node.attrs else "sizes")
    roi = _numbers(node, "roi") or (*(0.0,) * len(chosen), *(1.0,) * len(chosen))
    if len(given) != len(chosen) or len(roi) != 2 * len(chosen):
        raise mismatch(node, f"{given} and roi {roi} are not of {len(chosen)} axes", (x,))
    if min(given, default=1) <= 0:
        raise mismatch(node, f"scales or sizes {given} are not positive", (x,))
    axes = [Axis(n, n, 1.0) for n in x.shape]
    place = node.attr_str("coordinate_transformation_mode", "")
    policy = node.attr_str("keep_aspect_ratio_policy", "stretch")
    if policy not in POLICIES:
        raise unsupported(node, f"there is no policy {policy!r}", f"one of {', '.join(POLICIES)}")
    choice = POLICIES[policy]
    shared = choice(size / x.shape[a] for a, size in zip(chosen, given, strict=True)) if choice else 0.0
    for position, number in enumerate(chosen):
        size, value = x.shape[number], given[position]
        if "scales" in node.attrs:
            result, scale = math.floor(np.float32(size) * np.float32(value)), value
            if place == ENDS and result != np.float32(size) * np.float32(value):
                why = f"scale {value} of {size} elements is no length, which {ENDS} needs"
                raise unsupported(node, why, "sizes, or scales that give whole numbers")
        elif choice:
            result, scale = math.floor(size * shared + 0.5), shared
        else:
            result, scale = int(value), value / size
        axes[number] = Axis(size, result, scale, (roi[position], roi[len(chosen) + position]))
    return tuple(axes)


def _numbers(node: Node, name: str) -> tuple[float, ...]:
    """An attribute of one number or of several."""
    value = node.attrs.get(name, ())
    return tuple(float(v) for v in (value if isinstance(value, tuple) else (value,)) if not isinstance(v, str))
