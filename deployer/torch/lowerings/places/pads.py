"""Padding by a constant or by elements of the tensor, and cropping."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from deployer.core.ir import TensorType
from deployer.core.operator import Array
from deployer.operators.movement.padding import SOURCES
from deployer.torch.graph import GraphBuilder, Operand, Value, lowers
from deployer.torch.lowerings.places.indexing import rows_added, rows_of


def _both(pads: Sequence[int], rank: int) -> tuple[list[int], list[int]]:
    """Elements before and behind each axis; PyTorch has them from the last axis on."""
    before, after = [0] * rank, [0] * rank
    for place in range(len(pads) // 2):
        before[-1 - place], after[-1 - place] = pads[2 * place], pads[2 * place + 1]
    return before, after


@lowers("constant_pad_nd", "pad")
def pad(g: GraphBuilder, x: Value, pads: Sequence[int], mode: Any = "constant", value: float | None = 0.0) -> Value:
    """Elements around x; `pads` are before and after the last axis, then the one before it. Negative ones cut."""
    if not isinstance(mode, str):  # constant_pad_nd has the value in its place
        mode, value = "constant", mode
    return _padded(g, x, pads, PADS[mode], value or 0.0)


PADS = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _padded(g: GraphBuilder, x: Value, pads: Sequence[int], mode: str, value: float = 0.0) -> Value:
    before, after = _both(pads, x.rank)
    if min((*before, *after), default=0) < 0 and mode in SOURCES:
        for axis, ids in _elements(mode, x.shape, before, after):
            x = rows_of(g, x, g.constant(ids, "int64"), axis)
        return x
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        x = g.slice(x, axis, max(-low, 0), x.shape[axis] - max(-high, 0))
    before, after = ([max(n, 0) for n in ends] for ends in (before, after))
    if not any((*before, *after)):
        return x
    shape = [b + n + a for b, n, a in zip(before, x.shape, after, strict=True)]
    constant = [g.constant(value, x.dtype)] if mode == "constant" else []
    return g.emit("Pad", [x, g.ints([*before, *after]), *constant], shape, x.dtype,
                  mode=None if mode == "constant" else mode)  # fmt: skip


def _elements(mode: str, shape: Sequence[int], before: Sequence[int], after: Sequence[int]) -> list[tuple[int, Array]]:
    """Each axis with pads, and which elements stand there; negative pads cut."""
    return [
        (axis, SOURCES[mode](np.arange(-low, size + high), size))
        for axis, (size, low, high) in enumerate(zip(shape, before, after, strict=True))
        if low or high
    ]


def _with_elements(count: int, word: str, mode: str) -> None:
    """Register what pads so many axes with elements of them, and its gradient."""

    @lowers(f"{word}_pad{count}d")
    def forward(g: GraphBuilder, x: Value, pads: Sequence[int]) -> Value:
        return _padded(g, x, pads, mode)

    @lowers(f"{word}_pad{count}d_backward")
    def backward(g: GraphBuilder, dy: Value, x: Operand, pads: Sequence[int]) -> Value | None:
        shape = g.value(x).shape
        before, after = _both(pads, len(shape))
        if min((*before, *after)) < 0:
            for axis, ids in reversed(_elements(mode, shape, before, after)):
                sizes = [shape[a] if a >= axis else n for a, n in enumerate(dy.shape)]
                dy = rows_added(g, sizes, g.constant(ids, "int64"), dy, axis)
            return dy
        source = Value(g.fresh("padded"), shape)
        g.types[source.name] = TensorType("float32", shape)
        return g.backward("Pad", [source, g.ints([*before, *after])], [None], [dy], [0], mode=mode)[0]


for _count in (1, 2, 3):
    _with_elements(_count, "reflection", "reflect")
    _with_elements(_count, "replication", "edge")
