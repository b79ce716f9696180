"""Split: X cut along an axis into parts, one after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np

from deployer.core.forms import Rule
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, Sample, mismatch, register, rng, unsupported
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.view import normalized_axes


def _equal_parts(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 18 the parts are equal, as many as outputs, where nothing says their lengths."""
    if "split" in node.attrs or any(node.inputs[1:]):
        return [node]
    x, count = operands(node, types, 1)[0], len(node.outputs)
    size = x.shape[normalized_axes(node, (node.attr_int("axis", 0),), len(x.shape), types)[0]]
    if not count or size % count:
        raise mismatch(node, f"{size} elements do not make {count} equal parts", types)
    return [replace(node, attrs={**node.attrs, "split": (size // count,) * count})]


def _counted_from_the_front(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 11 an axis is counted from the front."""
    axis = node.attr_int("axis", 0)
    if axis < 0:
        raise unsupported(node, f"axis is {axis}, which has a meaning from version 11 on only", "an axis from 0")
    return _equal_parts(node, types)


def _attribute_form(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 1 has the lengths as an attribute, or as an input that nothing reads."""
    if any(node.inputs[1:]):
        raise unsupported(node, "its lengths are an input, which version 1 has and no runtime reads", "attribute split")
    return _counted_from_the_front(node, types)


@register
class Split(Operator):
    """Lengths as input or attribute `split`, or as many equal parts as `num_outputs` says, the last one shorter."""

    name = "Split"
    versions = (18,)
    older: ClassVar[dict[int, Rule]] = {
        **{1: _attribute_form, 2: _counted_from_the_front},
        **{11: _equal_parts, 13: _equal_parts},
    }
    static_inputs: ClassVar[dict[int, str]] = {1: "split"}
    counts_outputs = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's type with the length of each part, which is nothing where a part is not read."""
        x = operands(node, inputs, 1)[0]
        axis = normalized_axes(node, (node.attr_int("axis", 0),), len(x.shape), inputs)[0]
        lengths = _lengths(node, x.shape[axis], inputs)
        return tuple(TensorType(x.dtype, (*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in lengths)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's split."""
        x = arrays(inputs, 1)[0]
        axis = node.attr_int("axis", 0)
        lengths = _lengths(node, x.shape[axis], (TensorType("float32", x.shape),))
        return tuple(part.copy() for part in np.split(x, list(accumulate(lengths))[:-1], axis))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A Slice for each part that has a name; ShapeMismatch where that has no elements."""
        x, axis = operands(node, inputs, 1)[0], node.attr_int("axis", 0)
        nodes = []
        places = pairwise(accumulate(_lengths(node, x.shape[axis], inputs), initial=0))
        for number, ((start, end), output) in enumerate(zip(places, node.outputs, strict=False)):
            if output and start == end:
                raise mismatch(node, f"its part {number} has nothing of axis {axis % len(x.shape)}", inputs)
            attrs: dict[str, AttrValue] = {"starts": (start,), "ends": (end,), "axes": (axis,)}
            if output:
                nodes.append(Node(f"{node.name}/{number}", "Slice", node.inputs[:1], (output,), attrs))
        return nodes

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """The gradients of the parts joined again, zeros where none arrives; a single one is padded."""
        if not b.needs_grad(0):
            return
        x = b.type(node.inputs[0])
        axis = node.attr_int("axis", 0) % len(x.shape)
        parts = [TensorType(x.dtype, kind.shape) for kind in self.infer(node, (x,))]
        arrived = [i for i, dout in enumerate(douts) if dout]
        if len(arrived) == 1:
            lengths = [part.shape[axis] for part in parts]
            pads = np.zeros((2, len(x.shape)), np.int64)
            pads[:, axis] = sum(lengths[: arrived[0]]), sum(lengths[arrived[0] + 1 :])
            b.emit("Pad", (douts[arrived[0]], b.constant("pads", pads.reshape(-1))), (b.grad(0),))
            return
        names = [*douts, *[""] * (len(parts) - len(douts))]
        for i, part in enumerate(parts):
            names[i] = names[i] or (b.constant("zeros", np.zeros(part.shape, np.float32)) if part.size else "")
        b.emit("Concat", list(filter(None, names)), (b.grad(0),), axis=axis)

    def samples(self) -> Iterator[Sample]:
        """Halves, thirds and lengths of all sorts, on each axis, with and without a number of parts."""
        r = rng(110)
        forms: dict[str, tuple[tuple[int, ...], dict[str, AttrValue], int]] = {
            "halves": ((6, 5), {"num_outputs": 2}, 2),
            "lengths": ((2, 9, 3), {"axis": 1, "split": (2, 4, 3)}, 3),
            "last": ((4, 7), {"axis": -1, "split": (1, 6)}, 2),
            "counted": ((7, 3), {"num_outputs": 3}, 3),
            "one": ((3, 4), {"split": (3,)}, 1),
        }
        for label, (shape, attrs, outputs) in forms.items():
            yield Sample(label, (normal(r, *shape),), attrs, outputs)


def _lengths(node: Node, size: int, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
    """The lengths of the parts along the axis; ShapeMismatch where they do not fill it, or are not one per output."""
    if ("split" in node.attrs) == ("num_outputs" in node.attrs):
        what = "both lengths and" if "split" in node.attrs else "neither lengths nor"
        raise unsupported(node, f"it has {what} a number of parts", "one of both")
    if "split" in node.attrs:
        if isinstance(node.attrs["split"], int):
            raise mismatch(node, f"its lengths are the number {node.attrs['split']}, not a list of them", inputs)
        lengths = node.attr_ints("split", ())
    else:
        count = node.attr_int("num_outputs", 0)
        if count < 1 or count != len(node.outputs):
            raise mismatch(node, f"it makes {count} parts of {size} elements for {len(node.outputs)} outputs", inputs)
        each = -(-size // count)
        lengths = tuple(max(min(each, size - i * each), 0) for i in range(count))
    if len(lengths) != len(node.outputs):
        raise mismatch(node, f"lengths {lengths} are not one for each of {len(node.outputs)} outputs", inputs)
    if min(lengths, default=0) < 0 or sum(lengths) != size:
        raise mismatch(node, f"lengths {lengths} do not add up to {size}", inputs)
    return lengths
