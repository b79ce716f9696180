"""DropoutGrad: dX = dY / (1 - ratio) where Dropout kept the element, else 0."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.declarations import Recomputed
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, rng, unsupported
from deployer.operators.inputs import floats, normal
from deployer.operators.random.dropout import Dropout


@register
class DropoutGrad(Operator):
    """ONNX Runtime's, of dY, the mask, ratio and training mode; the mask is drawn again by the key of the Dropout node,
    so that in its place stands the number of the pass.
    """

    name = "DropoutGrad"
    custom = Form((2, 4), (1, 1))
    flags = ("training_mode",)
    static_inputs: ClassVar[dict[int, str]] = {2: "ratio", 3: "training_mode"}
    recomputed: ClassVar[dict[int, Recomputed]] = {1: Recomputed(Dropout.name, output=1, source=Dropout.passes)}
    composite = True
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of dY; UnsupportedOperator where the mask is of no Dropout node that draws."""
        if node.attr_int("training_mode", 0) and "stream" not in node.attrs:
            raise unsupported(node, f"its mask {node.inputs[1]!r} is of no Dropout", "the mask that Dropout gives")
        return (floats(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """What Dropout makes of dY."""
        return Dropout().reference(self._forward(node), (inputs[0], None, None, inputs[1]))[:1]

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """What Dropout becomes over dY."""
        return Dropout().lower(self._forward(node), inputs)

    @staticmethod
    def _forward(node: Node) -> Node:
        return replace(node, inputs=(node.inputs[0], "", "", *node.inputs[1:2]))

    def samples(self) -> Iterator[Sample]:
        """At inference, and in training."""
        yield Sample("idle", (normal(rng(123), 3, 5), np.ones((3, 5), np.int32)), onnx=False)
        inputs = (normal(rng(123), 3, 5), np.array([3], np.int32))
        yield Sample("trained", inputs, {"training_mode": 1, "ratio": 0.375, "seed": 5, "stream": 1}, onnx=False)
