"""How kernels of convolutions deal out blocks to cores: the ways they take where blocks are few or incomplete."""

from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Work

UNEVEN = "uneven"
"""The form of a layer of single taps whose channels or places are not whole blocks, or too few."""
TAPS = "taps"
"""The form of a gradient of W that takes single taps as it takes rows of them."""
NINE = "nine"
"""The form of a depthwise gradient of W whose planes are single rows or columns, or sums of several blocks."""
BY_ROWS = "by_rows"
"""The form of a gradient of W of a depthwise layer whose planes are too few to be dealt out whole."""


def turns(pieces: int) -> int:
    """The pieces of the core with the most of them."""
    return -(-pieces // FACTS.dealt)


def worth_fours(blocks: int) -> bool:
    """Whether blocks of four outputs end before four times as many of one, which cost a third more each."""
    return blocks > 0 and 3 * turns(blocks) <= turns(FACTS.block * blocks)


def is_even(images: int, groups: int, channels: int, places: int) -> bool:
    """Whether single taps over planes are a product of matrices in whole blocks."""
    whole = channels % FACTS.block == places % FACTS.block == 0 and min(images, groups) == 1
    return whole and worth_fours(images * groups * (channels // FACTS.block) * (places // FACTS.block))


def uneven_work(planes: int, channels: int, places: int, products: int, form: str) -> Work:
    """Single taps over planes: blocks of four channels by four places or by one, then single channels."""
    blocks, rest = divmod(channels, FACTS.block)
    fours = places // FACTS.block if worth_fours(planes * max(blocks, rest) * (places // FACTS.block)) else 0
    singles, outputs = places - FACTS.block * fours, planes * channels * places
    lost = planes * (FACTS.single * singles * channels + FACTS.alone * rest * places) * products
    runs = planes * (blocks + rest) * (fours + singles)
    return Work(outputs * products, outputs, runs, form, round(lost), runs)


def deals_planes(planes: int) -> bool:
    """Whether whole planes are dealt out as well as their rows of taps are."""
    return 8 * turns(planes) <= 3 * turns(3 * planes)


def is_square(groups: int, outputs: int, channels: int) -> bool:
    """Whether the gradient of single taps is a product of matrices in square blocks."""
    return channels % FACTS.block == 0 and worth_fours(groups * (outputs // FACTS.block) * (channels // FACTS.block))


def weight_blocks(groups: int, outputs: int, channels: int, rows: int) -> tuple[int, int]:
    """In the gradient of W of a group: blocks of four outputs of a channel, and outputs that are blocks by themselves.

    Where blocks of four, one for each of the `rows` of taps, are too few for the cores, all outputs are by themselves.
    """
    fours = outputs // FACTS.block
    blocks = groups * fours * channels * rows
    if 16 * turns(blocks) > 5 * turns(FACTS.block * blocks):
        fours = 0
    return fours * channels, (outputs - FACTS.block * fours) * channels
