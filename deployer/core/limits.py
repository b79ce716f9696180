"""The largest sizes that are read or planned, each with its reason.

A file may claim any size in a few bytes, so each claim is compared with these before memory is allocated for it.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from deployer.core.errors import ShapeMismatch, UnsupportedOperator
from deployer.core.ir import DTYPES, Node, TensorType
from deployer.core.operator import unsupported

MODEL_BYTES = 1 << 28
"""An ONNX file with the data beside it: 32 times the outermost memory of any target, which its weights must fit."""
TENSOR_BYTES = 1 << 28
"""One tensor of a graph, for the same reason; the reference holds it in float64, and some with padding around."""
PROGRAM_BYTES = 1 << 30
"""All tensors of a graph together, as the reference holds them while it runs: 128 times the outermost memory."""
ARCHIVE_BYTES = 1 << 30
"""All arrays of an npz together: all samples are in memory at once, and one file feeds them to the program."""
IMAGE_BYTES = 1 << 24
"""A saved state, or a dump of the flash that holds it: flash of microcontrollers has no more."""
NODES = 20_000
"""Nodes of a graph, 90 times the largest known one; planning takes a hundredth of a second and more for each."""
NUMBER = 2**31 - 1
"""A number of a target's file: bytes, cycles, or thousandths of them."""
RANK = 32
"""Axes of a tensor: half of what numpy can hold, and four times what operators can loop over."""

_WAY_OUT = "a smaller model: this compiler is for machines with megabytes"


def check_type(what: str, kind: TensorType) -> None:
    """ShapeMismatch where a tensor has more axes or bytes than is planned for; `what` names it."""
    if len(kind.shape) > RANK:
        raise ShapeMismatch(f"{what} has {len(kind.shape)} axes", [("at most", str(RANK))], "fewer axes")
    if kind.bytes > TENSOR_BYTES:
        facts = [("type", str(kind)), ("bytes", str(kind.bytes)), ("at most", str(TENSOR_BYTES))]
        raise ShapeMismatch(f"{what} is larger than any target could hold", facts, _WAY_OUT)


def check_total(graph: str, kinds: Sequence[TensorType]) -> None:
    """ShapeMismatch where the tensors of a graph together are more than is planned for."""
    total = sum(kind.bytes for kind in kinds)
    if total > PROGRAM_BYTES:
        facts = [("tensors", str(len(kinds))), ("bytes", str(total)), ("at most", str(PROGRAM_BYTES))]
        raise ShapeMismatch(f"the {graph} graph is larger than any target could hold", facts, _WAY_OUT)


def check_elements(node: Node, what: str, shape: Sequence[int]) -> None:
    """UnsupportedOperator where the reference of a node needs an array with more bytes than a tensor may have."""
    size = math.prod(shape) * DTYPES["float32"]
    if size > TENSOR_BYTES:
        raise too_large(node, f"{what} take {size} B", TENSOR_BYTES)


def too_large(node: Node, why: str, most: int) -> UnsupportedOperator:
    """The error of a node beyond a limit."""
    return unsupported(node, f"{why}, at most {most}", _WAY_OUT)


def numbers_beyond(value: Any, place: str = "") -> Iterator[tuple[str, int]]:
    """Place and value of each number that no machine has: sums of products with it would leave 64 bits."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers_beyond(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from numbers_beyond(item, f"{place}[{i}]")
    elif isinstance(value, int) and abs(value) > NUMBER:
        yield place, value
