"""Nodes of older operator versions in today's form: rules that operators share."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from deployer.core.ir import Node, TensorType

Rule = Callable[[Node, Sequence[TensorType | None]], list[Node]]
"""A node of an older version, with the types of its inputs, as nodes of today's operators with the same outputs."""


def without(node: Node, *names: str) -> Node:
    """The node without these attributes."""
    return replace(node, attrs={name: value for name, value in node.attrs.items() if name not in names})


def same_meaning(*unread: str) -> Rule:
    """The rule of a version that differs by attributes which change no value."""
    return lambda node, types: [without(node, *unread)]


CONSUMED = same_meaning("consumed_inputs")
"""Version 1 of many operators has an attribute about memory, which was never read."""
