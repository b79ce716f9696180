"""Depthwise windows of three by three, in planes that kernels may cut into strips of columns: when and at what cost."""

from collections.abc import Mapping

from deployer.core.access import Access, Operand, Reach, Window
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Work
from deployer.operators.convolution.geometry import SIDE

STRIPS = "strips"
"""The form of their work."""
LOW = "low"
"""The same of planes with no whole strip, or with few rows and two or three columns left over: the code is longer."""


def in_strips(access: Access, operand: str) -> bool:
    """Whether the layer's windows over `operand`, X or dY, are taken in strips of columns.

    They are three by three, without stride or dilation along a row, and only the first and the last column of the
    result lack taps, one each.
    """
    _, m, c, *kernel = access.operand("w").view
    if (m, c, *kernel) != (1, 1, SIDE, SIDE):
        return False
    rows, columns = _windows(access.operand(operand))
    if columns.stride * columns.dilation != 1 or (isinstance(rows, Reach) and rows.stride != 1):
        return False
    size, length = access.dim(columns.dim).size, access.operand(operand).view[-1]
    back = SIDE - 1 if isinstance(columns, Reach) else 0
    left = columns.offset({columns.dim: (0, size)}, length) - back
    return left >= -1 and left + size < length


def strips_form(access: Access, operand: str, tile: Mapping[str, int]) -> str:
    """STRIPS, or LOW."""
    rows, columns = (tile[axis.dim] for axis in _windows(access.operand(operand)))
    short = columns >= FACTS.block and (columns % FACTS.block < 2 or rows >= FACTS.high_plane)
    return STRIPS if short else LOW


def strip_work(access: Access, operand: str, tile: Mapping[str, int], form: str) -> Work:
    """Nine multiply-accumulates for each element of the result, and the rows of each strip with its beginning.

    Cores share planes, or where these are few parts of them.
    """
    rows, columns = (tile[axis.dim] for axis in _windows(access.operand(operand)))
    planes, strips = tile["n"] * tile["g"], -(-columns // FACTS.block)
    elements = planes * (FACTS.strip_setup + strips * (rows + FACTS.strip_setup))
    parts = FACTS.block if planes < FACTS.many_planes else 1
    return Work(planes * rows * columns * SIDE * SIDE, elements, planes * parts, form, runs=planes * strips)


def _windows(operand: Operand) -> list[Window | Reach]:
    return [axis for axis in operand.axes if isinstance(axis, Window | Reach)]
