"""Conversion of floats to numbers of 8 bits and back, and functions of one such number."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Whole
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, Kernel, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.operators.base.operands import arrays, floats
from deployer.operators.quantized.requantization import (
    INT8,
    LEAST,
    RESULT,
    RESULT_SCALARS,
    SCALE,
    UINT8,
    ZERO,
    clip_of,
    eights,
    result_args,
    rounded,
    scale_of,
)

FROZEN = "it is part of a frozen model of 8 bits"
"""Why these operators have no gradient."""
NUMBERS = 256
"""Numbers of 8 bits."""


class Int8Elementwise(Operator):
    """Elementwise over one tensor, from the kernel's first pointer to its last."""

    no_gradient = FROZEN

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim; what lies between the two ends is whole."""
        assert self.kernel is not None
        size = types[node.inputs[0]].size
        (first, *between), result = self.kernel.pointers[:-1], self.kernel.pointers[-1]
        listed = [Operand(first[0], node.inputs[0], "in", (size,), (At("n"),))]
        for (arg, _, _), name in zip(between, node.inputs[1:], strict=True):
            listed.append(Operand(arg, name, "in", (types[name].size,), (Whole(),)))
        listed.append(Operand(result[0], node.outputs[0], "out", (size,), (At("n"),)))
        return Access((Dim("n", size),), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The length of the tile."""
        return {"n": Extent("n")}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One operation per element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count, parallel=count)


