"""InstanceNormalization: each channel of each sample by its own mean and deviation, then scale and bias."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import CONSUMED, Rule
from deployer.core.ir import BIAS, GAIN, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng
from deployer.operators.group_norm.groups import along_channels, group_nodes, group_types, group_values
from deployer.operators.inputs import arrays, normal, operands


@register
class InstanceNormalization(Operator):
    """BatchNormalization of one image, of which the channels are those of all samples."""

    name = "InstanceNormalization"
    learned: ClassVar[dict[int, str]] = {1: GAIN, 2: BIAS}
    versions = (6, 22)
    older: ClassVar[dict[int, Rule]] = {1: CONSUMED}
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = operands(node, inputs, 1)[0]
        if not x.shape[2:]:
            raise mismatch(node, f"{x} has no axis behind its channels to take a mean over", inputs)
        channels = x.shape[1]
        return (group_types(node, inputs, channels, channels),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The unit values times scale plus bias."""
        x, scale, bias = arrays(inputs, 3)
        y = group_values(node, x, x.shape[1]) * along_channels(scale, x.ndim) + along_channels(bias, x.ndim)
        return (np.asarray(y, x.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Scale and bias are those of the groups."""
        x = operands(node, inputs, 1)[0]
        return group_nodes(node, x, x.shape[1], (node.inputs[1], node.inputs[2]), node.outputs[0])

    def samples(self) -> Iterator[Sample]:
        """Images and signals, one sample and several."""
        r = rng(120)
        for label, shape in (("image", (1, 3, 4, 5)), ("batch", (3, 2, 4, 3)), ("signal", (2, 3, 7))):
            yield Sample(label, (normal(r, *shape), normal(r, shape[1]), normal(r, shape[1])), {"epsilon": 0.01})
        yield Sample("default", (normal(r, 2, 3, 4, 4), normal(r, 3), normal(r, 3)))
