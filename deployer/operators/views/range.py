"""Range: numbers from `start` on, `delta` apart, up to before `limit`; it only ever folds."""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.limits import check_elements
from deployer.core.operator import Array, Sample, mismatch, register, unsupported
from deployer.operators.views.compile_time import Folded


@register
class Range(Folded):
    """Three numbers of one type, of integers or floats."""

    name = "Range"
    versions = (11, 27)
    static_inputs: ClassVar[dict[int, str]] = {0: "start", 1: "limit", 2: "delta"}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A vector of their type."""
        values = _values(node)
        return (TensorType("int32" if isinstance(values[0], int) else "float32", (_count(node, values),)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """start + i delta."""
        values = _values(node)
        kind = np.int32 if isinstance(values[0], int) else np.float32
        return ((values[0] + np.arange(_count(node, values)) * values[2]).astype(kind),)

    def samples(self) -> Iterator[Sample]:
        """Integers, backward, a limit of shape [1], floats."""
        yield Sample("integers", (), {"start": 2, "limit": 9, "delta": 3}, onnx=False)
        yield Sample("backward", (), {"start": 5, "limit": -1, "delta": -2}, onnx=False)
        yield Sample("vector", (), {"start": 0, "limit": (4,), "delta": 1}, onnx=False)
        yield Sample("floats", (), {"start": 0.5, "limit": 2.25, "delta": 0.25}, onnx=False)


def _values(node: Node) -> tuple[float, float, float]:
    """start, limit and delta; UnsupportedOperator unless all three are constant numbers of one type.

    They have shape [] in ONNX; a limit of shape [1] is what the body of ONNX's AffineGrid has.
    """
    values = []
    for name in ("start", "limit", "delta"):
        value = node.attrs.get(name)
        if name == "limit" and isinstance(value, tuple) and len(value) == 1:
            value = value[0]
        if not isinstance(value, (int, float)):
            raise unsupported(node, f"its {name} is not one constant number", "constants of shape []")
        values.append(value)
    if len(set(map(type, values))) > 1:
        raise mismatch(node, f"start, limit and delta, {values}, are not of one type", ())
    if not values[2]:
        raise mismatch(node, "delta is 0", ())
    return values[0], values[1], values[2]


def _count(node: Node, values: tuple[float, float, float]) -> int:
    count = max(math.ceil((values[1] - values[0]) / values[2]), 0)
    check_elements(node, "its numbers", (count,))
    return count
