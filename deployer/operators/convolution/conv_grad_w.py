"""ConvGradW: the gradient of a convolution with respect to W."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Window
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
    Length,
    Offset,
    Operator,
    Sample,
    Stride,
    Work,
    mismatch,
    register,
    rng,
    unsupported,
)
from deployer.operators.convolution.dealing import ALONE, BY_ROWS, TAPS, weight_blocks
from deployer.operators.convolution.geometry import (
    BACKWARD,
    CONV_ATTRS,
    DEPTHWISE,
    FORMS,
    POINTWISE,
    SIDE,
    STRIDED,
    VOLUMES,
    fits,
    form_of,
    geometry,
    tap_arguments,
    windows,
)
from deployer.operators.convolution.rectangles import met_taps
from deployer.operators.convolution.volume import weight_gradient
from deployer.operators.convolution.ways import Tile, Way
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.products import block_of, is_single


def _is_single(access: Access) -> bool:
    sums = access.sizes
    return sums["n"] == 1 and is_single(sums["oh"], sums["ow"])


def _block_work(access: Access, tile: Tile, blocks: int, single: int, form: str) -> Work:
    """The work of so many blocks for each row of taps of a group, with losses of so many `single` outputs.

    Runs are such blocks, once for each block of the sum.
    """
    kh, rows = access.operand("grad").view[3], tile["n"] * tile["oh"]
    macs, inside = math.prod(tile.values()), met_taps(access, "x", tile)[0].share(kh)
    runs = tile["g"] * blocks * kh
    lost = macs // tile["m"] * single // FACTS.several_taps - (macs - round(macs * inside))
    parts = math.prod(-(-tile[name] // access.dim(name).quantum) for name in ("n", "oh", "ow"))
    return Work(macs, round(runs * rows * inside), runs, form, lost, runs * (1 if _is_single(access) else parts))


def _in_squares(node: Node, access: Access, tile: Tile) -> Work:
    """Cores share squares of outputs and channels of a single tap."""
    blocks = -(-tile["m"] // FACTS.block) * tile["c"] // FACTS.block
    return _block_work(access, tile, blocks, tile["m"] % FACTS.block, "")


def _in_rows(node: Node, access: Access, tile: Tile) -> Work:
    """Cores share blocks of outputs by taps."""
    weights = tile["g"] * tile["m"] * tile["c"] * tile["kh"] * tile["kw"]
    return Work(math.prod(tile.values()), weights, weights // FACTS.block**2, "")


def _in_planes(node: Node, access: Access, tile: Tile) -> Work:
    """Cores share whole planes of a depthwise layer."""
    return Work(math.prod(tile.values()), tile["g"] * tile["n"] * tile["oh"], tile["g"], "", runs=tile["g"])


@register
class ConvGradW(Operator):
    """dY, X -> dW with Conv's attributes, kernel_shape among them."""

    name = "ConvGradW"
    custom: ClassVar[Form | None] = Form((2, 2), (1, 1), CONV_ATTRS)
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
    work_ways: ClassVar[Mapping[str, Way]] = {"squares": _in_squares, "rows": _in_rows, "planes": _in_planes}

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
        form = f"ngm{shape.axes},ngc{shape.axes}->gmc"
        for tap, places in shape.taps():
            dw[tap] = np.einsum(form, douts, padded[places])
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
            "single": Const(int(_is_single(access))),
            "top": Offset("x", 3),
            "left": Offset("x", 4),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A multiply-accumulate per weight and element of a plane of dY; cores share blocks of a row of weights."""
        _, m, c, kh, kw = access.operand("grad").view
        high, wide = (a.stride for a in access.operand("x").axes if isinstance(a, Window))
        form = form_of(m, c, (kh, kw), (high, wide))
        form = {POINTWISE: TAPS, STRIDED: TAPS, DEPTHWISE: BY_ROWS}.get(form, form)
        fours, alone = weight_blocks(tile["g"], tile["m"], tile["c"], kh)
        if m * c > 1 and kw == SIDE and not fours:
            form = ALONE
        single = 0 if m == c == 1 else alone // tile["c"]
        return _block_work(access, tile, fours + alone, single, form)

    def samples(self) -> Iterator[Sample]:
        """The forms of Conv."""
        r = rng(45)
        for label, x, w, attrs in (*FORMS, *VOLUMES):
            yield _sample(r, label, x, w, attrs)

    def sweep(self) -> Iterator[Sample]:
        """The layers on which Conv is measured."""
        r = rng(46)
        for layer in measured_layers():
            yield _sample(r, layer.label, layer.x, layer.w, layer.attrs)


def _sample(
    r: np.random.Generator, label: str, x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, AttrValue]
) -> Sample:
    shape = geometry(Node(label, "Conv", (), (), attrs), x, w, ())
    inputs = (normal(r, *shape.y_shape), normal(r, *x))
    return Sample(label, inputs, {**attrs, "kernel_shape": w[2:]}, onnx=False)
