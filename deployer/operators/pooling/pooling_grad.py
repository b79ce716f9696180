"""Gradients of max and average pooling."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from deployer.core.access import Access
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Kernel, Length, Offset, Start, Stride
from deployer.core.operator import Array, mismatch, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.fusion import Fusion
from deployer.core.traits.training import Recomputed, Training
from deployer.operators.base.epilogue import (
    GATE,
    GATE_POINTER,
    GATED,
    check_gate,
    finished,
    gate_args,
    gate_array,
    gate_operands,
    own_args,
    own_gate,
)
from deployer.operators.base.operands import arrays, operands
from deployer.operators.pooling.windows import (
    BACKWARD,
    POOL_ATTRS,
    SPATIAL,
    PoolGrad,
    divisors,
    inner,
    maximum_gradient,
    mean_gradient,
    padded,
    pool_kernel,
    sides,
    stacked,
    taps,
    windows,
)

GATE_INPUT = 1
"""The input that gates the result, if the node has it; only fusion sets it."""


COUNTED = ("row", "column", "height", "width", "include_pad")
_UNGATED = pool_kernel("avg_pool_grad_f32", ("dy",), "dx", *BACKWARD, *COUNTED, "gate_c", "gate_r")


@register
class AveragePoolGrad(PoolGrad):
    """DY over the count of its window, to each element of the window.

    `input_shape` is X's; without it X is the smallest that has these windows.

    Fusion sets a second input where the gradient of a Relu follows: its Y.
    """

    name = "AveragePoolGrad"
    file = FileSpec(
        custom=Signature((1, 1), (1, 1), {**POOL_ATTRS, "count_include_pad": "INT", "input_shape": "INTS"}),
        domain="",
        flags=("ceil_mode", "count_include_pad"),
        open_shape="input_shape",
    )
    kernel = Kernel(_UNGATED.symbol, (_UNGATED.pointers[0], GATE_POINTER, *_UNGATED.pointers[1:]), _UNGATED.scalars)
    fusion = Fusion(epilogue_operands={GATE: GATE_INPUT})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        (x,) = super().infer(node, inputs)
        check_gate(node, inputs, GATE_INPUT, x)
        return (x,)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """That of PoolGrad; a gate, where there is one, is read at the elements that dX is written at."""
        ungated = super().access(node, types)
        *inputs, dx = ungated.operands
        return replace(ungated, operands=(*inputs, *gate_operands(node, GATE_INPUT, dx), dx))

    def shape(self, node: Node, dy: TensorType, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
        """`input_shape`, or without it the smallest shape of X with these windows."""
        if node.attr_int("ceil_mode", 0) and node.attr_int("count_include_pad", 0):
            raise unsupported(node, "ceil_mode together with count_include_pad", "either of them")
        if "input_shape" in node.attrs:
            return node.attr_ints("input_shape", ())
        rank = len(dy.shape) - 2
        kernel, pads = node.attr_ints("kernel_shape", ()), node.attr_ints("pads", (0,) * 2 * rank)
        steps, gaps = (node.attr_ints(name, (1,) * rank) for name in ("strides", "dilations"))
        if [len(kernel), len(steps), len(gaps), len(pads)] != [rank, rank, rank, 2 * rank]:
            raise mismatch(node, f"kernel_shape, strides, dilations or pads do not have {rank} axes", inputs)
        spans = ((n - 1) * steps[i] + (kernel[i] - 1) * gaps[i] + 1 for i, n in enumerate(dy.shape[2:]))
        return dy.shape[:2] + tuple(span - pads[i] - pads[rank + i] for i, span in enumerate(spans))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY divided by the count of its window, added to each element of the window."""
        dy = arrays(inputs, 1)[0]
        shape = self.infer(node, (TensorType("float32", dy.shape),))[0].shape
        axes = sides(node, shape)
        shared = dy.reshape(-1, *(a.count for a in axes)) / divisors(node, axes).astype(dy.dtype)
        dx = np.zeros((shared.shape[0], *(max(a.span, a.size + a.pad) for a in axes)), dy.dtype)
        for tap in taps(axes):
            dx[tap] += shared
        dx = np.asarray(dx[inner(axes)].reshape(shape))
        return (finished(node, dx, gate_array(inputs, GATE_INPUT)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A volume by its depth and its planes."""
        shape = self.infer(node, inputs)[0].shape
        axes = windows(node, shape)
        return mean_gradient(node, shape, axes) if len(axes) == SPATIAL else None

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The arguments of PoolGrad, those that say which padding counts, and the tile's place in X."""
        _, height, width = access.operand("dx").view
        counted: dict[str, ArgValue] = {"row": Start("h"), "column": Start("w")}
        counted |= {"height": Const(height), "width": Const(width)}
        counted |= gate_args(access, {"c": 0, "r": 1})
        return super().args(node, access) | counted | {"include_pad": Const(node.attr_int("count_include_pad", 0))}


X = 1
X_SCALARS = ("x_h", "x_w", "x_c", "x_r", "x_top", "x_left", GATED)


@register
class MaxPoolGrad(PoolGrad):
    """DY goes to the first maximum of its window.

    dX from dY and X, or the indices that MaxPool gives; the kernel searches each window for its maximum again.

    Fusion sets the attribute `gated` where X is Y of a Relu whose gradient follows: what is not above zero gets none.
    """

    name = "MaxPoolGrad"
    file = FileSpec(
        custom=Signature((2, 2), (1, 1), {**POOL_ATTRS, "storage_order": "INT"}), flags=("ceil_mode", "storage_order")
    )
    fusion = Fusion(reused={GATE: (X, GATED)})
    training = Training(recomputed={X: Recomputed("MaxPool", output=1, source=0)})
    kernel = pool_kernel("max_pool_grad_f32", ("dy", "x"), "dx", *BACKWARD, *X_SCALARS)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The arguments of PoolGrad, and the lengths, strides and offsets of the box of X that the tile reads."""
        values: dict[str, ArgValue] = {"x_h": Length("x", 1), "x_w": Length("x", 2)}
        values |= {"x_c": Stride("x", 0), "x_r": Stride("x", 1), "x_top": Offset("x", 1), "x_left": Offset("x", 2)}
        return super().args(node, access) | values | own_args(node)

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
        forward = self.training.recomputed[X].op
        return maximum_gradient(node, shape, axes, forward) if len(axes) == SPATIAL else None
