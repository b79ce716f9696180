"""What ArgMax and ArgMin share: the extremum of each line, and where it is."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, rng
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.lines import axis_of
from deployer.operators.order.arg_equal import without_axis


class ArgExtreme(Operator):
    """Made of a reduction, `extreme`, and ArgEqual."""

    versions = (1, 11, 12, 13)
    flags = ("keepdims", "select_last_index")
    no_gradient = "a position has none"
    extreme: ClassVar[str]

    @abstractmethod
    def position(self, x: Array, axis: int) -> Array:
        """The first position of the extremum."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape with one integer along the axis, or without it."""
        x = floats(node, inputs, 1)[0]
        keep = bool(node.attr_int("keepdims", 1))
        return (TensorType("int32", without_axis(x.shape, axis_of(node, x.shape, 0, inputs), keep)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's position; of several the last is found from the end."""
        x = arrays(inputs, 1)[0]
        axis = axis_of(node, x.shape, 0)
        if node.attr_int("select_last_index", 0):
            y = x.shape[axis] - 1 - self.position(np.flip(x, axis), axis)
        else:
            y = self.position(x, axis)
        keep = bool(node.attr_int("keepdims", 1))
        return (np.asarray(y, np.int32).reshape(without_axis(x.shape, axis, keep)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The extremum, and where X is equal to it."""
        axis = axis_of(node, floats(node, inputs, 1)[0].shape, 0)
        value = f"{node.name}/value"
        keep, last = node.attr_int("keepdims", 1), node.attr_int("select_last_index", 0)
        return [
            Node(value, self.extreme, node.inputs, (value,), {"axes": (axis,), "keepdims": 1}),
            Node(
                node.name,
                "ArgEqual",
                (*node.inputs, value),
                node.outputs,
                {"axis": axis, "keepdims": keep, "last": last},
            ),
        ]

    def samples(self) -> Iterator[Sample]:
        """Each axis with all attributes, of numbers some of which are equal."""
        r = rng(142)
        x = np.round(normal(r, 3, 7, 5))
        for axis in (0, 1, -1):
            for keep in (0, 1):
                yield Sample(f"axis{axis}_{keep}", (x,), {"axis": axis, "keepdims": keep})
            yield Sample(f"last{axis}", (x,), {"axis": axis, "select_last_index": 1})
        yield Sample("vector", (normal(r, 37),))
