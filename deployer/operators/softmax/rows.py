"""What softmax, its logarithm and its gradient share: rows along one axis, whole in a tile or, long ones, in phases."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from deployer.core.access import Access, At, Dim, Operand, Whole
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel_facts import FACTS, measured
from deployer.core.operator import ArgValue, Const, Extent, Kernel, Operator, Sample, Stride, Work, mismatch, rng
from deployer.operators.inputs import floats, normal


class Along(Operator):
    """An operator whose operands all have the shape of the first; attribute `axis`, default the last."""

    kernel: ClassVar[Kernel]
    phases: ClassVar[tuple[tuple[str, ...], ...]]
    """For long rows: an operator, its inputs and its output each, by the kernel's names of operands and by others;
    reductions are along the axis."""
    flops = FACTS.transcendental
    """Operations per element."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of the first input, which all others must have."""
        given = floats(node, inputs, len(self.kernel.pointers) - 1)
        axis = node.attr_int("axis", -1)
        if not -len(given[0].shape) <= axis < len(given[0].shape):
            raise mismatch(node, f"axis {axis} outside rank {len(given[0].shape)}", inputs)
        if any(t != given[0] for t in given):
            raise mismatch(node, "operands differ in type", inputs)
        return (given[0],)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The phases, where rows are long."""
        shape = floats(node, inputs, 1)[0].shape
        axis = node.attr_int("axis", -1) % len(shape)
        if shape[axis] <= FACTS.longest_row:
            return None
        along: dict[str, AttrValue] = {"axes": (axis,), "keepdims": 1}
        nodes = []
        for op, *operands, result in self.phases:
            named = {name: f"{node.name}/{name}" for name in (*operands, result)}
            named |= dict(zip(self._arguments(), (*node.inputs, node.outputs[0]), strict=True))
            given, attrs = tuple(named[x] for x in operands), along if op.startswith("Reduce") else {}
            nodes.append(Node(f"{node.name}/{result}", op, given, (named[result],), dict(attrs)))
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
            Operand(arg, tensor, "out" if written else "in", view, axes)
            for (arg, _, written), tensor in zip(self.kernel.pointers, tensors, strict=True)
        )
        return Access((Dim("outer", view[0]), Dim("inner", view[2])), listed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides."""
        strides = {f"{o.arg}_{label}": Stride(o.arg, i) for o in access.operands for i, label in enumerate("oc")}
        classes = Const(access.operands[0].view[1])
        return {"outer": Extent("outer"), "classes": classes, "inner": Extent("inner"), **strides}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """What the elements of a row cost, and one more."""
        rows = tile["outer"] * tile["inner"]
        classes = access.operands[0].view[1]
        return Work(macs=0, elements=rows * (classes + 1) * self.flops, parallel=rows)

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
        said = "axis" in node.attrs or axis == len(shape) - 1
        return [node if said else replace(node, attrs={"axis": axis})]
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


def along_kernel(symbol: str, inputs: Sequence[str], output: str) -> Kernel:
    """The kernel of such an operator."""
    pointers = (*((name, "float32", False) for name in inputs), (output, "float32", True))
    strides = (f"{name}_{axis}" for name in (*inputs, output) for axis in "oc")
    return Kernel(symbol, pointers, tuple((name, "u32") for name in ("outer", "classes", "inner", *strides)))
