"""Resize: an image whose pixels are repeated a whole number of times along each axis."""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng, unsupported
from deployer.operators.inputs import arrays, normal, operands

NEAREST: dict[str, tuple[str, ...]] = {
    "asymmetric": ("floor",),
    "half_pixel": ("round_prefer_floor", "round_prefer_ceil"),
    "half_pixel_symmetric": ("round_prefer_floor", "round_prefer_ceil"),
    "pytorch_half_pixel": ("round_prefer_floor", "round_prefer_ceil"),
}
"""Where pixels lie, and how a place between two is rounded, so that whole scales repeat pixels."""


@register
class Resize(Operator):
    """Mode `nearest` with scales that are whole numbers: an Expand between two views."""

    name = "Resize"
    versions = (11, 13, 18, 19)
    static_inputs: ClassVar[dict[int, str]] = {1: "roi", 2: "scales", 3: "sizes"}
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each length times its scale."""
        x = operands(node, inputs, 1)[0]
        scales = _scales(node, x)
        return (TensorType(x.dtype, tuple(n * times for n, times in zip(x.shape, scales, strict=True))),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's repeat, axis by axis."""
        x = arrays(inputs, 1)[0]
        for axis, times in enumerate(_scales(node, TensorType("float32", x.shape))):
            x = x.repeat(times, axis)
        return (x,)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Each pixel as an image of one, which Expand repeats, an axis at a time but for the last two."""
        x = operands(node, inputs, 1)[0]
        shape, scales = list(x.shape), _scales(node, x)
        source, nodes = node.inputs[0], []
        outer = max(len(shape) - 2, 0)
        groups = [*((axis,) for axis in range(outer)), tuple(range(outer, len(shape)))]
        for group in groups:
            if all(scales[axis] == 1 for axis in group):
                continue
            before, behind = math.prod(shape[: group[0]]), math.prod(shape[group[-1] + 1 :])
            pixels, target = [before], [before]
            for axis in group:
                pixels += [shape[axis], 1]
                target += [shape[axis], scales[axis]]
                shape[axis] *= scales[axis]
            label = f"{node.name}/axis{group[0]}"
            view, repeated = f"{label}_pixels", f"{label}_repeated"
            nodes.append(Node(view, "Reshape", (source,), (view,), {"shape": (*pixels, behind)}))
            nodes.append(Node(repeated, "Expand", (view,), (repeated,), {"shape": (*target, behind)}))
            source = repeated
        return [*nodes, Node(node.name, "Reshape", (source,), node.outputs, {"shape": tuple(shape)})]

    def samples(self) -> Iterator[Sample]:
        """Images and signals, by scales and by sizes, in all modes that repeat pixels."""
        r = rng(132)
        places: dict[str, AttrValue] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        yield Sample("image", (normal(r, 1, 2, 3, 4),), {"scales": (1.0, 1.0, 2.0, 3.0), **places})
        yield Sample("default", (normal(r, 1, 2, 3, 2),), {"scales": (1.0, 1.0, 2.0, 2.0)})
        yield Sample("sizes", (normal(r, 2, 1, 2, 3),), {"sizes": (2, 1, 6, 3), **places})
        yield Sample("signal", (normal(r, 2, 3, 5),), {"scales": (1.0, 1.0, 4.0), **places})
        yield Sample("same", (normal(r, 1, 2, 3),), {"scales": (1.0, 1.0, 1.0)})


def _scales(node: Node, x: TensorType) -> tuple[int, ...]:
    """The whole number for each axis; UnsupportedOperator where pixels are not just repeated."""
    mode, policy = node.attr_str("mode", "nearest"), node.attr_str("keep_aspect_ratio_policy", "stretch")
    place = node.attr_str("coordinate_transformation_mode", "half_pixel")
    rounding = node.attr_str("nearest_mode", "round_prefer_floor")
    if mode != "nearest" or rounding not in NEAREST.get(place, ()) or policy != "stretch" or "axes" in node.attrs:
        cause = f"mode {mode!r} with {place!r}, {rounding!r}, policy {policy!r}"
        raise unsupported(node, cause, "nearest pixels, asymmetric and floor, or half_pixel, of all axes")
    if node.attr_int("antialias", 0) or node.attr_int("exclude_outside", 0):
        raise unsupported(node, "it has antialias or exclude_outside, which decide nothing here", "neither of them")
    if ("scales" in node.attrs) == ("sizes" in node.attrs):
        raise unsupported(node, "there are no constant scales or sizes, or both", "one of both as a constant")
    if "scales" in node.attrs:
        given = node.attrs["scales"]
        scales = [float(v) for v in (given if isinstance(given, tuple) else (given,)) if not isinstance(v, str)]
    else:
        sizes = node.attr_ints("sizes", ())
        scales = [b / a for a, b in zip(x.shape, sizes, strict=False)] if len(sizes) == len(x.shape) else []
    if len(scales) != len(x.shape):
        raise mismatch(node, f"scales {scales} are not one for each axis", (x,))
    if any(v < 1 or v != int(v) for v in scales):
        raise unsupported(node, f"its scales are {scales}", "whole numbers")
    return tuple(map(int, scales))
