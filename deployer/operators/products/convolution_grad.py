"""Gradients of a convolution with respect to its input and weight, and SGD fused into the latter."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Reach, Whole, Window
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, First, Kernel, Last, Length, Offset, Stride
from deployer.core.operator import Array, mismatch, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import INTERNAL, FileSpec
from deployer.core.traits.fusion import Fusion
from deployer.operators.base.epilogue import (
    GATE,
    GATE_POINTER,
    check_gate,
    finished,
    gate_args,
    gate_array,
    gate_operands,
)
from deployer.operators.base.operands import arrays, floats
from deployer.operators.base.sums import block_of, is_single, quantum_of
from deployer.operators.base.work_split import SplitOperator
from deployer.operators.products.convolution_geometry import (
    BACKWARD,
    CONV_ATTRS,
    dilations,
    fits,
    geometry,
    input_gradient,
    most_taps,
    reaches,
    smallest_input,
    tap_arguments,
    taps_between,
    weight_gradient,
    windows,
)
from deployer.operators.update.optimizers import SGD, SGD_LEARNING_RATE

GATE_INPUT = 2
"""The input that gates the result, if the node has it; only fusion sets it."""


@register
class ConvGradX(SplitOperator):
    """The gradient of a convolution with respect to X.

    dY, W -> dX with Conv's attributes; `input_shape` says how large X is where strides leave it open.

    A third input, which fusion adds, is Y of the Relu whose output is X: dX is zero where it is zero.
    """

    name = "ConvGradX"
    file = FileSpec(custom=Signature((2, 2), (1, 1), {**CONV_ATTRS, "input_shape": "INTS"}))
    no_gradient = BACKWARD
    fusion = Fusion(epilogue_operands={GATE: GATE_INPUT})
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

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """dY[N, M, ..], W[M, C / group, ..] to dX[N, C, ..]."""
        dy, w = floats(node, inputs, 2)
        if len(dy.shape) != len(w.shape) or len(w.shape) < 3:
            raise mismatch(node, f"dY has {len(dy.shape)} axes, W {len(w.shape)}", inputs)
        channels = w.shape[1] * node.attr_int("group", 1)
        x = (dy.shape[0], channels, *smallest_input(node, dy.shape, w.shape, inputs))
        fits(node, geometry(node, x, w.shape, inputs), dy.shape, inputs)
        check_gate(node, inputs, GATE_INPUT, TensorType("float32", x))
        return (TensorType("float32", x),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """For each tap dY times its weights, added to the elements of X that this tap reads, in float64."""
        dy, w = arrays(inputs, 2)
        (x,) = self.infer(node, [TensorType("float32", a.shape) for a in (dy, w)])
        shape = geometry(node, x.shape, w.shape, ())
        padded = shape.padded(np.zeros(x.shape))
        douts, weights = dy.reshape(shape.y).astype(np.float64), w.reshape(shape.w).astype(np.float64)
        subscripts = f"ngm{shape.axes},gmc->ngc{shape.axes}"
        for tap, places in shape.taps():
            padded[places] += np.einsum(subscripts, douts, weights[tap])
        dx = padded[shape.inner]
        return (finished(node, dx.reshape(x.shape).astype(dy.dtype), gate_array(inputs, GATE_INPUT)),)

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
            *gate_operands(node, GATE_INPUT, dx),
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


def is_single_plane(access: Access) -> bool:
    """Whether a plane of dY is one block of a sum, and the only one."""
    sums = access.sizes
    return sums["n"] == 1 and is_single(sums["oh"], sums["ow"])


@register
class ConvGradW(SplitOperator):
    """The gradient of a convolution with respect to W.

    dY, X -> dW with Conv's attributes, kernel_shape among them.
    """

    name = "ConvGradW"
    file = FileSpec(custom=Signature((2, 2), (1, 1), CONV_ATTRS))
    no_gradient = BACKWARD
    kernel = Kernel(
        "conv_grad_w_f32",
        pointers=(("dy", "float32", False), ("x", "float32", False), ("grad", "float32", True)),
        scalars=(
            *((name, "u32") for name in ("g", "m", "c", "kh", "kw", "n", "oh", "ow", "sh", "sw", "dh", "dw")),
            *((name, "u32") for name in ("x_rows", "x_cols", "dy_n", "dy_g", "dy_m", "dy_h")),
            *((name, "u32") for name in ("x_n", "x_g", "x_c", "x_h", "dw_g", "dw_m", "dw_c")),
            *((name, "u32") for name in ("first", "single")),
            *((("top", "i32"), ("left", "i32"))),
        ),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """dY[N, M, ..], X[N, C, ..] to dW[M, C / group, ..]."""
        dy, x = floats(node, inputs, 2)
        if len(dy.shape) != len(x.shape) or len(x.shape) < 3:
            raise mismatch(node, f"dY has {len(dy.shape)} axes, X {len(x.shape)}", inputs)
        if "kernel_shape" not in node.attrs:
            raise unsupported(node, "the shape of W is not said", "attribute kernel_shape")
        kernel, group = node.attr_ints("kernel_shape", ()), node.attr_int("group", 1)
        w = (dy.shape[1], x.shape[1] // max(group, 1), *kernel)
        fits(node, geometry(node, x.shape, w, inputs), dy.shape, inputs)
        return (TensorType("float32", w),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """For each tap the product of dY with the elements of X that this tap reads, in float64."""
        dy, x = arrays(inputs, 2)
        (w,) = self.infer(node, [TensorType("float32", a.shape) for a in (dy, x)])
        shape = geometry(node, x.shape, w.shape, ())
        padded, douts = shape.padded(x), dy.reshape(shape.y).astype(np.float64)
        dw = np.zeros(shape.w)
        subscripts = f"ngm{shape.axes},ngc{shape.axes}->gmc"
        for tap, places in shape.taps():
            dw[tap] = np.einsum(subscripts, douts, padded[places])
        return (dw.reshape(w.shape).astype(dy.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A volume by images: of one layer of dY each."""
        _, x = floats(node, inputs, 2)
        shape = geometry(node, x.shape, self.infer(node, inputs)[0].shape, inputs)
        return weight_gradient(node, shape) if shape.is_volume else None

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel weights; batch, rows and columns of dY are the reduction."""
        s = geometry(node, types[node.inputs[1]].shape, types[node.outputs[0]].shape, ())
        operands = (
            Operand("dy", node.inputs[0], "in", s.y, tuple(At(d) for d in ("n", "g", "m", "oh", "ow"))),
            Operand("x", node.inputs[1], "in", s.x, (At("n"), At("g"), At("c"), *windows(s))),
            Operand("grad", node.outputs[0], "out", s.w, tuple(At(d) for d in ("g", "m", "c", "kh", "kw"))),
        )
        weights = zip(("g", "m", "c", "kh", "kw"), s.w, strict=True)
        rows, columns = s.out
        single = s.n == 1 and is_single(rows, columns)
        blocks = (1, 1) if single else (block_of(rows, columns), block_of(columns))
        sums = (("n", s.n, 1), ("oh", rows, blocks[0]), ("ow", columns, blocks[1]))
        return Access(
            (
                *(Dim(name, size, quantum=1 if name in "gmc" else size) for name, size in weights),
                *(Dim(name, size, "reduction", block) for name, size, block in sums),
            ),
            operands,
        )

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, taps, strides in elements, and where the tile's first window begins in its box of X."""
        rows, columns = (a for a in access.operand("x").axes if isinstance(a, Window))
        return {
            **{name: Extent(name) for name in ("g", "m", "c", "n", "oh", "ow")},
            **tap_arguments(node, access.operand("grad").view[3:], (rows.stride, columns.stride)),
            "x_rows": Length("x", 3),
            "x_cols": Length("x", 4),
            **{f"dy_{name}": Stride("dy", i) for i, name in enumerate("ngmh")},
            **{f"x_{name}": Stride("x", i) for i, name in enumerate("ngch")},
            **{f"dw_{name}": Stride("grad", i) for i, name in enumerate("gmc")},
            "first": First(),
            "single": Const(int(is_single_plane(access))),
            "top": Offset("x", 3),
            "left": Offset("x", 4),
        }