@register
class QuantizeInt8(Int8Elementwise):
    """Y = X / scale, rounded half to even, moved by the zero and clipped to 8 bits."""

    name = "QuantizeInt8"
    file = FileSpec(custom=Signature((1, 1), (1, 1), {SCALE: "FLOAT", **RESULT}, required=frozenset({SCALE, ZERO})))
    kernel = Kernel(
        "quantize_i8",
        pointers=(("x", "float32", False), ("y", INT8, True)),
        scalars=(("n", "u32"), ("scale", "f32"), *RESULT_SCALARS),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape in 8 bits."""
        scale_of(node, SCALE)
        clip_of(node)
        return (TensorType(INT8, floats(node, inputs, 1)[0].shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The quotient in float32, of what X is in float32: the number is the one that targets compute."""
        with np.errstate(over="ignore", invalid="ignore"):
            x = arrays(inputs, 1)[0].astype(np.float32)
            return (rounded(x / scale_of(node, SCALE), node),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The length of the tile, the scale, and the result's zero and bounds."""
        return {"n": Extent("n"), "scale": Const(float(scale_of(node, SCALE))), **result_args(node)}


@register
class DequantizeInt8(Int8Elementwise):
    """Y = (X - zero) * scale as a float: the border between a frozen part of 8 bits and what is trained."""

    name = "DequantizeInt8"
    file = FileSpec(custom=Signature((1, 1), (1, 1), {SCALE: "FLOAT", ZERO: "INT"}, required=frozenset({SCALE, ZERO})))
    kernel = Kernel(
        "dequantize_i8",
        pointers=(("x", INT8, False), ("y", "float32", True)),
        scalars=(("n", "u32"), ("scale", "f32"), ("zero", "i32")),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape in float32."""
        scale_of(node, SCALE)
        clip_of(node)
        return (TensorType("float32", eights(node, inputs, 1)[0].shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The product, which float32 rounds once."""
        x = arrays(inputs, 1)[0].astype(np.int32) - clip_of(node)[0]
        return (x.astype(np.float32) * scale_of(node, SCALE),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The length of the tile, scale and zero."""
        return {"n": Extent("n"), "scale": Const(float(scale_of(node, SCALE))), "zero": Const(clip_of(node)[0])}


AXES = "axes"
"""Attribute: the spatial axes of images in a model, one of a signal or two."""


class ImageConversion(Operator):
    """Conversion of images whose channels come first, in floats, and innermost, in numbers of 8 bits; a signal has one
    row.
    """

    no_gradient = FROZEN

    @abstractmethod
    def pointers(self) -> tuple[str, str]:
        """The pointers to the images with their channels in front, and innermost."""

    def sizes(self, node: Node, types: Mapping[str, TensorType]) -> tuple[int, int, int]:
        """Images, places and channels."""
        shape = types[node.inputs[0]].shape
        return (
            (shape[0], math.prod(shape[2:]), shape[1])
            if self.pointers()[0] == "x"
            else (
                shape[0],
                math.prod(shape[1:-1]),
                shape[-1],
            )
        )

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel images, places and channels."""
        n, p, m = self.sizes(node, types)
        views = {self.pointers()[0]: ((n, m, p), ("n", "m", "p")), self.pointers()[1]: ((n, p, m), ("n", "p", "m"))}
        listed = []
        for arg, name, mode in (("x", node.inputs[0], "in"), ("y", node.outputs[0], "out")):
            view, dims = views[arg]
            listed.append(Operand(arg, name, "in" if mode == "in" else "out", view, tuple(map(At, dims))))
        return Access((Dim("n", n), Dim("p", p), Dim("m", m)), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, and strides of both operands in elements."""
        first, last = self.pointers()
        return {
            **{name: Extent(name) for name in ("n", "p", "m")},
            **{f"{first}_{name}": Stride(first, i) for i, name in enumerate("nm")},
            **{f"{last}_{name}": Stride(last, i) for i, name in enumerate("np")},
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One operation per element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count, parallel=count)


def _axes(node: Node) -> int:
    """The spatial axes of a node's images."""
    axes = node.attr_int(AXES, 2)
    if axes not in (1, 2):
        raise unsupported(node, f"axes is {axes}", "1 or 2")
    return axes


@register
class QuantizeInt8Images(ImageConversion):
    """Images X[N, C, H, W], or signals X[N, C, L], as numbers Y[N, H, W, C] or Y[N, 1, L, C], as QuantizeInt8."""

    name = "QuantizeInt8Images"
    file = FileSpec(custom=Signature((1, 1), (1, 1), {SCALE: "FLOAT", **RESULT}, required=frozenset({SCALE, ZERO})))
    kernel = Kernel(
        "quantize_images_i8",
        pointers=(("x", "float32", False), ("y", INT8, True)),
        scalars=(
            *((name, "u32") for name in ("n", "p", "m", "x_n", "x_m", "y_n", "y_p")),
            *(("scale", "f32"), *RESULT_SCALARS),
        ),
    )

    def pointers(self) -> tuple[str, str]:
        """X has its channels in front."""
        return "x", "y"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The channels innermost, in 8 bits."""
        scale_of(node, SCALE)
        clip_of(node)
        return (TensorType(INT8, _turned_shape(node, floats(node, inputs, 1)[0].shape)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of QuantizeInt8, turned."""
        return (_turned(QuantizeInt8().reference(node, inputs)[0]),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides, the scale, and the result's zero and bounds."""
        scale = Const(float(scale_of(node, SCALE)))
        return {**super().args(node, access), "scale": scale, **result_args(node)}


class TurnedImages(ImageConversion):
    """Images X[N, C, H, W], or signals X[N, C, L], of 8 bits, as signed numbers Y[N, H, W, C] or Y[N, 1, L, C].

    Signed numbers have no `offset`; unsigned ones are that much less then.
    """

    offset = 0

    def pointers(self) -> tuple[str, str]:
        """X has its channels in front."""
        return "x", "y"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The channels innermost, in signed numbers."""
        return (TensorType(INT8, _turned_shape(node, eights(node, inputs, 1, _read_type(self))[0].shape)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The numbers less the offset, turned."""
        return (_turned((arrays(inputs, 1)[0].astype(np.int32) - self.offset).astype(np.int8)),)


def _read_type(operator: Operator) -> str:
    """The element type of what an operator reads first."""
    assert operator.kernel is not None
    return operator.kernel.pointers[0][1]


def _turned_shape(node: Node, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of images, or of signals, with their channels innermost."""
    if len(shape) not in (3, 4):
        raise unsupported(node, f"X of rank {len(shape)}", "X[N, C, H, W] or X[N, C, L]")
    return (shape[0], *((1,) if len(shape) == 3 else ()), *shape[2:], shape[1])


def _turned(images: Array) -> Array:
    """Images, or signals, with their channels innermost."""
    last = np.moveaxis(images, 1, -1)
    return np.ascontiguousarray(last if last.ndim == 4 else last[:, None])


TURNED: tuple[tuple[str, CType], ...] = tuple((name, "u32") for name in ("n", "p", "m", "x_n", "x_m", "y_n", "y_p"))
"""The kernel arguments that `ImageConversion.args` gives."""


@register
class Int8Images(TurnedImages):
    """Images of int8 with their channels innermost."""

    name = "Int8Images"
    file = FileSpec(custom=Signature((1, 1), (1, 1)))
    kernel = Kernel("images_i8", pointers=(("x", INT8, False), ("y", INT8, True)), scalars=TURNED)


@register
class UInt8Images(TurnedImages):
    """Images of uint8 as numbers that are 128 less, with their channels innermost."""

    name = "UInt8Images"
    offset = -LEAST
    file = FileSpec(custom=Signature((1, 1), (1, 1)))
    kernel = Kernel("images_u8", pointers=(("x", UINT8, False), ("y", INT8, True)), scalars=TURNED)


@register
class UInt8Numbers(Int8Elementwise):
    """Y = X - 128: numbers of uint8 as those of int8."""

    name = "UInt8Numbers"
    file = FileSpec(custom=Signature((1, 1), (1, 1)))
    kernel = Kernel("numbers_u8", pointers=(("x", UINT8, False), ("y", INT8, True)), scalars=(("n", "u32"),))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape in signed numbers."""
        return (TensorType(INT8, eights(node, inputs, 1, UINT8)[0].shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The numbers, 128 less."""
        return ((arrays(inputs, 1)[0].astype(np.int32) + LEAST).astype(np.int8),)


def number_operator(images: bool, unsigned: bool) -> str:
    """The operator that makes of numbers of 8 bits signed ones, of images with their channels innermost; empty where
    they are so already.
    """
    if unsigned:
        return UInt8Images.name if images else UInt8Numbers.name
    return Int8Images.name if images else ""


@register
class DequantizeInt8Images(ImageConversion):
    """Numbers X[N, H, W, C] as images Y[N, C, H, W], or as signals Y[N, C, W] where `axes` is 1."""

    name = "DequantizeInt8Images"
    file = FileSpec(
        custom=Signature((1, 1), (1, 1), {SCALE: "FLOAT", ZERO: "INT", AXES: "INT"}, required=frozenset({SCALE, ZERO}))
    )
    kernel = Kernel(
        "dequantize_images_i8",
        pointers=(("x", INT8, False), ("y", "float32", True)),
        scalars=(
            *((name, "u32") for name in ("n", "p", "m", "y_n", "y_m", "x_n", "x_p")),
            *(("scale", "f32"), ("zero", "i32")),
        ),
    )

    def pointers(self) -> tuple[str, str]:
        """Y has its channels in front."""
        return "y", "x"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The channels in front, in float32."""
        x, axes = eights(node, inputs, 1)[0].shape, _axes(node)
        if len(x) != 4 or (axes == 1 and x[1] != 1):
            raise unsupported(node, f"X is {list(x)}", "X[N, H, W, C], of one row for signals")
        scale_of(node, SCALE)
        clip_of(node)
        return (TensorType("float32", (x[0], x[3], *x[3 - axes : 3])),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of DequantizeInt8, turned."""
        [y] = DequantizeInt8().reference(node, inputs)
        first = np.moveaxis(y, -1, 1)
        return (np.ascontiguousarray(first if _axes(node) == 2 else first[:, :, 0]),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides, scale and zero."""
        frame = {"scale": Const(float(scale_of(node, SCALE))), "zero": Const(clip_of(node)[0])}
        return {**super().args(node, access), **frame}


@register
class Int8Lookup(Int8Elementwise):
    """Y = table[X + 128]: any function of one number of 8 bits, such as another scale, Relu or a sigmoid."""

    name = "Int8Lookup"
    file = FileSpec(custom=Signature((2, 2), (1, 1)))
    kernel = Kernel(
        "lookup_i8",
        pointers=(("x", INT8, False), ("table", INT8, False), ("y", INT8, True)),
        scalars=(("n", "u32"),),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's type; the table has a result for each number."""
        x, table = eights(node, inputs, 2)
        if table.shape != (NUMBERS,):
            raise unsupported(node, f"its table is {table}", f"{NUMBERS} numbers")
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The table's numbers at X."""
        x, table = arrays(inputs, 2)
        return (table.astype(np.int8)[x.astype(np.int64) - LEAST],)
