"""Dropout: in training elements are dropped by a key and the others scaled, at inference Y = X."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.forms import Rule, without
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, rng
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.random.keyed_dropout import KEYS, KeyedDropout, kept, ratio_of

TESTED = "is_test"
"""Before version 12 nothing says what the mask is where nothing is dropped, and nobody computes it."""


def _copy(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Versions 7 and 10 have no training mode: nothing is dropped, whatever `ratio` says."""
    return [replace(node, attrs={TESTED: 1})]


def _tested(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 7 it drops elements unless `is_test` says otherwise."""
    mode = {"training_mode": int(not node.attr_int(TESTED, 0)), TESTED: 1}
    return [without(replace(node, attrs={"ratio": 0.5, **node.attrs, **mode}), "consumed_inputs")]


def trains(node: Node) -> bool:
    """Whether a node with static attributes drops elements."""
    return bool(node.attr_int("training_mode", 0)) and ratio_of(node) != 0


@register
class Dropout(Operator):
    """KeyedDropout where it drops something, else Identity; behind ONNX's inputs it takes the number of the pass."""

    name = "Dropout"
    versions = (12, 13, 22)
    older: ClassVar[dict[int, Rule]] = {1: _tested, 6: _tested, 7: _copy, 10: _copy}
    flags = ("training_mode",)
    static_inputs: ClassVar[dict[int, str]] = {1: "ratio", 2: "training_mode"}
    composite = True
    passes = 3

    def draws(self, node: Node, constants: Mapping[str, Array]) -> bool:
        """In training mode."""
        attrs = dict(node.attrs)
        for position, name in self.static_inputs.items():
            array = constants.get(node.inputs[position]) if node.inputs[position:] else None
            attrs |= {} if array is None or not array.size else {name: array.reshape(-1)[0].item()}
        return trains(replace(node, attrs=attrs))

    def drawless(self, node: Node) -> Node:
        """With nothing to drop, in any version."""
        return replace(node, inputs=node.inputs[:1], attrs={"ratio": 0.0})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X, and the mask."""
        x = operands(node, inputs, 1)[0]
        ratio_of(node)
        return (x, TensorType("int32", x.shape)) if len(node.outputs) > 1 else (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Y, and the mask: 1 where an element is kept."""
        x = arrays(inputs, 1)[0]
        mask = np.ones(x.shape, bool)
        if not trains(node):
            return (x, mask.astype(np.int32))[: max(len(node.outputs), 1)]
        count = inputs[self.passes]
        assert count is not None
        mask = kept(node, int(count.reshape(())), x.size).reshape(x.shape)
        y = KeyedDropout().reference(node, (x, count))[0]
        return (y, mask.astype(np.int32))[: max(len(node.outputs), 1)]

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """KeyedDropout, whose mask nobody computes, or Identity with a mask of ones."""
        x, y, mask = node.inputs[0], node.outputs[0], "".join(node.outputs[1:])
        if trains(node):
            count = node.inputs[self.passes : self.passes + 1]
            attrs = {name: node.attrs[name] for name in ("ratio", *KEYS) if name in node.attrs}
            return [Node(node.name, KeyedDropout.name, (x, *count), (y,), {"ratio": 0.5, **attrs})]
        nodes = [Node(node.name, "Identity", (x,), (y,))]
        if mask and not node.attr_int(TESTED, 0):
            shape = operands(node, inputs, 1)[0].shape
            nodes.append(Node(f"{node.name}/mask", "ConstantOfShape", (), (mask,), {"shape": shape, "value": 1}))
        return nodes

    def samples(self) -> Iterator[Sample]:
        """At inference, with the mask, and in training."""
        yield Sample("matrix", (normal(rng(86), 3, 4),))
        yield Sample("mask", (normal(rng(86), 3, 4),), {}, 2)
        trained = (normal(rng(122), 3, 5), None, None, np.array([3], np.int32))
        yield Sample("trained", trained, {"training_mode": 1, "ratio": 0.375, "seed": 5}, onnx=False)
