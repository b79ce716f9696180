"""Sequences of different lengths within a batch."""

import math
from collections.abc import Mapping, Sequence

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, mismatch, register
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.numerics import Indices, Numerics
from deployer.expressions.formula import Input
from deployer.expressions.tree import call
from deployer.operators.base.elementwise_dsl import BroadcastElementwise, elementwise
from deployer.operators.base.operands import arrays, operands

STEPS = "steps"
LENGTHS = Signature((2, 2), (1, 1), {STEPS: "INT"})


def length_indices(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """The second input, of lengths up to the number of steps: the attribute STEPS, or the elements of the first."""
    steps = node.attr_int(STEPS, types[node.inputs[0]].size)
    hint = "cut sequences, or an X with more steps"
    return Indices(node.inputs[1], steps + 1, word="length", among="lengths", hint=hint)


@register
class ReverseSequence(Operator):
    """The first steps of each sequence of a batch backwards, as many as it is long.

    Made of the numbers of rows, a row for each step of a sequence, and a Gather of these.
    """

    name = "ReverseSequence"
    file = FileSpec(versions=(10, 28))
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


STEP, LENGTH = Input("step", "int32", is_int=True), Input("length", "int32", is_int=True)


@elementwise
class SequenceMask(BroadcastElementwise):
    """A mask of the steps within a sequence, from the numbers of steps and the lengths of sequences.

    Elementwise: a step is within where its number is below the length.
    """

    name = "SequenceMask"
    file = FileSpec(custom=LENGTHS)
    operands = (STEP, LENGTH)
    formula = call("less", STEP, LENGTH)
    no_gradient = "a truth has none"
    numerics = Numerics(indices=length_indices)


@elementwise
class MirroredStep(BroadcastElementwise):
    """The number of the step that is as far from a sequence's end as a step is from its start.

    Elementwise: length - 1 - step within a sequence, and the step itself behind its end.
    """

    name = "MirroredStep"
    file = FileSpec(custom=LENGTHS)
    operands = (STEP, LENGTH)
    formula = call("choose", call("less", STEP, LENGTH), call("add", LENGTH, call("not", STEP)), STEP)
    no_gradient = "a number has none"
    numerics = Numerics(indices=length_indices)
