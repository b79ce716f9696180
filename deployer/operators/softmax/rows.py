"""What softmax, its logarithm and its gradient share: a tile holds full rows along one axis; long rows take phases."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from deployer.core.access import Access, At, Dim, Operand, Whole
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel_facts import FACTS, measured
from deployer.core.operator import ArgValue, Const, CType, Extent, Kernel, Operator, Sample, Stride, Work, mismatch, rng
from deployer.operators.inputs import floats, normal


class RowOperator(Operator):
    """An operator whose operands all have the shape of the first; attribute `axis`, default the last."""

    kernel: ClassVar[Kernel]
    phases: ClassVar[tuple[tuple[str, ...], ...]]
    """For long rows: an operator, its inputs and its output each, by the kernel's names of operands and by others;
    reductions are along the axis."""
    flops = FACTS.transcendental
    """Operations per element."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of the first input, which all others must have."""
        types = floats(node, inputs, len(self.kernel.pointers) - 1)
        axis = node.attr_int("axis", -1)
        if not -len(types[0].shape) <= axis < len(types[0].shape):
            raise mismatch(node, f"axis {axis} outside rank {len(types[0].shape)}", inputs)
        if any(t != types[0] for t in types):
            raise mismatch(node, "operands differ in type", inputs)
        return (types[0],)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Where a row is too long for a tile, the nodes of `phases` instead of this one."""
        shape = floats(node, inputs, 1)[0].shape
        axis = node.attr_int("axis", -1) % len(shape)
        if shape[axis] <= FACTS.longest_row:
            return None
        attributes: dict[str, AttrValue] = {"axes": (axis,), "keepdims": 1}
        nodes = []
        for op, *operands, result in self.phases:
            tensors = {name: f"{node.name}/{name}" for name in (*operands, result)}
            tensors |= dict(zip(self._arguments(), (*node.inputs, node.outputs[0]), strict=True))
            arguments, attrs = tuple(tensors[x] for x in operands), attributes if op.startswith("Reduce") else {}
            nodes.append(Node(f"{node.name}/{result}", op, arguments, (tensors[result],), dict(attrs)))
        return nodes

    def _arguments(self) -> list[str]:
        return [name for name, _, _ in self.kernel.pointers]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Operands as [outer, classes, inner]; the class axis is whole in every tile."""
        shape = types[node.inputs[0]].shape
        axis = node.attr_int("axis", -1) % len(shape)
        view = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
        axes = (At("outer"), Whole(), At("inner"))
        tensors = (*node.inputs, node.outputs[0])
        listed = tuple(
            Operand(arg, tensor, "out" if is_output else "in", view, axes)
            for (arg, _, is_output), tensor in zip(self.kernel.pointers, tensors, strict=True)
        )
        return Access((Dim("outer", view[0]), Dim("inner", view[2])), listed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides."""
        strides = {f"{o.arg}_{label}": Stride(o.arg, i) for o in access.operands for i, label in enumerate("oc")}
        classes = Const(access.operands[0].view[1])
        return {"outer": Extent("outer"), "classes": classes, "inner": Extent("inner"), **strides}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """`flops` operations per element, and as many again per row, which begins a loop."""
        rows = tile["outer"] * tile["inner"]
        classes = access.operands[0].view[1]
        return Work(macs=0, elements=rows * (classes + 1) * self.flops, parallel=rows, runs=rows)

    def sweep(self) -> Iterator[Sample]:
        """Few and many rows and classes."""
        r, count = rng(33), len(self.kernel.pointers) - 1
        for shape in measured("softmax"):
            yield Sample(f"{shape[0]}x{shape[1]}", tuple(normal(r, *shape) for _ in range(count)), onnx=False)


def coerced(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Softmax and its logarithm before version 13: over all axes from `axis`, by default 1, as if they were one."""
    shape, axis = floats(node, types, 1)[0].shape, node.attr_int("axis", 1)
    if not -len(shape) <= axis < len(shape):
        raise mismatch(node, f"axis {axis} outside rank {len(shape)}", types)
    axis %= len(shape)
    if math.prod(shape[axis + 1 :]) == 1:
        explicit = "axis" in node.attrs or axis == len(shape) - 1
        return [node if explicit else replace(node, attrs={"axis": axis})]
    rows, result = f"{node.name}/rows", f"{node.name}/result"
    return [
        Node(rows, "Flatten", node.inputs, (rows,), {"axis": axis}),
        Node(node.name, node.op, (rows,), (result,), {"axis": 1}),
        Node(result, "Reshape", (result,), node.outputs, {"shape": shape}),
    ]


POWERS = (
    ("ReduceMax", "x", "max"),
    ("Sub", "x", "max", "shifted"),
    ("Exp", "shifted", "powers"),
    ("ReduceSum", "powers", "sum"),
)
"""The first phases of softmax and its logarithm."""


def row_kernel(symbol: str, inputs: Sequence[str], output: str, *numbers: str) -> Kernel:
    """The kernel of a RowOperator; `_o` and `_c` are each operand's strides along the outer and the class axis, and
    `numbers` what it takes besides.
    """
    pointers = (*((name, "float32", False) for name in inputs), (output, "float32", True))
    strides = (f"{name}_{axis}" for name in (*inputs, output) for axis in "oc")
    lengths: list[tuple[str, CType]] = [(name, "u32") for name in ("outer", "classes", "inner", *strides)]
    return Kernel(symbol, pointers, (*lengths, *((name, "f32") for name in numbers)))
