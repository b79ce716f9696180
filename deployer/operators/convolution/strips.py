"""Depthwise windows of three by three, in planes that kernels may cut into strips of columns: at what cost."""

from collections.abc import Mapping

from deployer.core.access import Access, Operand, Reach, Window
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Work
from deployer.operators.convolution.geometry import SIDE


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