def _updating(producer: Node, update: Node, types: Mapping[str, TensorType]) -> Node | None:
    """The update with the operands of its gradient; None where that is stored as another shape."""
    weight = update.inputs[0]
    if producer.op != ConvGradW.name or types[producer.outputs[0]] != types[weight]:
        return None
    return Node("", ConvSGD.name, (*producer.inputs, weight), (), {**producer.attrs, **update.attrs})


@register
class ConvSGD(ConvGradW):
    """W' = W - lr * dW, in place: SGD of a convolution's weight.

    The gradient is rounded before the rate multiplies it, and has no memory.

    dY, X, W with ConvGradW's attributes and `lr`; behind the kernel's pointer `grad` lies W.
    """

    name = "ConvSGD"
    file = INTERNAL
    fusion = Fusion(fused_update=SGD.name, updating=_updating)
    no_gradient = "it is an optimizer"
    kernel = Kernel(
        "conv_sgd_f32", pointers=ConvGradW.kernel.pointers, scalars=(*ConvGradW.kernel.scalars, ("lr", "f32"))
    )
    inplace: ClassVar[dict[int, int]] = {0: 2}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """W's type, which is that of its gradient."""
        dy, x, w = floats(node, inputs, 3)
        if ConvGradW().infer(node, [dy, x]) != (w,):
            raise mismatch(node, "the weight is of another type than its gradient", inputs)
        return (w,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """w - lr * g."""
        dy, x, w = arrays(inputs, 3)
        rate = w.dtype.type(node.attr_float("lr", SGD_LEARNING_RATE))
        (gradient,) = ConvGradW().reference(node, [dy, x])
        return (np.asarray(w - rate * gradient),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """None: what is lowered is the gradient, before it is joined."""
        return None

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """That of the gradient, whose sums no tile cuts: the weight has no room for a part of them."""
        plain = super().access(node, types)
        dims = tuple(replace(d, quantum=d.size) if d.kind == "reduction" else d for d in plain.dims)
        dy, x, grad = plain.operands
        return Access(dims, (dy, x, replace(grad, tensor=node.inputs[2], mode="inout")))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The learning rate, too."""
        return super().args(node, access) | {"lr": Const(node.attr_float("lr", SGD_LEARNING_RATE))}
