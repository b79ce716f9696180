"""ConvGradX: the gradient of a convolution with respect to X."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Reach, Whole
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel_facts import FACTS, measured_layers
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    First,
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
    BACKWARD,
    CONV_ATTRS,
    FORMS,
    VOLUMES,
    dilations,
    fits,
    form_of,
    geometry,
    most_taps,
    reaches,
    smallest_input,
    tap_arguments,
    taps_between,
)
from deployer.operators.convolution.rectangles import rectangle_work
from deployer.operators.convolution.volume import input_gradient
from deployer.operators.convolution.ways import Tile, Way, ways_over
from deployer.operators.finishing import (
    GATE,
    GATE_POINTER,
    check_gate,
    finished,
    finished_form,
    gate_args,
    gate_array,
    gate_operands,
)
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.products import is_single, quantum_of


def _macs(access: Access, tile: Tile) -> int:
    rows, columns = (a for a in access.operand("dy").axes if isinstance(a, Reach))
    products = math.prod(tile.values()) * math.prod(access.operand("w").view[3:])
    return round(products / (rows.stride * columns.stride))


@register
class ConvGradX(Operator):
    """dY, W -> dX with Conv's attributes; `input_shape` says how large X is where strides leave it open.

    A third input, which fusion adds, is Y of the Relu whose output is X: dX is zero where it is zero.
    """

    name = "ConvGradX"
    custom = Form((2, 2), (1, 1), {**CONV_ATTRS, "input_shape": "INTS"})
    no_gradient = BACKWARD
    pointed: ClassVar[dict[str, int]] = {GATE: 2}
    kernel = Kernel(
        "conv_grad_x_f32",
        pointers=(("dy", "float32", False), ("w", "float32", False), GATE_POINTER, ("dx", "float32", True)),
        scalars=(
            *((name, "u32") for name in ("n", "g", "c", "ih", "iw", "m", "kh", "kw", "sh", "sw", "dh", "dw")),
            *((name, "u32") for name in ("dy_rows", "dy_cols", "dy_n", "dy_g", "dy_m", "dy_h")),
            *((name, "u32") for name in ("w_g", "w_m", "w_c", "dx_n", "dx_g", "dx_c", "dx_h")),
            *((name, "u32") for name in ("first", "last", "single")),
            *((f"gate_{name}", "u32") for name in "ngch"),
            *((name, "u32") for name in ("step_h", "step_w", "back_h", "back_w")),
            *((("top", "i32"), ("left", "i32"))),
        ),
    )
    work_ways: ClassVar[Mapping[str, Way]] = ways_over("dy", "c", _macs, halves=2, threes=3, fives=5)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """dY[N, M, ..], W[M, C / group, ..] to dX[N, C, ..]."""
        dy, w = floats(node, inputs, 2)
        if len(dy.shape) != len(w.shape) or len(w.shape) < 3:
            raise mismatch(node, f"dY has {len(dy.shape)} axes, W {len(w.shape)}", inputs)
        channels = w.shape[1] * node.attr_int("group", 1)
        x = (dy.shape[0], channels, *smallest_input(node, dy.shape, w.shape, inputs))
        fits(node, geometry(node, x, w.shape, inputs), dy.shape, inputs)
        check_gate(node, inputs, self.pointed[GATE], TensorType("float32", x))
        return (TensorType("float32", x),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """For each tap dY times its weights, added to the elements of X that this tap reads, in float64."""
        dy, w = arrays(inputs, 2)
        (x,) = self.infer(node, [TensorType("float32", a.shape) for a in (dy, w)])
        shape = geometry(node, x.shape, w.shape, ())
        padded = shape.padded(np.zeros(x.shape))
        douts, weights = dy.reshape(shape.y).astype(np.float64), w.reshape(shape.w).astype(np.float64)
        form = f"ngm{shape.axes},gmc->ngc{shape.axes}"
        for tap, places in shape.taps():
            padded[places] += np.einsum(form, douts, weights[tap])
        dx = padded[shape.inner]
        return (finished(node, dx.reshape(x.shape).astype(dy.dtype), gate_array(inputs, self.pointed[GATE])),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A volume by images, whose channels are then added up where they come from."""
        _, w = floats(node, inputs, 2)
        shape = geometry(node, self.infer(node, inputs)[0].shape, w.shape, inputs)
        return input_gradient(node, shape) if shape.is_volume else None

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel batch, group, channels, rows and columns of X; the group's outputs are the reduction."""
        s = geometry(node, types[node.outputs[0]].shape, types[node.inputs[1]].shape, ())
        dx = Operand("dx", node.outputs[0], "out", s.x, tuple(At(d) for d in ("n", "g", "c", "ih", "iw")))
        operands = (
            Operand("dy", node.inputs[0], "in", s.y, (At("n"), At("g"), At("m"), *reaches(s))),
            Operand("w", node.inputs[1], "in", s.w, (At("g"), At("m"), At("c"), Whole(), Whole())),
            *gate_operands(node, self.pointed[GATE], dx),
            dx,
        )
        parallel = zip(("n", "g", "c", "ih", "iw"), s.x, strict=True)
        channels = Dim("m", s.m, "reduction", quantum_of(s.m, most_taps(s.kernel, s.strides, s.dilations)))
        return Access((*(Dim(name, size) for name, size in parallel), channels), operands)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, taps, strides in elements, and where the tile's first element lies in the windows of its dY."""
        rows, columns = (a for a in access.operand("dy").axes if isinstance(a, Reach))
        taps = tap_arguments(node, access.operand("w").view[3:], (rows.stride, columns.stride))
        spacing = dilations(node)
        met = most_taps(access.operand("w").view[3:], (rows.stride, columns.stride), spacing)
        step_h, back_h = taps_between(rows.stride, spacing[0])
        step_w, back_w = taps_between(columns.stride, spacing[1])
        return {
            **{name: Extent(name) for name in ("n", "g", "c", "ih", "iw", "m")},
            **taps,
            "dy_rows": Length("dy", 3),
            "dy_cols": Length("dy", 4),
            **{f"dy_{name}": Stride("dy", i) for i, name in enumerate("ngmh")},
            **{f"w_{name}": Stride("w", i) for i, name in enumerate("gmc")},
            **{f"dx_{name}": Stride("dx", i) for i, name in enumerate("ngch")},
            "first": First(),
            "last": Last(),
            "single": Const(int(is_single(access.dim("m").size, met))),
            **gate_args(access, {name: i for i, name in enumerate("ngch")}),
            "step_h": Const(step_h),
            "step_w": Const(step_w),
            "back_h": Const(back_h),
            "back_w": Const(back_w),
            "top": Offset("dy", 3),
            "left": Offset("dy", 4),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A multiply-accumulate per output channel and tap that met the input; cores share blocks of channels."""
        _, m, c, *kernel = access.operand("w").view
        rows, columns = (a for a in access.operand("dy").axes if isinstance(a, Reach))
        form = "" if m * c > 1 else form_of(m, c, (kernel[0], kernel[1]), (rows.stride, columns.stride))
        return rectangle_work(access, "dy", tile, "c", _macs(access, tile), finished_form(form, node, access))

    def samples(self) -> Iterator[Sample]:
        """The forms of Conv, with and without the shape of X."""
        r = rng(43)
        for label, x, w, attrs in FORMS:
            yield _sample(r, label, x, w, attrs)
        for label, x, w, attrs in FORMS[::4]:
            yield _gated(r, _sample(r, f"{label}_gate", x, w, attrs), x)
        for label, x, w, attrs in VOLUMES:
            yield _sample(r, label, x, w, attrs)
        yield Sample("smallest", (normal(r, 1, 3, 3, 2), normal(r, 3, 2, 3, 3)), {"strides": (2, 3)}, onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """The layers on which Conv is measured, with and without a gate.

        First ones are left out, and parts of a layer that lack a neighbour's dY.
        """
        r = rng(44)
        for layer in measured_layers():
            x, w, attrs, label = layer.x, layer.w, layer.attrs, layer.label
            plain = _sample(r, label, x, w, attrs)
            if x[1] > FACTS.block and min(Node(label, "Conv", (), (), attrs).attr_ints("pads", (1,))) > 0:
                yield plain
                yield _gated(r, replace(plain, label=f"{label} gated"), x)


def _gated(r: np.random.Generator, plain: Sample, x: tuple[int, ...]) -> Sample:
    return replace(plain, inputs=(*plain.inputs, np.maximum(normal(r, *x), np.float32(0))))


def _sample(
    r: np.random.Generator, label: str, x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, AttrValue]
) -> Sample:
    shape = geometry(Node(label, "Conv", (), (), attrs), x, w, ())
    inputs = (normal(r, *shape.y_shape), normal(r, *w))
    return Sample(label, inputs, {**attrs, "input_shape": shape.input_shape}, onnx=False)
