"""Kernel model of a target: how its kernels split work into blocks and over cores, and what their parts cost.

Operators count the work of a call by it (`Operator.work`), planning chooses by it, and costs in cycles come on top
(`KernelCost`). The numbers are data, in `targets/NAME/kernel_model.toml`.
"""

import math
from dataclasses import dataclass, fields

POSITIVE = ("block", "cores_assumed", "remainder_divisor")
"""Fields that work is divided by."""


@dataclass(frozen=True)
class KernelModel:
    """Features and relative costs of a target's kernels; a file has all of them but `work_splits`.

    A cost "in block MACs" is relative to a multiply-accumulate in a block of `block` x `block` outputs.
    """

    block: int
    """Outputs, channels or neighbours that layer and product kernels compute at once."""
    cores_assumed: int
    """Number of cores for which kernels choose between blocks and single outputs, or whole planes and rows of taps."""
    output_blocks_limit: tuple[int, int]
    """[a, b]: use blocks of outputs if a * (rounds of blocks) <= b * (rounds of single outputs)."""
    weight_blocks_limit: tuple[int, int]
    """[a, b]: the same for blocks of weights in the gradient of W."""
    narrow_outputs: int
    """Vector times matrix: up to this many outputs a core computes two at a time, above it a block."""
    few_macs: int
    """Up to this many multiply-accumulates, a vector product or outer product uses the shortest code."""
    unsplit_planes: int
    """From this many depthwise planes on, a core gets whole planes instead of halves or quarters."""
    small_update_bytes: int
    """Up to this many bytes of a weight, its update costs less than fetching its code and starting the cores."""
    line_mac_cost: float
    """Cost of a multiply-accumulate in a line of outputs, in block MACs."""
    epilogue_block_macs: tuple[int, int, int, int]
    """Epilogue of an output in a block, in block MACs: alpha, C, Relu, a gate."""
    epilogue_line_start: int
    """Start of an epilogue of an output in a line, in block MACs."""
    epilogue_line_macs: tuple[int, int, int, int]
    """Epilogue of an output in a line besides its start, in block MACs: alpha, C, Relu, a gate."""
    unrolled_mac_cost: tuple[float, float, float]
    """Cost of a multiply-accumulate if a row of taps is unrolled, in block MACs: in a block of block x block
    outputs, in `block` sums that share a factor, in a single sum."""
    looped_mac_cost: tuple[float, float, float]
    """The same if a row of taps is a loop."""
    row_overhead: float
    """Cost after a looped row of taps, and after a channel, in block MACs."""
    block_overhead: tuple[int, int, int]
    """Cost to start and end a block, `block` sums, and a single sum, in halves of the last."""
    remainder_divisor: int
    """In the gradient of W, an output outside whole blocks costs an additional 1/n of its multiply-accumulates."""
    partial_sum_starts: int
    """Additional inner-loop starts per start of a sum of several blocks, if a tile has a part of the sum."""
    rectangle_starts: int
    """Inner-loop starts of a rectangle of outputs by lines, in addition to one per line."""
    region_setup_elements: int
    """Setup per channel of single taps in whole blocks, in elements."""
    plane_setup_elements: int
    """Setup of each plane of neighbours after the first, where strides make several, in elements."""
    strip_setup_elements: int
    """Setup of a plane in strips of columns, and of each strip, in rows of a strip."""
    transcendental_elements: int
    """Element operations of one expf or logf."""
    random_word_elements: int
    """Element operations of one random word."""
    work_splits: tuple[tuple[str, str], ...] = ()
    """[kernel, name]: kernels that use another registered work split than the default one."""

    def blocks(self, pieces: int) -> int:
        """Return the blocks that have so many outputs, channels or neighbours, the last of them maybe in part."""
        return -(-pieces // self.block)

    def squares(self, outputs: int) -> int:
        """Return the blocks of `block` x `block` that so many outputs fill, the last of them maybe in part."""
        return -(-outputs // self.block**2)

    def rounds(self, pieces: int) -> int:
        """Return the pieces of the busiest core, where cores take turns."""
        return -(-pieces // self.cores_assumed)

    def faults(self) -> list[str]:
        """Return what is wrong with the numbers: each is finite and at least zero, and those that divide are more."""
        found = []
        for name in (f.name for f in fields(self) if f.name != "work_splits"):
            value, least = getattr(self, name), int(name in POSITIVE)
            numbers = value if isinstance(value, tuple) else (value,)
            if not all(math.isfinite(number) and number >= least for number in numbers):
                found.append(f"{name} is {value}, and not at least {least}")
        return found
