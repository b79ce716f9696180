"""ReverseSequence: the first steps of each sequence of a batch backwards, as many as it is long."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng
from deployer.operators.inputs import arrays, normal, operands


@register
class ReverseSequence(Operator):
    """Made of the numbers of rows, a row for each step of a sequence, and a Gather of these."""

    name = "ReverseSequence"
    versions = (10, 28)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x, lengths = operands(node, inputs, 2)
        time, batch = _axes(node)
        if {time, batch} != {0, 1} or len(x.shape) < len((time, batch)):
            raise mismatch(node, f"time_axis {time} and batch_axis {batch} are not 0 and 1 of {x}", inputs)
        if lengths != TensorType("int32", (x.shape[batch],)):
            raise mismatch(node, f"its lengths are {lengths}, not int32[{x.shape[batch]}]", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Sequence by sequence."""
        x, lengths = arrays(inputs, 2)
        y, (time, batch) = x.copy(), _axes(node)
        for number, length in enumerate(lengths):
            sequence = y.take(number, batch)
            sequence[:length] = sequence[:length][::-1].copy()
            y[(slice(None), number) if time == 0 else (number,)] = sequence
        return (y,)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """X as rows, and which of them stands where."""
        x = operands(node, inputs, 1)[0]
        axes = _axes(node)
        sizes = [x.shape[axis] for axis in axes]
        # a row's number is that of its step times the rows between steps, and that of its sequence likewise
        strides = [x.shape[1] if axis == 0 else 1 for axis in axes]
        names = ("steps", "lengths", "mirrored", "stride", "of_step", "firsts", "numbers", "flat", "rows", "taken")
        steps, lengths, mirrored, stride, of_step, firsts, numbers, flat, rows, taken = (
            f"{node.name}/{name}" for name in names
        )
        columns = [tuple(size if i == axis else 1 for i in range(2)) for size, axis in zip(sizes, axes, strict=True)]
        return [
            *_integers(steps, range(sizes[0]), columns[0]),
            Node(lengths, "Reshape", node.inputs[1:2], (lengths,), {"shape": columns[1]}),
            Node(mirrored, "MirroredStep", (steps, lengths), (mirrored,)),
            Node(stride, "Constant", (), (stride,), {"value_int": strides[0]}),
            Node(of_step, "Mul", (mirrored, stride), (of_step,)),
            *_integers(firsts, [number * strides[1] for number in range(sizes[1])], columns[1]),
            Node(numbers, "Add", (of_step, firsts), (numbers,)),
            Node(flat, "Reshape", (numbers,), (flat,), {"shape": (-1,)}),
            Node(rows, "Reshape", node.inputs[:1], (rows,), {"shape": (math.prod(sizes), math.prod(x.shape[2:]))}),
            Node(taken, "Gather", (rows, flat), (taken,), {"axis": 0}),
            Node(node.name, "Reshape", (taken,), node.outputs, {"shape": x.shape}),
        ]

    def samples(self) -> Iterator[Sample]:
        """Either axis first, one, some and all steps, with and without features."""
        r = rng(168)
        lengths = np.array([1, 4, 2], np.int32)
        yield Sample("time_first", (normal(r, 4, 3, 2), lengths), {"time_axis": 0, "batch_axis": 1})
        yield Sample("batch_first", (normal(r, 3, 4, 2, 2), lengths), {"time_axis": 1, "batch_axis": 0})
        yield Sample("plain", (normal(r, 4, 3), lengths), onnx=False)


def _axes(node: Node) -> tuple[int, int]:
    """The axis of steps, and that of sequences."""
    return node.attr_int("time_axis", 0), node.attr_int("batch_axis", 1)


def _integers(name: str, values: Sequence[int], shape: tuple[int, ...]) -> list[Node]:
    """A constant of integers."""
    plain = f"{name}/plain"
    return [
        Node(plain, "Constant", (), (plain,), {"value_ints": tuple(values)}),
        Node(name, "Reshape", (plain,), (name,), {"shape": shape}),
    ]
