"""Convolution over one to three spatial axes with groups, its transpose, and its gradients in one node."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Whole, Window
from deployer.core.ir import BIAS, AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, First, Kernel, Last, Length, Offset, Stride
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, operator_of, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.training import Fans, Training
from deployer.operators.base.epilogue import RELU_SCALAR, finished, relu_args, through
from deployer.operators.base.operands import arrays, floats, operands
from deployer.operators.base.sums import is_single, quantum_of
from deployer.operators.base.work_split import SplitOperator
from deployer.operators.products.convolution_geometry import (
    BACKWARD,
    CONV_ATTRS,
    RANKS,
    convolved,
    fans_of,
    fits,
    geometry,
    smallest_input,
    tap_arguments,
    windows,
)
from deployer.operators.products.convolution_grad import ConvGradX


def _fans(node: Node, types: Mapping[str, TensorType]) -> Mapping[int, Fans]:
    """From a group's channels to all outputs, over the taps; of a ConvTranspose as of the Conv whose gradient it is."""
    return fans_of(types[node.inputs[1]])


@register
class Conv(SplitOperator):
    """Y = X * W + B over one to three spatial axes, with groups.

    Each output sums the channels of its group, outermost, and the taps by fmaf from zero; then comes the bias.

    Attribute `activation`, which fusion sets, says that Relu follows.
    """

    name = "Conv"
    training = Training(learned={2: BIAS}, fans=_fans)
    file = FileSpec(versions=(1, 11, 22))
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
        subscripts = f"ngc{shape.axes},gmc->ngm{shape.axes}"
        for tap, places in shape.taps():
            y += np.einsum(subscripts, padded[places], weights[tap])
        bias = inputs[2] if len(inputs) > 2 else None
        if bias is not None:
            y += bias.reshape(1, shape.group, shape.m, *[1] * len(shape.size))
        return (finished(node, y.reshape(shape.y_shape).astype(x.dtype)),)

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


SAME = ("SAME_UPPER", "SAME_LOWER")
"""Values of `auto_pad` with which Y has strides times the extents of X."""


@register
class ConvTranspose(Operator):
    """The gradient of a convolution with respect to X, as a forward pass.

    X[N, C, ..], W[C, M / group, ..], optional B[M] to Y[N, M, ..]: X is the dY of a Conv with that W.
    """

    name = "ConvTranspose"
    training = Training(learned={2: BIAS}, fans=_fans)
    file = FileSpec(versions=(1, 11, 22))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The least extents that X can come from, and `output_padding` behind them."""
        x, w = floats(node, inputs, 2)
        y = ConvGradX().infer(_convolution(node, x, w, inputs), (x, w))[0]
        if len(inputs) > 2 and inputs[2] is not None and inputs[2] != TensorType("float32", y.shape[1:2]):
            raise mismatch(node, f"B is {inputs[2]}, Y has {y.shape[1]} channels", inputs)
        return (y,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of ConvGradX, and the bias."""
        x, w, *rest = inputs
        assert x is not None
        assert w is not None
        types = [TensorType("float32", v.shape) for v in (x, w)]
        y = ConvGradX().reference(_convolution(node, types[0], types[1], types), (x, w))[0]
        if rest and rest[0] is not None:
            y = np.asarray(y + rest[0].reshape(-1, *[1] * (x.ndim - 2)), x.dtype)
        return (y,)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ConvGradX, and the bias behind it."""
        x, w = floats(node, inputs, 2)
        attrs, operands = _convolution(node, x, w, inputs).attrs, node.inputs[:2]
        if len(node.inputs) < 3 or not node.inputs[2]:
            return [Node(node.name, "ConvGradX", operands, node.outputs, attrs)]
        sums, column = f"{node.name}/sums", f"{node.name}/column"
        shape = (-1, *[1] * (len(x.shape) - 2))
        return [
            Node(sums, "ConvGradX", operands, (sums,), attrs),
            Node(column, "Reshape", node.inputs[2:], (column,), {"shape": shape}),
            Node(node.name, "Add", (sums, column), node.outputs),
        ]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX is the Conv of dY, dW its ConvGradW, dB the sum over batch and space."""
        x, w = (b.type(name) for name in node.inputs[:2])
        attrs = _convolution(node, x, w, (x, w)).attrs
        attrs = {name: value for name, value in attrs.items() if name != "input_shape"}
        if b.needs_grad(0):
            b.emit("Conv", (douts[0], node.inputs[1]), (b.grad(0),), **attrs)
        if b.needs_grad(1):
            b.emit("ConvGradW", (node.inputs[0], douts[0]), (b.grad(1),), **attrs)
        if len(node.inputs) > 2 and node.inputs[2] and b.needs_grad(2):
            axes = b.constant("axes", np.array((0, *range(2, len(x.shape))), np.int64))
            b.emit("ReduceSum", (douts[0], axes), (b.grad(2),), keepdims=0)


