"""Steps of layer normalization that have whole rows in a tile, and so can do at once what others do in two walks."""

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Axis, Dim, Operand, Whole
from deployer.core.declarations import BLOCK, SHORT
from deployer.core.ir import Node, TensorType
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import ArgValue, Const, Extent, Stride, Work
from deployer.operators.layer_norm.rows_by_columns import Layerwise, first_axis

SCALARS = ("inverse_count", "block")
"""One over the columns of a row, and the elements of a block of its sums, 0 where they are one block."""


class WholeRows(Layerwise):
    """A step whose rows are whole in every tile; `walks` is how many operations an element takes."""

    walks: ClassVar[int]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dim r; columns are whole."""
        shape = types[node.inputs[0]].shape
        axis = first_axis(node, shape)
        sizes = {"r": math.prod(shape[:axis]), "c": math.prod(shape[axis:])}
        axes: dict[str, Axis] = {"r": At("r"), "c": Whole()}
        listed, inputs, outputs = [], list(node.inputs), list(node.outputs)
        for arg, _, is_output in self.kernel.pointers:
            names = outputs if is_output else inputs
            tensor, kind = names.pop(0) if names else "", self.layout[arg]
            if tensor:
                view = tuple(sizes[d] for d in kind)
                listed.append(Operand(arg, tensor, "out" if is_output else "in", view, tuple(axes[d] for d in kind)))
        return Access((Dim("r", sizes["r"]),), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Rows of the tile, columns, row strides, and what sums need."""
        columns = access.operand("x").view[1]
        values: dict[str, ArgValue] = {"r": Extent("r"), "c": Const(columns)}
        values |= {f"{o.arg}_r": Stride(o.arg, 0) for o in access.operands if self.layout[o.arg] == "rc"}
        values["inverse_count"] = Const(float(np.float32(1) / np.float32(columns)))
        return {**values, "block": Const(BLOCK if columns > SHORT else 0), **self.more_args(node, access)}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """`walks` operations per element, and a row's own."""
        rows, columns = tile["r"], access.operand("x").view[1]
        return Work(macs=rows * columns * self.walks, elements=rows, parallel=rows)


def may_be_whole(node: Node, shape: tuple[int, ...]) -> bool:
    """Whether rows are short enough for a tile, and as many as cores: one core works on each."""
    axis = first_axis(node, shape)
    return math.prod(shape[axis:]) <= FACTS.longest_row and math.prod(shape[:axis]) >= FACTS.dealt
