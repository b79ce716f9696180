"""Depthwise windows of three by three, in planes that kernels may cut into strips of columns: at what cost."""

from collections.abc import Mapping

from deployer.core.access import Access
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Work
from deployer.operators.convolution.dealing import most, parts_of_planes
from deployer.operators.convolution.geometry import SIDE, window_axes

WIDTHS = "widths"
"""The form of strips of two widths, four columns and what is left of them: each width has code of its own."""


def strips_form(access: Access, operand: str, tile: Mapping[str, int]) -> str:
    """WIDTHS, or none."""
    columns = tile[window_axes(access.operand(operand))[1].dim]
    return WIDTHS if columns > FACTS.block and columns % FACTS.block else ""


def strip_work(access: Access, operand: str, tile: Mapping[str, int], form: str) -> Work:
    """Nine multiply-accumulates for each element of the result, and the rows of each strip with its beginning.

    Cores take turns at planes, or where these are few at halves or quarters of their rows: the core with most decides.
    """
    rows, columns = (tile[axis.dim] for axis in window_axes(access.operand(operand)))
    planes, strips = tile["n"] * tile["g"], -(-columns // FACTS.block)
    parts = parts_of_planes(planes)
    longest = -(-rows // parts)
    lengths = [max(min(longest, rows - begin), 0) for begin in range(0, longest * parts, longest)]
    pieces, macs = planes * parts, planes * rows * columns * SIDE**2
    share = pieces / FACTS.turns(pieces)
    products, elements, runs = (
        round(most([(planes, cost if length else 0) for length, cost in zip(lengths, costs, strict=True)]) * share)
        for costs in (
            [columns * SIDE**2 * length for length in lengths],
            [FACTS.strip_setup + strips * (length + FACTS.strip_setup) for length in lengths],
            [strips] * parts,
        )
    )
    return Work(macs, elements, pieces, form, products - macs, runs)
