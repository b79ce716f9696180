"""Conv: Y = X * W + B over one to three spatial axes, with groups."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Whole, Window
from deployer.core.declarations import ACTIVATION, Fans
from deployer.core.ir import BIAS, Node, TensorType
from deployer.core.kernel_facts import FACTS, measured_layers
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    First,
    GradientBuilder,
    Kernel,
    Last,
    Length,
    Offset,
    Operator,
    Sample,
    Stride,
    Work,
    mismatch,
    register,
    rng,
)
from deployer.operators.convolution.geometry import (
    FORMS,
    VOLUMES,
    fans_of,
    form_of,
    geometry,
    tap_arguments,
    windows,
)
from deployer.operators.convolution.rectangles import rectangle_work
from deployer.operators.convolution.volume import convolved
from deployer.operators.convolution.ways import Tile, Way, ways_over
from deployer.operators.finishing import RELU, RELU_SCALAR, finished, finished_form, relu_args, through
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.products import is_single, quantum_of


def _macs(access: Access, tile: Tile) -> int:
    return math.prod(tile.values()) * math.prod(access.operand("w").view[3:])


def _in_blocks(node: Node, access: Access, tile: Tile) -> Work:
    """Cores share blocks of channels by neighbours in a row."""
    outputs = tile["n"] * tile["g"] * tile["m"] * tile["oh"] * tile["ow"]
    return Work(_macs(access, tile), outputs, outputs // FACTS.block**2, finished_form("", node, access))


@register
class Conv(Operator):
    """Each output sums the channels of its group, outermost, and the taps by fmaf from zero; then comes the bias.

    Attribute `activation`, which fusion sets, says that Relu follows.
    """

    name = "Conv"
    learned: ClassVar[dict[int, str]] = {2: BIAS}
    versions = (1, 11, 22)
    kernel = Kernel(
        "conv_f32",
        pointers=(
            ("x", "float32", False),
            ("w", "float32", False),
            ("b", "float32", False),
            ("y", "float32", True),
        ),
        scalars=(
            *((name, "u32") for name in ("n", "g", "m", "oh", "ow", "c", "kh", "kw", "sh", "sw", "dh", "dw")),
            *((name, "u32") for name in ("x_rows", "x_cols", "x_n", "x_g", "x_c", "x_h")),
            *((name, "u32") for name in ("w_g", "w_m", "w_c", "b_g", "y_n", "y_g", "y_m", "y_h")),
            *((name, "u32") for name in ("first", "last", "single")),
            RELU_SCALAR,
            *((("top", "i32"), ("left", "i32"))),
        ),
    )
    work_ways: ClassVar[Mapping[str, Way]] = {**ways_over("x", "m", _macs, threes=3, fives=5), "blocks": _in_blocks}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X[N, C, ..], W[M, C / group, ..], optional B[M] to Y[N, M, ..]."""
        x, w = floats(node, inputs, 2)
        shape = geometry(node, x.shape, w.shape, inputs)
        if len(inputs) > 2 and inputs[2] is not None and inputs[2].shape != w.shape[:1]:
            raise mismatch(node, f"B is {list(inputs[2].shape)}, W has {w.shape[0]} outputs", inputs)
        return (TensorType("float32", shape.y_shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The sum over the taps of one product of matrices each, in float64, rounded at the end."""
        x, w = arrays(inputs, 2)
        shape = geometry(node, x.shape, w.shape, ())
        padded, weights = shape.padded(x), w.reshape(shape.w).astype(np.float64)
        y = np.zeros(shape.y)
        form = f"ngc{shape.axes},gmc->ngm{shape.axes}"
        for tap, places in shape.taps():
            y += np.einsum(form, padded[places], weights[tap])
        bias = inputs[2] if len(inputs) > 2 else None
        if bias is not None:
            y += bias.reshape(1, shape.group, shape.m, *[1] * len(shape.size))
        return (finished(node, y.reshape(shape.y_shape).astype(x.dtype)),)

    def fans(self, node: Node, types: Mapping[str, TensorType]) -> Mapping[int, Fans]:
        """From a group's channels to all outputs, over the taps."""
        return fans_of(types[node.inputs[1]])

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A volume by images: of one layer of Y each, whose channels are those of all layers that it is made of."""
        x, w = floats(node, inputs, 2)
        shape = geometry(node, x.shape, w.shape, inputs)
        return convolved(node, shape) if shape.is_volume else None

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX and dW by operators of their own, dB as the sum over batch and space."""
        x, w = (b.type(name).shape for name in node.inputs[:2])
        dy = through(node, douts[0], b)
        shape = geometry(node, x, w, ())
        if b.needs_grad(0):
            attrs = {**shape.attrs, "input_shape": shape.input_shape}
            b.emit("ConvGradX", (dy, node.inputs[1]), (b.grad(0),), **attrs)
        if b.needs_grad(1):
            b.emit("ConvGradW", (dy, node.inputs[0]), (b.grad(1),), **shape.attrs)
        if len(node.inputs) > 2 and node.inputs[2] and b.needs_grad(2):
            axes = b.constant("axes", np.array((0, *range(2, shape.rank)), np.int64))
            b.emit("ReduceSum", (dy, axes), (b.grad(2),), keepdims=0)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel batch, group, outputs, rows and columns; the group's channels are the reduction."""
        s = geometry(node, types[node.inputs[0]].shape, types[node.inputs[1]].shape, ())
        operands = [
            Operand("x", node.inputs[0], "in", s.x, (At("n"), At("g"), At("c"), *windows(s))),
            Operand("w", node.inputs[1], "in", s.w, (At("g"), At("m"), At("c"), Whole(), Whole())),
        ]
        if len(node.inputs) > 2 and node.inputs[2]:
            operands.append(Operand("b", node.inputs[2], "in", (s.group, s.m), (At("g"), At("m"))))
        y_axes = (At("n"), At("g"), At("m"), At("oh"), At("ow"))
        operands.append(Operand("y", node.outputs[0], "out", s.y, y_axes))
        parallel = zip(("n", "g", "m", "oh", "ow"), s.y, strict=True)
        channels = Dim("c", s.c, "reduction", quantum_of(s.c, math.prod(s.kernel)))
        return Access((*(Dim(name, size) for name, size in parallel), channels), tuple(operands))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, taps, strides in elements, and where the tile's first window begins in its box of X."""
        rows, columns = (a for a in access.operand("x").axes if isinstance(a, Window))
        has_bias = any(o.arg == "b" for o in access.operands)
        return {
            **{name: Extent(name) for name in ("n", "g", "m", "oh", "ow", "c")},
            **tap_arguments(node, access.operand("w").view[3:], (rows.stride, columns.stride)),
            "x_rows": Length("x", 3),
            "x_cols": Length("x", 4),
            **{f"x_{name}": Stride("x", i) for i, name in enumerate("ngch")},
            **{f"w_{name}": Stride("w", i) for i, name in enumerate("gmc")},
            "b_g": Stride("b", 0) if has_bias else Const(0),
            **{f"y_{name}": Stride("y", i) for i, name in enumerate("ngmh")},
            "first": First(),
            "last": Last(),
            "single": Const(int(is_single(access.dim("c").size, math.prod(access.operand("w").view[3:])))),
            **relu_args(node),
            "top": Offset("x", 3),
            "left": Offset("x", 4),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A multiply-accumulate per tap, channel and output; cores share blocks of channels at an output."""
        _, m, c, *kernel = access.operand("w").view
        rows, columns = (a for a in access.operand("x").axes if isinstance(a, Window))
        form = "" if m * c > 1 else form_of(m, c, (kernel[0], kernel[1]), (rows.stride, columns.stride))
        return rectangle_work(access, "x", tile, "m", _macs(access, tile), finished_form(form, node, access))

    def samples(self) -> Iterator[Sample]:
        """Every attribute, one to three spatial axes, groups and depthwise, with and without bias."""
        r = rng(41)
        for label, x, w, attrs in FORMS:
            yield Sample(label, (normal(r, *x), normal(r, *w)), attrs)
        for label, x, w, attrs in FORMS[::4]:
            yield Sample(f"{label}_bias", (normal(r, *x), normal(r, *w), normal(r, w[0])), attrs)
        for label, x, w, attrs in FORMS[::6]:
            inputs = (normal(r, *x), normal(r, *w), normal(r, w[0]))
            yield Sample(f"{label}_relu", inputs, {**attrs, ACTIVATION: RELU}, onnx=False)
        _, x, w, attrs = FORMS[0]
        yield Sample("relu", (normal(r, *x), normal(r, *w)), {**attrs, ACTIVATION: RELU}, onnx=False)
        for label, x, w, attrs in VOLUMES:
            yield Sample(label, (normal(r, *x), normal(r, *w), normal(r, w[0])), attrs)

    def sweep(self) -> Iterator[Sample]:
        """Regular, pointwise, depthwise and strided layers, and the same with Relu.

        Strips of columns, single taps and first layers differ by the bias enough to be measured with it and without.
        """
        r = rng(42)
        for layer in measured_layers():
            x, w, attrs, label = layer.x, layer.w, layer.attrs, layer.label
            inputs = (normal(r, *x), normal(r, *w), normal(r, w[0]))
            yield Sample(label, inputs, attrs)
            if w[1] == 1 or w[2:] == (1, 1):
                yield Sample(f"{label} without bias", inputs[:2], attrs)
            yield Sample(f"{label} relu", inputs, {**attrs, ACTIVATION: RELU}, onnx=False)
