"""Windows of three by three whose rows kernels may take whole, with the borders in the same blocks: when that is so."""

from collections.abc import Mapping

from deployer.core.access import Access, Operand, Reach, Window
from deployer.core.kernel_facts import FACTS
from deployer.operators.convolution.geometry import SIDE
from deployer.operators.products import PRODUCTS

FOURS = "fours"
"""The form of work by four neighbours in a row, each with three taps in a row."""
THINNED = "thinned"
"""The same in the gradient of X of a layer with strides of two, where elements meet one tap in a row or two."""
MOVING = "moving"
"""The same in a layer with strides of two along a row."""
PAIRS = "pairs"
"""The form of a gradient of W by pairs of columns."""


def fours_form(access: Access, operand: str, tile: Mapping[str, int], channels: str) -> str:
    """FOURS, MOVING or THINNED where the layer's windows over `operand`, X or dY, are taken so, else an empty string.

    Only the first and the last column lack taps, one each, and all outputs are in blocks of four neighbours by four
    `channels`, a dim's name.
    """
    rows, columns = _windows(access.operand(operand))
    size, length = access.dim(columns.dim).size, access.operand(operand).view[-1]
    if not _is_square(access.operand("w")) or columns.dilation > 1 or tile[channels] % FACTS.block:
        return ""
    backwards = isinstance(columns, Reach)
    if backwards and rows.stride == columns.stride > 1:
        whole = FACTS.block * columns.stride
        fits = columns.stride < SIDE and columns.pad == 1 and size % whole == tile[columns.dim] % whole == 0
        return THINNED if fits else ""
    if columns.stride >= SIDE or (backwards and rows.stride * columns.stride > 1):
        return ""
    if tile[columns.dim] % FACTS.block or (size == FACTS.block and columns.stride == 1):
        return ""
    left = columns.offset({columns.dim: (0, size)}, length) - (SIDE - 1 if backwards else 0)
    if left < -1 or left + columns.stride * size >= length:
        return ""
    return MOVING if columns.stride > 1 else FOURS


def in_pairs(access: Access, tile: Mapping[str, int]) -> bool:
    """Whether the gradient of W sums rows by pairs of columns: whole rows, with one column of zeros before them, and
    one behind them unless the stride is two.
    """
    _, columns = _windows(access.operand("x"))
    size, length = access.dim(columns.dim).size, access.operand("x").view[-1]
    if not _is_square(access.operand("grad")) or columns.dilation > 1 or columns.pad != 1:
        return False
    if size % 2 or size > PRODUCTS or tile["m"] < FACTS.block or tile[columns.dim] < size:
        return False
    if columns.stride == 1:
        return length == size > FACTS.block
    return columns.stride < SIDE and length >= columns.stride * size and size > 2


def _is_square(weights: Operand) -> bool:
    return weights.view[-2:] == (SIDE, SIDE)


def _windows(operand: Operand) -> list[Window | Reach]:
    return [axis for axis in operand.axes if isinstance(axis, Window | Reach)]
