"""The work of products by the ways in which their kernels share them: blocks of outputs, lines, strips."""

from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Work


def blocks(batch: int, m: int, n: int, k: int, extra: int) -> Work:
    """The work of `batch` products of m rows and n columns over k, with `extra` operations per output.

    Blocks of 4 x 4 outputs, then lines of what is left; all by lines where rows or columns do not fill a block.
    """
    if min(m, n) < FACTS.block:
        return _lines(batch * min(m, n), max(m, n), k, extra)
    rows, columns = (size - size % FACTS.block for size in (m, n))
    outputs, count = batch * rows * columns, batch * rows * columns // FACTS.block**2
    rest = _lines(batch * (n - columns), rows, k, extra) if columns < n else None
    rest = _lines(batch * (m - rows), n, k, extra, rest) if rows < m else rest
    return Work(outputs * k, outputs, count, "matrix", outputs * extra, then=rest)


def strips(batch: int, rows: int, columns: int, form: str) -> Work:
    """The work of outer products: strips of columns that cores share whole, or of which each takes some rows."""
    count, outputs = -(-columns // (2 * FACTS.block)), batch * rows * columns
    if count >= FACTS.dealt and (count % FACTS.dealt == 0 or rows < FACTS.dealt):
        return Work(outputs, outputs, count, form, runs=batch * count)
    return Work(outputs, outputs, rows, form, runs=batch * count * min(rows, FACTS.dealt))


def _lines(lines: int, outputs: int, k: int, extra: int, then: Work | None = None) -> Work:
    """The work of lines of so many outputs each, which all cores share one after the other, by twos or fours."""
    width, form = (FACTS.block, "vector") if outputs > FACTS.narrow else (2, "narrow")
    pieces = -(-outputs // width)
    computed = lines * pieces * width
    lost = (computed - lines * outputs) * k + computed * extra
    return Work(lines * outputs * k, computed, pieces, form, lost, lines * min(pieces, FACTS.dealt), then)
