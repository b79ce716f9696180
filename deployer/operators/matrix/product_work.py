"""The work of products by the ways in which their kernels share them: blocks of outputs, lines, strips."""

from collections.abc import Mapping
from typing import NamedTuple

from deployer.core.access import Access, At, Axis, Operand
from deployer.core.ir import Node
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Work
from deployer.operators.finishing import GATE, has_relu


class Finish(NamedTuple):
    """What follows a complete sum, in multiply-accumulates for each output of a block, and of a line."""

    block: int
    line: int


def finish_of(node: Node, access: Access) -> Finish:
    """What the node has behind its sums: a product with alpha, C, Relu, a gate."""
    arguments = {operand.arg for operand in access.operands}
    parts = (node.attr_float("alpha", 1.0) != 1.0, "c" in arguments, has_relu(node), GATE in arguments)
    block, line = (
        sum(cost for cost, is_there in zip(costs, parts, strict=True) if is_there)
        for costs in (FACTS.finish_block, FACTS.finish_line)
    )
    return Finish(block, line + FACTS.finish_begin * any(parts))


def lie_beside(access: Access) -> bool:
    """Whether the elements of A, and those of B, that an output takes lie beside each other."""

    def innermost(operand: Operand) -> list[Axis]:
        return [axis for axis, size in zip(operand.axes, operand.view, strict=True) if size > 1][-1:]

    return all(innermost(access.operand(name)) in ([], [At("k")]) for name in ("a", "b"))


def products(batch: int, m: int, n: int, k: int, finish: Finish, beside: bool) -> Work:
    """The work of `batch` products of m rows and n columns over k: blocks of 4 x 4 outputs, and lines of what is left.

    All is lines where rows or columns do not fill a block. `beside` is what `lie_beside` says.
    """
    if batch == m == 1:
        return _vector(n, k, finish.line, beside)
    if min(m, n) < FACTS.block:
        return _lines(batch * min(m, n), max(m, n), k, finish.line)
    rows, columns = (size % FACTS.block for size in (m, n))
    if not rows and not columns:
        return blocks(batch, m, n, k, finish)
    fewest = FACTS.turns(batch * _whole(m) * _whole(n))
    pieces = FACTS.turns(batch * rows * _begun(n)) + FACTS.turns(batch * columns * _whole(m))
    return _edged(batch * m * n, fewest * FACTS.block**2, pieces * FACTS.block, k, finish)


def blocks(batch: int, m: int, n: int, k: int, finish: Finish) -> Work:
    """The same by blocks alone, the last of which overlap others."""
    count = batch * _begun(m) * _begun(n)
    computed = count * FACTS.block**2
    lost = (computed - batch * m * n) * k + computed * finish.block
    return Work(batch * m * n * k, computed, count, "matrix", lost)


def in_products(node: Node, access: Access, tile: Mapping[str, int]) -> Work:
    """The work of a tile, as `products` counts it."""
    batch, m, n, k = (tile[name] for name in ("batch", "m", "n", "k"))
    return products(batch, m, n, k, finish_of(node, access), lie_beside(access))


def in_blocks(node: Node, access: Access, tile: Mapping[str, int]) -> Work:
    """The work of a tile by blocks alone: functions for some calls say that they take them so."""
    batch, m, n, k = (tile[name] for name in ("batch", "m", "n", "k"))
    return blocks(batch, m, n, k, finish_of(node, access))


def _whole(size: int) -> int:
    return size // FACTS.block


def _begun(size: int) -> int:
    return -(-size // FACTS.block)


def strips(batch: int, rows: int, columns: int, form: str) -> Work:
    """The work of outer products: strips of columns that cores share whole, or of which each takes some rows."""
    width = FACTS.block if form == "added" else 2 * FACTS.block
    count, outputs = -(-columns // width), batch * rows * columns
    if count >= FACTS.dealt and (count % FACTS.dealt == 0 or rows < FACTS.dealt):
        return Work(outputs, outputs, count, form, runs=batch * count)
    return Work(outputs, outputs, rows, form, runs=batch * count * min(rows, FACTS.dealt))


def _edged(outputs: int, in_blocks: int, in_lines: int, k: int, finish: Finish) -> Work:
    """The work of so many outputs of which a core has some in blocks and, at their edges, some in lines."""
    products = in_blocks * (k + finish.block) + round(in_lines * (FACTS.edge * k + finish.line))
    elements = (in_blocks + in_lines) * FACTS.dealt
    return Work(outputs * k, elements, FACTS.dealt, "edged", products * FACTS.dealt - outputs * k)


def _lines(lines: int, outputs: int, k: int, extra: int) -> Work:
    """The work of lines of so many outputs each, of which cores are dealt fours."""
    pieces = lines * _begun(outputs)
    computed = pieces * FACTS.block
    lost = (computed - lines * outputs) * k + computed * extra
    return Work(lines * outputs * k, computed, pieces, "lines", lost)


def _vector(outputs: int, k: int, extra: int, beside: bool) -> Work:
    """The work of a line by itself, which cores share by fours or by twos; the latter differ by how factors lie."""
    narrow = "narrow" if beside else "apart"
    width, form = (FACTS.block, "vector") if outputs > FACTS.narrow else (2, narrow)
    pieces = -(-outputs // width)
    computed = pieces * width
    lost = (computed - outputs) * k + computed * extra
    return Work(outputs * k, computed, pieces, form, lost, min(pieces, FACTS.dealt))
