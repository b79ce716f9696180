"""Cumulative sums and products along an axis."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Whole
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, Kernel, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, unsupported
from deployer.core.traits.file import FileSpec
from deployer.core.traits.numerics import Numerics
from deployer.operators.base.axes import axis_of, line_strides, lines
from deployer.operators.base.integer_variants import over_integers
from deployer.operators.base.operands import arrays, one_number, operands

SCALARS = ("o", "n", "i", "exclusive", "reverse", "x_o", "x_n", "y_o", "y_n")


class Cumulative(Operator):
    """The axis is an input that has to be constant; a tile holds full lines along it."""

    kernel: ClassVar[Kernel]
    file: ClassVar[FileSpec] = FileSpec(static_inputs={1: "axis"}, flags=("exclusive", "reverse"))
    neutral: ClassVar[float]
    numerics = Numerics(overflow="any")

    @abstractmethod
    def so_far(self, x: Array, axis: int) -> Array:
        """The sum or the product of all elements up to each, itself included."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = operands(node, inputs, 1)[0]
        _axis(node, x.shape, inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's; without the element itself, the one of the neighbour before."""
        x = arrays(inputs, 1)[0]
        axis = _axis(node, x.shape)
        line = np.flip(x, axis) if node.attr_int("reverse", 0) else x
        if node.attr_int("exclusive", 0):
            head = np.full_like(np.take(line, [0], axis), self.neutral)
            line = np.concatenate([head, np.take(line, np.arange(line.shape[axis] - 1), axis)], axis)
        y = self.so_far(line, axis)
        return (np.ascontiguousarray(np.flip(y, axis) if node.attr_int("reverse", 0) else y),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims o and i; the axis is whole in every tile."""
        shape = types[node.inputs[0]].shape
        o, n, i = lines(shape, _axis(node, shape))
        axes = (At("o"), Whole(), At("i"))
        listed = (
            Operand("x", node.inputs[0], "in", (o, n, i), axes),
            Operand("y", node.outputs[0], "out", (o, n, i), axes),
        )
        return Access((Dim("o", o), Dim("i", i)), listed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, flags and strides."""
        flags: dict[str, ArgValue] = {name: Const(node.attr_int(name, 0)) for name in self.file.flags}
        lengths: dict[str, ArgValue] = {"o": Extent("o"), "n": Const(access.operands[0].view[1]), "i": Extent("i")}
        return {**lengths, **flags, **line_strides(access, ("x", "y"))}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One operation per element; the lines are what cores share."""
        count = tile["o"] * tile["i"]
        return Work(macs=0, elements=count * access.operands[0].view[1], parallel=count)


def cumulative_kernel(symbol: str) -> Kernel:
    """The kernel of such an operator; `_o` and `_n` are strides along the outer and the own axis."""
    return Kernel(symbol, (("x", "float32", False), ("y", "float32", True)), tuple((name, "u32") for name in SCALARS))


def _axis(node: Node, shape: Sequence[int], inputs: Sequence[TensorType | None] = ()) -> int:
    """The axis; UnsupportedOperator where it is not known."""
    if "axis" not in node.attrs:
        raise unsupported(node, "the axis is not constant", "a constant axis")
    if isinstance(node.attrs["axis"], tuple):
        node = Node(node.name, node.op, node.inputs, node.outputs, {"axis": one_number(node, "axis")})
    return axis_of(node, shape, 0, inputs)


@over_integers
class CumProd(Cumulative):
    """Products of all elements so far along an axis. One element after another."""

    name = "CumProd"
    file = replace(Cumulative.file, versions=(26,))
    kernel = cumulative_kernel("cum_prod_f32")
    neutral = 1.0
    no_gradient = "right with zeros among the elements, it is as many products as there are pairs of them"

    def so_far(self, x: Array, axis: int) -> Array:
        """numpy's cumprod."""
        return np.asarray(np.cumprod(x, axis, dtype=x.dtype))


@over_integers
class CumSum(Cumulative):
    """Sums of all elements so far along an axis. One element after another."""

    name = "CumSum"
    file = replace(Cumulative.file, versions=(11, 14))
    kernel = cumulative_kernel("cum_sum_f32")
    neutral = 0.0

    def so_far(self, x: Array, axis: int) -> Array:
        """numpy's cumsum."""
        return np.asarray(np.cumsum(x, axis, dtype=x.dtype))

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """The sums of dY from the other end."""
        if b.needs_grad(0):
            axis = b.constant("axis", np.array(one_number(node, "axis"), np.int64))
            flags = {"exclusive": node.attr_int("exclusive", 0), "reverse": 1 - node.attr_int("reverse", 0)}
            b.emit("CumSum", (douts[0], axis), (b.grad(0),), **flags)
