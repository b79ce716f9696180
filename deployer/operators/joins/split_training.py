"""SplitTraining: Split by lengths that are an input; the gradient of ConcatTraining."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, registry, rng
from deployer.operators.inputs import normal


@register
class SplitTraining(Operator):
    """ONNX Runtime's; the lengths are constant, as those of ConcatTraining are."""

    name = "SplitTraining"
    custom = Form((2, 2), (1, 2**31 - 1), {"axis": "INT"})
    static_inputs: ClassVar[dict[int, str]] = {1: "split"}
    counts_outputs = True
    composite = True
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of Split."""
        return registry()["Split"].infer(node, inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The parts of Split."""
        return registry()["Split"].reference(node, inputs)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Split."""
        return [replace(node, op="Split")]

    def samples(self) -> Iterator[Sample]:
        """Two parts and three."""
        r = rng(136)
        forms: dict[str, tuple[tuple[int, ...], dict[str, AttrValue]]] = {
            "rows": ((5, 4), {"axis": 0, "split": (2, 3)}),
            "columns": ((2, 7, 3), {"axis": 1, "split": (1, 4, 2)}),
        }
        for label, (shape, attrs) in forms.items():
            parts = np.size(attrs["split"])
            yield Sample(label, (normal(r, *shape),), attrs, parts, onnx=False)
