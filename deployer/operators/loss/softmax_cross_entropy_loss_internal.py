"""SoftmaxCrossEntropyLossInternal: SoftmaxCrossEntropyLoss whose ignored label is an input, as ONNX Runtime has it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.files.roles import SoleOutput
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, registry, unsupported
from deployer.operators.loss.classification import loss_samples

FLOAT = 1
"""ONNX's number of float32, which `output_type` names."""


class Internal(Operator):
    """An operator that is `of` with the ignored label as the input at `ignored`."""

    composite = True
    of: ClassVar[str]
    ignored: ClassVar[int]

    def plain(self, node: Node) -> Node:
        """The node of the other operator."""
        if node.attr_int("output_type", FLOAT) != FLOAT:
            raise unsupported(node, f"output_type is {node.attrs['output_type']}, not float32", f"output_type {FLOAT}")
        attrs = {name: value for name, value in node.attrs.items() if name != "output_type"}
        label = attrs.get("ignore_index")
        if isinstance(label, tuple):  # as the input has it
            if len(label) != 1:
                raise unsupported(node, f"ignore_index has {len(label)} elements", "one, or leave it out")
            attrs["ignore_index"] = int(label[0])
        names = list(node.inputs[: self.ignored])
        while names and not names[-1]:
            names.pop()
        return replace(node, op=self.of, inputs=tuple(names), attrs=attrs)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Those of the other operator."""
        plain = self.plain(node)
        return registry()[self.of].infer(plain, inputs[: len(plain.inputs)])

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Those of the other operator."""
        plain = self.plain(node)
        return registry()[self.of].reference(plain, inputs[: len(plain.inputs)])

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The other operator."""
        return [self.plain(node)]


@register
class SoftmaxCrossEntropyLossInternal(Internal):
    """Scores, labels[, weights, ignored label] to loss[, log_prob]."""

    name = "SoftmaxCrossEntropyLossInternal"
    custom = Form((2, 4), (1, 2), {"reduction": "STRING", "output_type": "INT", "ignore_index": "INT"})
    static_inputs: ClassVar[dict[int, str]] = {3: "ignore_index"}
    of = "SoftmaxCrossEntropyLoss"
    ignored = 3
    sole_output = SoleOutput(1, "SoftmaxCrossEntropyLossInternalGrad")

    def samples(self) -> Iterator[Sample]:
        """Those of the loss that ignore a label by number, or none."""
        for sample in loss_samples(39, outputs=2):
            kept = {name: value for name, value in sample.attrs.items() if np.ndim(value) == 0}
            yield Sample(sample.label, sample.inputs, kept, sample.outputs, onnx=False)
