"""How kernels of convolutions deal out blocks to cores: the ways they take where blocks are few or incomplete."""

from collections.abc import Iterable

from deployer.core.kernel_facts import FACTS

TAPS = "taps"
"""The form of a gradient of W that takes single taps as it takes rows of them."""
ALONE = "alone"
"""The form of a gradient of W by rows of three taps of single outputs."""
BY_ROWS = "by_rows"
"""The form of a gradient of W of a depthwise layer whose rows of taps are dealt out."""


def most(dealt_out: Iterable[tuple[int, float]]) -> float:
    """The cost of the core with the most, where so many pieces of a cost each are dealt out in this order."""
    whole, turn, costs = 0.0, 0, [0.0] * FACTS.dealt
    for count, cost in dealt_out:
        each, rest = divmod(count, FACTS.dealt)
        whole += each * cost
        for piece in range(turn, turn + rest):
            costs[piece % FACTS.dealt] += cost
        turn += rest
    return whole + max(costs)


def parts_of_planes(planes: int) -> int:
    """The parts of each plane: one, or two or four where planes are few and cores would not have as many each."""
    parts = 1
    while parts < FACTS.block and planes * parts < FACTS.many_planes and planes * parts % FACTS.dealt:
        parts *= 2
    return parts


def pays(limit: tuple[int, int], blocks: int, pieces: int) -> bool:
    """Whether cores end with the blocks before they end with so many pieces, each of a share of its time."""
    of_blocks, of_pieces = limit
    return of_blocks * FACTS.turns(blocks) <= of_pieces * FACTS.turns(pieces)


def worth_fours(blocks: int) -> bool:
    """Whether blocks of four outputs end before four times as many of one."""
    return blocks > 0 and pays(FACTS.fours, blocks, FACTS.block * blocks)


def weight_blocks(groups: int, outputs: int, channels: int, rows: int) -> tuple[int, int]:
    """In the gradient of W of a group: blocks of four outputs of a channel, and outputs that are blocks by themselves.

    Where blocks of four, one for each of the `rows` of taps, are too few for the cores, all outputs are by themselves.
    """
    fours = outputs // FACTS.block
    blocks = groups * fours * channels * rows
    if not pays(FACTS.weights, blocks, FACTS.block * blocks):
        fours = 0
    return fours * channels, (outputs - FACTS.block * fours) * channels