def _convolution(node: Node, x: TensorType, w: TensorType, inputs: Sequence[TensorType | None]) -> Node:
    """The node whose gradient this is, with the extents of its X, which are those of Y."""
    spatial = len(x.shape) - 2
    names = ("kernel_shape", "strides", "pads", "dilations", "group")
    attrs = {name: node.attrs[name] for name in names if name in node.attrs}
    if len(w.shape) != len(x.shape) or x.shape[1:2] != w.shape[:1]:
        raise mismatch(node, f"X has {x.shape}, W {w.shape}: not as many channels, or axes", inputs)
    more = node.attr_ints("output_padding", (0,) * spatial)
    if len(more) != spatial or min(more, default=0) < 0:
        raise mismatch(node, f"output_padding {more} is not that of {spatial} spatial axes", inputs)
    attrs = {"kernel_shape": w.shape[2:], **attrs}
    wanted = _wanted(node, x, spatial)
    if wanted is not None:
        attrs["pads"] = (0,) * 2 * spatial
    inner = Node(node.name, node.op, node.inputs[:2], node.outputs, attrs)
    least = smallest_input(inner, x.shape, w.shape, inputs)
    extents = tuple(a + b for a, b in zip(least, more, strict=True))
    if wanted is not None:
        attrs["pads"], extents = _pads(node, extents, wanted), wanted
    return Node(node.name, node.op, node.inputs[:2], node.outputs, {**attrs, "input_shape": extents})


def _wanted(node: Node, x: TensorType, spatial: int) -> tuple[int, ...] | None:
    """The extents of Y where the pads follow from them: `output_shape`, or strides times X's where Y is the SAME."""
    auto_pad = node.attr_str("auto_pad", "NOTSET")
    if auto_pad not in ("NOTSET", "VALID", "", *SAME):
        raise unsupported(node, f"auto_pad is {auto_pad!r}", f"one of NOTSET, VALID, {', '.join(SAME)}")
    if "output_shape" in node.attrs:
        shape = node.attr_ints("output_shape", ())[-spatial:]
        if len(shape) != spatial or min(shape, default=1) < 1:
            raise unsupported(node, f"output_shape is {shape}", f"a length for each of {spatial} spatial axes")
        return shape
    if auto_pad not in SAME:
        return None
    strides = node.attr_ints("strides", (1,) * spatial)
    return tuple(n * stride for n, stride in zip(x.shape[2:], strides, strict=True))


def _pads(node: Node, plain: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...]:
    """Return the crop of the plain extents; the odd element is cut at the end for SAME_UPPER, else at the start.

    Extents that are longer than those have zeros at their end.
    """
    upper = node.attr_str("auto_pad", "NOTSET") == SAME[0]
    totals = [max(a - b, 0) for a, b in zip(plain, wanted, strict=True)]
    begins = [total // 2 if upper else total - total // 2 for total in totals]
    return (*begins, *(total - begin for total, begin in zip(totals, begins, strict=True)))


@register
class ConvGrad(Operator):
    """The gradients of a convolution in one node, as training exporters write it.

    dY, X, W -> dX, dW, dB; it is lowered to one operator for each output that the node has.
    """

    name = "ConvGrad"
    file = FileSpec(custom=Signature((3, 3), (1, 3), CONV_ATTRS))
    no_gradient = BACKWARD

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of X and W, and B[M]."""
        dy, x, w = floats(node, inputs, 3)
        fits(node, geometry(node, x.shape, w.shape, inputs), dy.shape, inputs)
        return (x, w, TensorType("float32", w.shape[:1]))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dX, dW and dB, each by the reference of its own operator."""
        tensors = arrays(inputs, 3)
        names = ("dy", "x", "w")
        types = [TensorType("float32", array.shape) for array in tensors]
        full = Node(node.name, node.op, names, ("dx", "dw", "db"), node.attrs)
        values = dict(zip(names, tensors, strict=True))
        gradients: list[Array] = []
        for gradient in self._gradient_nodes(full, types):
            gradients.extend(operator_of(gradient).reference(gradient, [values[n] for n in gradient.inputs]))
        return tuple(gradients)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ConvGradX, ConvGradW and ConvGradB; a shape that an input of theirs does not show is an attribute."""
        return self._gradient_nodes(node, operands(node, inputs, 3))

    def _gradient_nodes(self, node: Node, inputs: Sequence[TensorType]) -> list[Node]:
        dy, x, w = node.inputs[:3]
        shape = geometry(node, inputs[1].shape, inputs[2].shape, inputs)
        gradients: tuple[tuple[str, tuple[str, ...], dict[str, AttrValue]], ...] = (
            ("X", (dy, w), {**shape.attrs, "input_shape": shape.input_shape}),
            ("W", (dy, x), shape.attrs),
            ("B", (dy,), {}),
        )
        return [
            Node(f"{node.name}_{operand.lower()}", f"ConvGrad{operand}", names, (output,), attrs)
            for (operand, names, attrs), output in zip(gradients, node.outputs, strict=False)
            if output
        ]


@register
class ConvGradB(Operator):
    """The gradient of a convolution with respect to its bias.

    dY -> dB: the sum over batch and space, by ReduceSum.
    """

    name = "ConvGradB"
    file = FileSpec(custom=Signature((1, 1), (1, 1), CONV_ATTRS))
    no_gradient = BACKWARD

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """dY[N, M, ..] to dB[M]."""
        (dy,) = floats(node, inputs, 1)
        if len(dy.shape) not in RANKS:
            raise unsupported(node, f"dY has {len(dy.shape)} axes", "dY of 3 to 5 axes")
        return (TensorType("float32", dy.shape[1:2]),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The sum over all axes but the second, in float64."""
        (dy,) = arrays(inputs, 1)
        return (dy.sum((0, *range(2, dy.ndim)), dtype=np.float64).astype(dy.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ReduceSum over batch and space."""
        (dy,) = operands(node, inputs, 1)
        attrs: dict[str, AttrValue] = {"axes": (0, *range(2, len(dy.shape))), "keepdims": 0}
        return [Node(node.name, "ReduceSum", node.inputs[:1], node.outputs, attrs)]
