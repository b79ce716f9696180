"""Execution of a kernel on tiles: sums that it carries, outputs that it leaves out, words that it moves."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from deployer.core.access import Access
from deployer.core.ir import DTYPES, Node, TensorType

CARRIED = "carry"
"""The kernel pointer behind which a sum of several blocks keeps what waits between tiles."""


BLOCK, GROUP, CARRIED_FLOATS = 32, 16, 3
"""Elements of a block, blocks of a group, and floats that a sum carries from tile to tile; see `Sums`."""
GROUPED = GROUP * BLOCK
"""Elements of a group of a long sum (sum_f32.h)."""


SHORT = 64
"""The most elements of a sum that is one block, and carries nothing."""


@dataclass(frozen=True)
class Sums:
    """The order in which a kernel sums along `dims`, the innermost last; `sum_f32.h` does it.

    Each row, the innermost dim, is cut into blocks of BLOCK elements, which are summed ascending from zero. The blocks
    of a group of GROUP are added in order, and groups and rows to a total of two floats that loses nothing. A sum of at
    most SHORT elements is one block. `together` sums are made at once per element of a result. A kernel whose tiles cut
    a term, as the loss over labels by classes, adds each term to the total. What is carried comes behind `results`.
    """

    dims: tuple[str, ...]
    together: int = 1
    results: int = 0

    @property
    def carried(self) -> int:
        """Floats that wait between tiles beside the result, per element of it: CARRIED_FLOATS for each sum."""
        return CARRIED_FLOATS * self.together

    def blocks(self, access: Access) -> bool:
        """Whether the sum has several blocks, so that partial sums are carried from tile to tile."""
        return math.prod(d.size for d in access.dims if d.name in self.dims and d.kind == "reduction") > SHORT


def with_carry(sums: Sums | None, node: Node, access: Callable[[], Access]) -> tuple[Node, dict[str, TensorType]]:
    """The node as its kernel runs: a sum of several blocks has one output more, whose type comes with it."""
    if sums is None or not sums.blocks(plain := access()):
        return node, {}
    view, name = next(o.view for o in plain.operands if o.writes), f"{node.name}/carry"
    outputs = (*node.outputs, *[""] * (sums.results - len(node.outputs)), name)
    return replace(node, outputs=outputs), {name: TensorType("float32", (*view, sums.carried))}


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Trait: how the kernel runs on tiles, beyond what its arguments and its work say. Default: nothing more.

    `sums` is the order in which it sums, with what waits from tile to tile in a pointer of its own. `optional_outputs`
    maps kernel pointers that are null where the node lacks an output to the output's position. `moved` are pointers to
    elements that are moved as words of four bytes, and never computed with, so that they may be integers as well.
    `working` are pointers to memory in which each call computes, and leaves zeros; no other step reads it.
    """

    sums: Sums | None = None
    optional_outputs: Mapping[str, int] = field(default_factory=dict)
    moved: tuple[str, ...] = ()
    working: tuple[str, ...] = ()

    def takes(self, arg: str, declared: str, dtype: str) -> bool:
        """Whether a buffer of `dtype` may be passed for a kernel pointer of the declared type."""
        return dtype == declared or (arg in self.moved and DTYPES[dtype] == DTYPES[declared])


NO_EXECUTION = Execution()
"""Defaults of a kernel without an execution trait."""
