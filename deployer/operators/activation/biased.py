"""Functions of a sum that ONNX Runtime joins with it, and gradients of these, as nodes of the function and of Add."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, registry, rng
from deployer.operators.construction import Construction
from deployer.operators.inputs import floats, normal


class Joined(Operator):
    """X and, behind it, a bias of its last axis, which it may lack where `optional`; `wide` inputs of X's shape.

    A subclass says of which function of X + bias it is, or of whose gradient.
    """

    composite = True
    wide: ClassVar[int] = 1
    optional: ClassVar[bool] = False

    @abstractmethod
    def function(self, node: Node) -> tuple[str, dict[str, AttrValue]]:
        """The operator of the sum, with its attributes."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        biased = self._is_biased(node)
        *wide, bias = types = floats(node, inputs, self.wide + biased)
        x = types[self.wide - 1]
        if any(kind != x for kind in (wide if biased else types)):
            raise mismatch(node, "its operands differ in shape", inputs)
        if biased and bias.shape != x.shape[-1:]:
            raise mismatch(node, f"its bias is {bias}, not one element for each of X's last axis", inputs)
        return (x,)

    def _is_biased(self, node: Node) -> bool:
        return not self.optional or any(node.inputs[self.wide :])

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The function of X + bias."""
        op, attrs = self.function(node)
        *before, x = (value for value in inputs[: self.wide] if value is not None)
        bias = inputs[self.wide] if self._is_biased(node) else None
        total = x if bias is None else np.asarray(x + bias)
        return registry()[op].reference(Node(node.name, op, (), node.outputs, attrs), [*before, total])

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The sum, where there is one, and the function."""
        parts = Construction(node.name)
        *before, x = node.inputs[: self.wide]
        total = parts.emit("Add", (x, node.inputs[self.wide])) if self._is_biased(node) else x
        op, attrs = self.function(node)
        parts.emit(op, (*before, total), node.outputs[0], **attrs)
        return parts.nodes

    def samples(self) -> Iterator[Sample]:
        """Rows and batches, with a bias, and without one where that may be."""
        known = self.wide == 1
        for label, shape in (("rows", (5, 7)), ("batch", (2, 3, 4))):
            r = rng(sum(self.name.encode()) + len(shape))
            wide = tuple(normal(r, *shape) for _ in range(self.wide))
            yield Sample(label, (*wide, normal(r, shape[-1])), onnx=known)
            if self.optional:
                yield Sample(f"{label}_alone", wide, onnx=known)


def joined_form(wide: int, optional: bool = False) -> Form:
    """The form of a function of so many wide operands and a bias."""
    return Form((wide if optional else wide + 1, wide + 1), (1, 1))
