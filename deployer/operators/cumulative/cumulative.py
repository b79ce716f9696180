"""What cumulative sums and products share: full lines along an axis, from either end, with the element or without."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Whole
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import ArgValue, Array, Const, Extent, Kernel, Operator, Sample, Work, rng, unsupported
from deployer.operators.inputs import arrays, normal, one_number, operands
from deployer.operators.lines import axis_of, line_strides, lines

SCALARS = ("o", "n", "i", "exclusive", "reverse", "x_o", "x_n", "y_o", "y_n")


class Cumulative(Operator):
    """The axis is an input that has to be constant; a tile holds full lines along it."""

    kernel: ClassVar[Kernel]
    static_inputs: ClassVar[dict[int, str]] = {1: "axis"}
    flags = ("exclusive", "reverse")
    neutral: ClassVar[float]
    overflow = "any"

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
        flags: dict[str, ArgValue] = {name: Const(node.attr_int(name, 0)) for name in self.flags}
        lengths: dict[str, ArgValue] = {"o": Extent("o"), "n": Const(access.operands[0].view[1]), "i": Extent("i")}
        return {**lengths, **flags, **line_strides(access, ("x", "y"))}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One operation per element; the lines are what cores share."""
        count = tile["o"] * tile["i"]
        return Work(macs=0, elements=count * access.operands[0].view[1], parallel=count)

    def samples(self) -> Iterator[Sample]:
        """Each axis, from both ends, with and without the element."""
        r = rng(160)
        forms: dict[str, tuple[tuple[int, ...], int]] = {
            "vector": ((37,), 0),
            "rows": ((5, 7), 1),
            "columns": ((9, 4), 0),
            "middle": ((3, 6, 5), -2),
        }
        for label, (shape, axis) in forms.items():
            yield Sample(label, (normal(r, *shape),), {"axis": axis})
        for exclusive in (0, 1):
            attrs: dict[str, AttrValue] = {"axis": 1, "exclusive": exclusive, "reverse": 1 - exclusive}
            yield Sample(f"one_flag{exclusive}", (normal(r, 4, 7),), attrs)
        yield Sample("both", (normal(r, 4, 7),), {"axis": 1, "exclusive": 1, "reverse": 1})

    def sweep(self) -> Iterator[Sample]:
        """Few and many of short and long lines."""
        r = rng(161)
        for rows, columns, axis in ((16, 16, 1), (8, 128, 1), (64, 32, 0), (4, 512, 1)):
            yield Sample(f"{rows}x{columns} {axis}", (normal(r, rows, columns),), {"axis": axis}, onnx=False)


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
