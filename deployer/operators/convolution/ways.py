"""The ways in which functions for some calls of a convolution, or of its gradient of X, have their work counted."""

from collections.abc import Callable, Mapping

from deployer.core.access import Access
from deployer.core.ir import Node
from deployer.core.operator import Work
from deployer.operators.convolution.rectangles import line_work, matrix_work, rectangle_work, single_tap_work
from deployer.operators.convolution.strips import strip_work, strips_form
from deployer.operators.convolution.whole_rows import fours_work
from deployer.operators.finishing import finished_form

Tile = Mapping[str, int]
Way = Callable[[Node, Access, Tile], Work]


def ways_over(operand: str, channels: str, macs: Callable[[Access, Tile], int], **in_line: int) -> dict[str, Way]:
    """The ways of a layer with windows over an operand, X or dY, whose results have these `channels`, a dim's name.

    `macs` counts the multiply-accumulates of a tile. Each of `in_line` is a way by rectangles, with rows of up to so
    many taps without a loop.
    """

    def planes(node: Node, access: Access, tile: Tile) -> Work:
        return strip_work(access, operand, tile, finished_form("", node, access))

    def strips(node: Node, access: Access, tile: Tile) -> Work:
        return strip_work(access, operand, tile, finished_form(strips_form(access, operand, tile), node, access))

    def lines(node: Node, access: Access, tile: Tile) -> Work:
        return line_work(access, operand, tile, finished_form("", node, access))

    def way(work: Callable[..., Work], *more: int) -> Way:
        return lambda node, access, tile: work(
            access, operand, tile, channels, macs(access, tile), finished_form("", node, access), *more
        )

    whole = {"fours": fours_work, "matrix": matrix_work, "single": single_tap_work}
    rows = {name: way(rectangle_work, taps) for name, taps in in_line.items()}
    return {
        "planes": planes,
        "strips": strips,
        "lines": lines,
        **{name: way(work) for name, work in whole.items()},
        **rows,
    }
