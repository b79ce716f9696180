"""GroupNormalization: groups of channels by their mean and deviation, then scale and bias per channel."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Rule
from deployer.core.ir import BIAS, GAIN, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, rng, unsupported
from deployer.operators.group_norm.groups import along_channels, group_nodes, group_types, group_values
from deployer.operators.inputs import arrays, normal, operands


def _groups(node: Node) -> int:
    """Attribute `num_groups`; 0, which is refused, where it is absent."""
    return node.attr_int("num_groups", 0)


def _scale_of_a_group(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 18 has a scale and a bias per group."""
    groups = _groups(node)
    x = group_types(node, types, groups, groups)
    return group_nodes(node, x, groups, (node.inputs[1], node.inputs[2]), node.outputs[0])


@register
class GroupNormalization(Operator):
    """BatchNormalization of one image, of which the channels are the groups of all samples, then Mul and Add."""

    name = "GroupNormalization"
    learned: ClassVar[dict[int, str]] = {1: GAIN, 2: BIAS}
    versions = (21,)
    older: ClassVar[dict[int, Rule]] = {18: _scale_of_a_group}
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        if node.attr_int("stash_type", 1) != 1:
            raise unsupported(node, f"stash_type is {node.attrs['stash_type']}, not float32", "stash_type 1")
        channels = (*operands(node, inputs, 1)[0].shape, 0, 0)[1]
        return (group_types(node, inputs, _groups(node), channels),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The unit values times scale plus bias."""
        x, scale, bias = arrays(inputs, 3)
        unit = group_values(node, x, _groups(node))
        return (np.asarray(unit * along_channels(scale, x.ndim) + along_channels(bias, x.ndim), x.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Scale and bias per channel come behind the groups, unless each channel is one."""
        x, groups = operands(node, inputs, 1)[0], _groups(node)
        if groups == x.shape[1]:
            return group_nodes(node, x, groups, (node.inputs[1], node.inputs[2]), node.outputs[0])
        unit, scaled, scale, bias = (f"{node.name}/{label}" for label in ("unit", "scaled", "scale", "bias"))
        shape = (x.shape[1], *[1] * (len(x.shape) - 2))
        return [
            *group_nodes(node, x, groups, None, unit),
            Node(scale, "Reshape", node.inputs[1:2], (scale,), {"shape": shape}),
            Node(scaled, "Mul", (unit, scale), (scaled,)),
            Node(bias, "Reshape", node.inputs[2:], (bias,), {"shape": shape}),
            Node(node.name, "Add", (scaled, bias), node.outputs),
        ]

    def samples(self) -> Iterator[Sample]:
        """Groups of several channels, of one and of all."""
        r = rng(121)
        for label, shape, groups in (
            ("image", (2, 6, 3, 4), 3),
            ("signal", (1, 4, 7), 2),
            ("one", (2, 3, 4, 3), 1),
            ("each", (2, 3, 2, 5), 3),
        ):
            inputs = (normal(r, *shape), normal(r, shape[1]), normal(r, shape[1]))
            yield Sample(label, inputs, {"num_groups": groups})
