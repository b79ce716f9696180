"""What ONNX's training operators share: a rate, a count of updates, and any number of tensors with what they keep."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, rng
from deployer.operators.construction import Construction
from deployer.operators.inputs import arrays, floats, normal

DOMAIN = "ai.onnx.preview.training"
MOST = 1 << 16
"""The most inputs and outputs of a node."""
SHARED = ("R", "T")
"""The rate, and the number of updates before this one; after them all tensors, then all gradients, then the others."""


def preview_form(group: Sequence[str], required: Sequence[str] = (), **attributes: str) -> Form:
    """The form of a node over groups of tensors: a tensor, its gradient, and what is kept of it."""
    inputs, outputs = len(SHARED) + len(group), len(group) - 1
    return Form((inputs, MOST), (outputs, MOST), attributes, frozenset(required))


class Sums(Construction):
    """The nodes of an update."""

    def of(self, op: str, *operands: str | float, output: str = "", **attrs: AttrValue) -> str:
        """Append a node over values and numbers; returns its output."""
        names = [x if isinstance(x, str) else self.number(x) for x in operands]
        return self.emit(op, names, output, **attrs)

    def weighted(self, share: float, x: str, other: float, y: str, output: str = "") -> str:
        """share x + other y."""
        return self.of("Add", self.of("Mul", x, share), self.of("Mul", y, other), output=output)


class TensorUpdates(Operator):
    """R, T, tensors, gradients and what is kept, to the new tensors and the new kept ones; each tensor by itself."""

    domain = DOMAIN
    composite = True
    group: ClassVar[tuple[str, ...]]
    """X, G and what is kept of a tensor, by ONNX's names."""
    given: ClassVar[Mapping[str, AttrValue]]
    """Attributes of samples."""

    def groups(self, node: Node, names: Sequence[str]) -> list[list[str]]:
        """Inputs or outputs of each tensor; `names` are those behind the shared ones."""
        count = max(len(node.inputs) - len(SHARED), 0) // len(self.group)
        return [list(names[i::count]) for i in range(count)]

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each result has the type of its tensor."""
        rate, count, *tensors = inputs
        if len(tensors) % len(self.group):
            raise mismatch(node, f"it has {len(tensors)} tensors, no multiple of {', '.join(self.group)}", inputs)
        if rate is None or rate.dtype != "float32" or rate.size != 1:
            raise mismatch(node, "its rate R is no float32 number", inputs)
        if count is None or count.dtype != "int32" or count.size != 1:
            raise mismatch(node, "its count T is no integer", inputs)
        present = floats(node, tensors, len(tensors))
        number = len(present) // len(self.group)
        for place in range(number):
            if len({*present[place::number]}) > 1:
                raise mismatch(node, f"{', '.join(self.group)} number {place + 1} differ in type", inputs)
        return tuple(present[:number]) + tuple(present[2 * number :])

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Each tensor by itself."""
        rate, count, *tensors = arrays(inputs, len(inputs))
        number = len(tensors) // len(self.group)
        kind = tensors[0].dtype
        r, t = rate.reshape(()).astype(kind), int(count.reshape(()))
        results = [self.step(node, r, t, tensors[i::number]) for i in range(number)]
        return tuple(np.asarray(x, kind) for of_place in zip(*results, strict=True) for x in of_place)

    @abstractmethod
    def step(self, node: Node, rate: Array, count: int, tensors: Sequence[Array]) -> Sequence[Array]:
        """The new tensor and what is kept of it."""

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The rate once, then each tensor."""
        sums = Sums(node.name)
        shared = [sums.of("Reshape", name, shape=()) for name in node.inputs[: len(SHARED)]]
        node = replace(node, inputs=(*shared, *node.inputs[len(SHARED) :]))
        rate = self.rate(node, sums)
        names = [*node.outputs, *[""] * (len(self.group) * len(node.inputs))]
        groups = self.groups(node, node.inputs[len(SHARED) :])
        for place, group in enumerate(groups):
            own = names[place : (len(self.group) - 1) * len(groups) : len(groups)]
            outputs = [name or f"{node.name}/{place}/{i}" for i, name in enumerate(own)]
            self.update(node, sums, rate, (*group, *outputs))
        return sums.nodes

    @abstractmethod
    def rate(self, node: Node, sums: Sums) -> tuple[str, ...]:
        """Append what is common to all tensors; its values, the first of which is the rate."""

    @abstractmethod
    def update(self, node: Node, sums: Sums, shared: Sequence[str], names: Sequence[str]) -> None:
        """Append the update of a tensor, from the names of its group to those of its results."""

    def regularized(self, node: Node, sums: Sums, x: str, g: str) -> str:
        """G + norm_coefficient X."""
        share = node.attr_float("norm_coefficient", 0.0)
        return sums.of("Add", sums.of("Mul", x, share), g) if share else g

    def samples(self) -> Iterator[Sample]:
        """Two tensors and one, in the first update and a later one."""
        r, both = rng(60), [(5, 7), (3,)]
        for label, shapes, count in (("first", both, 0), ("later", both, 9), ("one", both[:1], 1)):
            tensors = [normal(r, *shape) for _ in self.group for shape in shapes]
            kept = [np.square(x) for x in tensors[2 * len(shapes) :]]
            shared = np.array(0.125, np.float32), np.array(count, np.int32)
            inputs = (*shared, *tensors[: 2 * len(shapes)], *kept)
            yield Sample(label, inputs, dict(self.given), (len(self.group) - 1) * len(shapes), onnx=False)
