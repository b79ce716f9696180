"""Rows that are kept from pass to pass, such as the keys and values of tokens that were read before."""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Whole
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, Kernel, Start, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, mismatch, register
from deployer.core.signatures import Signature
from deployer.core.traits.execution import Execution
from deployer.core.traits.file import FileSpec
from deployer.core.traits.numerics import Indices, Numerics
from deployer.core.traits.training import Keeper, State
from deployer.operators.base.operands import arrays, operands

CACHE, ROWS, BEGIN = range(3)
"""Positions of inputs."""


def _begins(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """The first rows that are written, of which the last may be one behind the cache, where there is no room."""
    return Indices(
        node.inputs[BEGIN],
        types[node.inputs[CACHE]].shape[-2] + 1,
        0,
        word="first row",
        among="rows",
        hint="a cache with more rows",
    )


@register
class CacheUpdate(Operator):
    """The cache [B, .., T, D] with the rows [B, .., C, D] from row `begin` [B] of each of B sequences on, in place.

    Rows of the cache that are not written keep what they had in the pass before; those that would come behind its last
    one are left out. Before the first pass all are zero.
    """

    name = "CacheUpdate"
    file = FileSpec(custom=Signature((3, 3), (0, 1), {}))
    inplace: ClassVar[dict[int, int]] = {0: CACHE}
    training = Keeper(operand=CACHE, state=State("_cache"))
    execution = Execution(moved=("cache", "rows"))
    numerics = Numerics(indices=_begins)
    no_gradient = "what was kept in another pass has none"
    kernel = Kernel(
        "cache_update_f32",
        pointers=(("cache", "float32", True), ("rows", "float32", False), ("begin", "int32", False)),
        scalars=tuple(
            (name, "u32")
            for name in (
                "o",
                "t",
                "i",
                "count",
                "o_start",
                "t_start",
                "lines",
                "cache_o",
                "cache_t",
                "rows_o",
                "rows_t",
            )
        ),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The cache's type."""
        cache, rows, begin = operands(node, inputs, 3)
        if begin.dtype != "int32":
            raise mismatch(node, "the first rows are not integers", inputs)
        if len(cache.shape) < 3 or rows.dtype != cache.dtype:
            raise mismatch(node, "the cache has no axes of sequences, rows and elements, or other elements", inputs)
        if (rows.shape[:-2], rows.shape[-1]) != (cache.shape[:-2], cache.shape[-1]):
            raise mismatch(node, "the rows differ from those of the cache", inputs)
        if begin.size != cache.shape[0]:
            raise mismatch(node, "there is no first row for each sequence", inputs)
        return (cache,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The cache of each sequence with its rows in their places."""
        cache, rows, begin = arrays(inputs, 3)
        result = cache.copy()
        for own, new, first in zip(result, rows, begin.reshape(-1), strict=True):
            places = int(first) + np.arange(rows.shape[-2])
            fits = (places >= 0) & (places < cache.shape[-2])
            own[..., places[fits], :] = new[..., fits, :]
        return (result,)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Each tile of the cache gets the rows that lie in it."""
        cache, rows, begin = (types[name].shape for name in node.inputs)
        outer = math.prod(cache[:-2])
        listed = (
            Operand(
                "cache", node.inputs[CACHE], "inout", (outer, *cache[-2:]), (At("o"), At("t"), At("i")), at_home=True
            ),
            Operand("rows", node.inputs[ROWS], "in", (outer, *rows[-2:]), (At("o"), Whole(), At("i"))),
            Operand("begin", node.inputs[BEGIN], "in", (math.prod(begin),), (Whole(),)),
        )
        return Access((Dim("o", outer), Dim("t", cache[-2]), Dim("i", cache[-1])), listed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's lengths and first line and row, how many rows are written, lines of a sequence, and strides."""
        values: dict[str, ArgValue] = {name: Extent(name) for name in "oti"}
        values |= {f"{arg}_{axis}": Stride(arg, at) for arg in ("cache", "rows") for at, axis in enumerate("ot")}
        values |= {"o_start": Start("o"), "t_start": Start("t"), "count": Const(access.operand("rows").view[1])}
        return values | {"lines": Const(access.dim("o").size // access.operand("begin").view[0])}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One copy per element that is written, shared out over the tiles of rows; lines are found one by one."""
        count, rows = access.operand("rows").view[1], access.dim("t").size
        moved, lines = -(-count * tile["t"] // rows), tile["o"] * count
        return Work(macs=0, elements=tile["o"] * moved * tile["i"], parallel=lines, inner_loop_starts=lines)
