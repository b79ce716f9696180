"""MaxPoolGrad: dY goes to the first maximum of its window."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np

from deployer.core.access import Access, Reach, box_shape
from deployer.core.declarations import Recomputed
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel_facts import measured
from deployer.core.operator import ArgValue, Array, Length, Offset, Sample, Stride, Work, register, rng
from deployer.operators.finishing import GATE, GATED, own_args, own_gate
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.pooling.volume import maximum_gradient
from deployer.operators.pooling.windows import (
    BACKWARD,
    FORMS,
    POOL_ATTRS,
    SPATIAL,
    PoolGrad,
    inner,
    padded,
    pool_kernel,
    sides,
    stacked,
    taps,
    windows,
)

X = 1
X_SCALARS = ("x_h", "x_w", "x_c", "x_r", "x_top", "x_left", GATED)


class _Along(NamedTuple):
    """The windows of a tile's dY along an axis, of `size` elements: those that reach over no border, those that are
    cut, and the ends where some are; the elements of all of them that lie inside."""

    size: int
    whole: int
    cut: int
    ends: int
    taps: int


def _along(access: Access, tile: Mapping[str, int]) -> list[_Along]:
    """Those of rows and of columns; a part of an axis is taken to have no border."""
    dy, found = access.operand("dy"), []
    for axis, count, seen in zip(dy.axes[1:], dy.view[1:], box_shape(dy, access, tile)[1:], strict=True):
        assert isinstance(axis, Reach)
        size, kernel = access.dim(axis.dim).size, axis.kernel
        begins = [i * axis.stride - axis.pad for i in range(count)] if tile[axis.dim] == size else []
        cut = [begin for begin in begins if begin < 0 or begin + kernel > size]
        taps = sum(min(begin + kernel, size) - max(begin, 0) for begin in cut)
        ends = int(any(begin < 0 for begin in cut)) + int(any(begin >= 0 for begin in cut))
        found.append(_Along(kernel, seen - len(cut), len(cut), ends, (seen - len(cut)) * kernel + taps))
    return found


@register
class MaxPoolGrad(PoolGrad):
    """dX from dY and X, or the indices that MaxPool gives; the kernel searches each window for its maximum again.

    Fusion sets the attribute `gated` where X is Y of a Relu whose gradient follows: what is not above zero gets none.
    """

    name = "MaxPoolGrad"
    custom = Form((2, 2), (1, 1), {**POOL_ATTRS, "storage_order": "INT"})
    flags = ("ceil_mode", "storage_order")
    parts_in_rows = False
    own: ClassVar[dict[str, tuple[int, str]]] = {GATE: (X, GATED)}
    recomputed: ClassVar[dict[int, Recomputed]] = {X: Recomputed("MaxPool", output=1, source=0)}
    kernel = pool_kernel("max_pool_grad_f32", ("dy", "x"), "dx", *BACKWARD, *X_SCALARS)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The arguments of PoolGrad, and the lengths, strides and offsets of the box of X that the tile reads."""
        values: dict[str, ArgValue] = {"x_h": Length("x", 1), "x_w": Length("x", 2)}
        values |= {"x_c": Stride("x", 0), "x_r": Stride("x", 1), "x_top": Offset("x", 1), "x_left": Offset("x", 2)}
        return super().args(node, access) | values | own_args(node)

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """That of PoolGrad, of a form of its own where X is a gate besides.

        Of squares that reach over a border the elements inside are searched, and are `lost`; runs are parts of rows of
        squares by one way: those at each end that reach over it, and those between.
        """
        plain = super().work(node, access, tile)
        if plain.form:
            rows, columns = _along(access, tile)
            box = box_shape(access.operand("dy"), access, tile)
            cut = box[1] * box[2] - rows.whole * columns.whole
            taps = rows.taps * columns.taps - rows.whole * columns.whole * rows.size * columns.size
            parts = rows.whole * (1 + columns.ends) + rows.cut if columns.whole else box[1]
            lost = plain.lost - box[0] * (cut * rows.size * columns.size - taps)
            plain = replace(plain, lost=lost, runs=box[0] * parts)
        return replace(plain, form=f"{plain.form}_gated".lstrip("_") if node.attr_int(GATED, 0) else plain.form)

    def shape(self, node: Node, dy: TensorType, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
        """The shape of X, the second input."""
        return operands(node, inputs, 2)[1].shape

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY added to the first maximum of its window."""
        dy, x = arrays(inputs, 2)
        axes = sides(node, x.shape)
        image = padded(x, axes, -np.inf)
        won = stacked(image, axes).argmax(0)
        dx = np.zeros_like(image)
        for position, tap in enumerate(taps(axes)):
            dx[tap] += np.where(won == position, dy.reshape(won.shape), dy.dtype.type(0))
        return (own_gate(node, dx[inner(axes)].reshape(x.shape), x),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A volume by its depth and its planes, whose maxima are computed again."""
        shape = self.infer(node, inputs)[0].shape
        axes = windows(node, shape)
        forward = self.recomputed[X].op
        return maximum_gradient(node, shape, axes, forward) if len(axes) == SPATIAL else None

    def samples(self) -> Iterator[Sample]:
        """All forms, equal elements, and what a Relu has left."""
        r = rng(84)
        for label, (shape, attrs) in FORMS.items():
            node = Node(label, self.name, (), (), attrs)
            dy_shape = shape[:2] + tuple(a.count for a in windows(node, shape))
            yield Sample(label, (normal(r, *dy_shape), normal(r, *shape)), attrs, onnx=False)
        equal = np.ones((1, 2, 4, 4), np.float32)
        yield Sample("equal", (normal(r, 1, 2, 3, 3), equal), {"kernel_shape": (2, 2)}, onnx=False)
        rectified = np.maximum(normal(r, 2, 3, 8, 8), np.float32(0))
        for name in ("plain", "overlap"):
            gated: dict[str, AttrValue] = {**FORMS[name][1], GATED: 1}
            counts = tuple(a.count for a in windows(Node(name, self.name, (), (), gated), rectified.shape))
            yield Sample(f"gated_{name}", (normal(r, 2, 3, *counts), rectified), gated, onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """Windows on small images, with and without padding."""
        r = rng(87)
        for channels, side, kernel, pad in measured("pool_grads"):
            attrs: dict[str, AttrValue] = {"kernel_shape": (kernel, kernel), "strides": (2, 2), "pads": (pad,) * 4}
            shape = (1, channels, side, side)
            dy_shape = shape[:2] + tuple(a.count for a in windows(Node("", self.name, (), (), attrs), shape))
            inputs = (normal(r, *dy_shape), normal(r, *shape))
            label = f"{channels}x{side}x{side} {kernel}" + " padded" * pad
            yield Sample(label, inputs, attrs, onnx=False)
            rectified = np.maximum(inputs[1], np.float32(0))
            yield Sample(f"{label} gated", (inputs[0], rectified), {**attrs, GATED: 1}, onnx=False)
