"""TopK: the K largest or smallest elements of each line along an axis, in order, and where they are."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Whole
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    GradientBuilder,
    Kernel,
    Operator,
    Sample,
    Work,
    mismatch,
    rng,
    unsupported,
)
from deployer.operators.inputs import arrays, normal, one_number, operands
from deployer.operators.lines import axis_of, line_strides, lines
from deployer.operators.over_integers import over_integers


@over_integers
class TopK(Operator):
    """Values and positions, of equal ones the first; they are sorted whether `sorted` says so or not.

    A tile holds full lines.
    """

    name = "TopK"
    versions = (1, 10, 11, 24)
    kernel = Kernel(
        "top_k_f32",
        pointers=(("x", "float32", False), ("y", "float32", True), ("ids", "int32", True)),
        scalars=tuple(
            (n, "u32") for n in ("o", "n", "i", "k", "largest", "x_o", "x_n", "y_o", "y_n", "ids_o", "ids_n")
        ),
    )
    static_inputs: ClassVar[dict[int, str]] = {1: "k"}
    flags = ("largest", "sorted")
    spared: ClassVar[dict[str, int]] = {"ids": 1}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape with K along the axis, of floats and of integers."""
        x = operands(node, inputs, 1)[0]
        axis, count = axis_of(node, x.shape, -1, inputs), _count(node)
        if not 1 <= count <= x.shape[axis]:
            raise mismatch(node, f"K is {count}, of {x.shape[axis]} elements along axis {axis}", inputs)
        if not node.outputs[0]:
            raise unsupported(node, "its values have no name", "a name for both outputs")
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        return TensorType(x.dtype, shape), TensorType("int32", shape)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's stable sort; NaN comes behind all numbers. ~X has the order of -X, and no integer that overflows."""
        x = arrays(inputs, 1)[0]
        axis = axis_of(node, x.shape, -1)
        turned = -x if x.dtype.kind == "f" else ~x
        order = np.argsort(turned if node.attr_int("largest", 1) else x, axis, kind="stable")
        ids = np.take(order, np.arange(_count(node)), axis)
        return np.take_along_axis(x, ids, axis), ids.astype(np.int32)

    def training_form(self, node: Node, fresh: Callable[[str], str]) -> Node:
        """With both outputs."""
        return (
            node
            if len(node.outputs) > 1 and node.outputs[1]
            else replace(node, outputs=(node.outputs[0], fresh("ids")))
        )

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY where the values come from, and zero elsewhere."""
        if b.needs_grad(0) and douts[0]:
            shape = b.type(node.inputs[0]).shape
            size = b.constant("shape", np.array(shape, np.int64))
            axis = axis_of(node, shape, -1)
            b.emit("GatherElementsGrad", (douts[0], size, node.outputs[1]), (b.grad(0),), axis=axis)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims o and i; the axis is whole in every tile."""
        shape = types[node.inputs[0]].shape
        o, n, i = lines(shape, axis_of(node, shape, -1))
        axes = (At("o"), Whole(), At("i"))
        listed = [Operand("x", node.inputs[0], "in", (o, n, i), axes)]
        for arg, name in zip(("y", "ids"), node.outputs, strict=False):
            listed.append(Operand(arg, name, "out", (o, _count(node), i), axes))
        return Access((Dim("o", o), Dim("i", i)), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides."""
        strides: dict[str, ArgValue] = {"ids_o": Const(0), "ids_n": Const(0)}
        strides |= line_strides(access, ("x", "y", "ids"))
        n = access.operands[0].view[1]
        return {
            **{"o": Extent("o"), "n": Const(n), "i": Extent("i"), "k": Const(_count(node))},
            **{"largest": Const(node.attr_int("largest", 1)), **strides},
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A comparison per element, and on the way of each into the list as many as half of the list is long."""
        rows, count = tile["o"] * tile["i"], _count(node)
        return Work(macs=0, elements=rows * (access.operands[0].view[1] + count * count // 2), parallel=rows)

    def samples(self) -> Iterator[Sample]:
        """Each axis, largest and smallest, one and all."""
        r = rng(144)
        forms: dict[str, tuple[tuple[int, ...], dict[str, AttrValue]]] = {
            "rows": ((5, 11), {"k": 3}),
            "smallest": ((5, 11), {"k": 4, "largest": 0}),
            "columns": ((9, 4), {"k": 2, "axis": 0}),
            "middle": ((3, 7, 5), {"k": 3, "axis": 1}),
            "all": ((4, 6), {"k": 6}),
        }
        for label, (shape, attrs) in forms.items():
            yield Sample(label, (normal(r, *shape),), attrs, outputs=2)
        yield Sample("one", (normal(r, 37),), {"k": 1}, outputs=2)

    def sweep(self) -> Iterator[Sample]:
        """Few and many of short and long lines."""
        r = rng(145)
        for rows, columns, count in ((16, 16, 1), (16, 64, 4), (4, 256, 8), (64, 8, 8)):
            yield Sample(f"{rows}x{columns} {count}", (normal(r, rows, columns),), {"k": count}, outputs=2)


def _count(node: Node) -> int:
    """K; UnsupportedOperator where it is not known."""
    if "k" not in node.attrs:
        raise unsupported(node, "K is not constant", "a constant K")
    return one_number(node, "k")
