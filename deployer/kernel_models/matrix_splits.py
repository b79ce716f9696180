"""Work splits of products of matrices and of updates by outer products: blocks, lines and strips over cores."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from deployer.core.access import Access, At, Axis, Operand
from deployer.core.ir import Node
from deployer.core.kernel import ArgValue, Const, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import operator_of
from deployer.operators.base.epilogue import GATE, extra_work, has_relu
from deployer.operators.base.sums import is_single
from deployer.operators.base.work_split import CostModel, Tile, WorkSplit, register_split
from deployer.operators.products.gemm import SINGLE, outer_class
from deployer.operators.products.joint_gemm import JointGemm


class EpilogueCost(NamedTuple):
    """Epilogue cost of a complete sum, in multiply-accumulates for each output of a block, and of a line."""

    block: int
    line: int


def finish_of(node: Node, access: Access, model: KernelModel) -> EpilogueCost:
    """Return the cost of the node's epilogue: a product with alpha, C, Relu, a gate."""
    arguments = {operand.arg for operand in access.operands}
    fused = (node.attr_float("alpha", 1.0) != 1.0, "c" in arguments, has_relu(node), GATE in arguments)
    block, line = (
        sum(cost for cost, is_there in zip(costs, fused, strict=True) if is_there)
        for costs in (model.epilogue_block_macs, model.epilogue_line_macs)
    )
    return EpilogueCost(block, line + model.epilogue_line_start * any(fused))


def lie_beside(access: Access) -> bool:
    """Whether the elements of A, and those of B, that an output takes lie beside each other."""

    def innermost(operand: Operand) -> list[Axis]:
        return [axis for axis, size in zip(operand.axes, operand.view, strict=True) if size > 1][-1:]

    return all(innermost(access.operand(name)) in ([], [At("k")]) for name in ("a", "b"))


def products(batch: int, m: int, n: int, k: int, epilogue: EpilogueCost, beside: bool, model: KernelModel) -> Work:
    """The work of `batch` products of m rows and n columns over k: blocks of 4 x 4 outputs, and lines of what is left.

    All is lines where rows or columns do not fill a block. `beside` is what `lie_beside` says.
    """
    if batch == m == 1:
        return _vector(n, k, epilogue.line, beside, model)
    if min(m, n) < model.block:
        return _lines(batch * min(m, n), max(m, n), k, epilogue.line, model)
    rows, columns = (size % model.block for size in (m, n))
    if not rows and not columns:
        return blocks(batch, m, n, k, epilogue, model)
    whole = m // model.block
    fewest = model.rounds(batch * whole * (n // model.block))
    pieces = model.rounds(batch * rows * model.blocks(n)) + model.rounds(batch * columns * whole)
    return _edged(batch * m * n, fewest * model.block**2, pieces * model.block, k, epilogue, model)


def blocks(batch: int, m: int, n: int, k: int, epilogue: EpilogueCost, model: KernelModel) -> Work:
    """The same by blocks alone, the last of which overlap others."""
    count = batch * model.blocks(m) * model.blocks(n)
    computed = count * model.block**2
    overhead_macs = (computed - batch * m * n) * k + computed * epilogue.block
    return Work(batch * m * n * k, computed, count, "matrix", overhead_macs)


def in_products(node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
    """The work of a tile, as `products` counts it."""
    batch, m, n, k = (tile[name] for name in ("batch", "m", "n", "k"))
    return products(batch, m, n, k, finish_of(node, access, model), lie_beside(access), model)


def in_blocks(node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
    """The work of a tile by blocks alone: functions for some calls say that they take them so."""
    batch, m, n, k = (tile[name] for name in ("batch", "m", "n", "k"))
    return blocks(batch, m, n, k, finish_of(node, access, model), model)


def strips(batch: int, rows: int, columns: int, cost_class: str, model: KernelModel) -> Work:
    """The work of outer products: strips of columns that cores share whole, or of which each takes some rows."""
    width = model.block if cost_class == "added" else 2 * model.block
    count, outputs = -(-columns // width), batch * rows * columns
    if count >= model.cores_assumed and (count % model.cores_assumed == 0 or rows < model.cores_assumed):
        return Work(outputs, outputs, count, cost_class, inner_loop_starts=batch * count)
    return Work(outputs, outputs, rows, cost_class, inner_loop_starts=batch * count * min(rows, model.cores_assumed))


def _edged(outputs: int, in_blocks: int, in_lines: int, k: int, epilogue: EpilogueCost, model: KernelModel) -> Work:
    """The work of so many outputs of which a core has some in blocks and, at their edges, some in lines."""
    products = in_blocks * (k + epilogue.block) + round(in_lines * (model.line_mac_cost * k + epilogue.line))
    elements = (in_blocks + in_lines) * model.cores_assumed
    return Work(outputs * k, elements, model.cores_assumed, "edged", products * model.cores_assumed - outputs * k)


def _lines(lines: int, outputs: int, k: int, extra: int, model: KernelModel) -> Work:
    """The work of lines of so many outputs each, of which cores are dealt fours."""
    pieces = lines * model.blocks(outputs)
    computed = pieces * model.block
    overhead_macs = (computed - lines * outputs) * k + computed * extra
    return Work(lines * outputs * k, computed, pieces, "lines", overhead_macs)


def _vector(outputs: int, k: int, extra: int, beside: bool, model: KernelModel) -> Work:
    """The work of a line by itself, which cores share by fours or by twos; the latter differ by how factors lie."""
    narrow = "narrow" if beside else "apart"
    width, cost_class = (model.block, "vector") if outputs > model.narrow_outputs else (2, narrow)
    pieces = -(-outputs // width)
    computed = pieces * width
    overhead_macs = (computed - outputs) * k + computed * extra
    return Work(outputs * k, computed, pieces, cost_class, overhead_macs, min(pieces, model.cores_assumed))


FEW = ("few", "few_rows")
"""Forms of few products."""


def _product_class(node: Node, access: Access, model: KernelModel) -> str:
    """Cost class of outer products and of few products, by the sizes of the whole; "" where tiles decide.

    Of few products, those of a vector and a matrix are "few", and outer products "few_rows".
    """
    batch, m, n, k = (access.dim(name).size for name in ("batch", "m", "n", "k"))
    outer = outer_class(node, access)
    if batch > 1 or m * n * k > model.few_macs:
        return outer
    if outer:
        return "few_rows" if outer == "outer" else outer
    return "few" if m == 1 and is_single(k) else ""


@register_split
class GemmSplit(WorkSplit):
    """Products of matrices."""

    kernel = "gemm_f32"
    cost_models: ClassVar[Mapping[str, CostModel]] = {"blocks": in_blocks}

    def arguments(self, node: Node, access: Access, model: KernelModel) -> dict[str, ArgValue]:
        """Few products take code of their own."""
        cost_class = _product_class(node, access, model)
        return {"single": Const(SINGLE[cost_class])} if cost_class in FEW else {}

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """One multiply-accumulate per point, one more operation per output, by the cost class."""
        batch, m, n, k = (tile[name] for name in ("batch", "m", "n", "k"))
        cost_class, outputs = _product_class(node, access, model), batch * m * n
        if cost_class in FEW:
            overhead_macs = outputs * extra_work(node, access)
            return Work(outputs * k, outputs, batch * m * (n if cost_class == "few" else 1), cost_class, overhead_macs)
        return strips(batch, m, n, cost_class, model) if cost_class else in_products(node, access, tile, model)


def _together(node: Node, access: Access, tile: Tile, model: KernelModel, whole: bool) -> Work:
    """The work of products in one call, one after the other on every core, by blocks alone if all are `whole`."""
    operator = operator_of(node)
    assert isinstance(operator, JointGemm)
    found = []
    for i, (m, n, k) in enumerate(operator.sizes(node, access, tile)):
        is_sum = operator.adds(access, i)
        extra = EpilogueCost(model.epilogue_block_macs[1], model.epilogue_line_start + model.epilogue_line_macs[1])
        epilogue = extra if is_sum else EpilogueCost(0, 0)
        of_one = blocks(1, m, n, k, epilogue, model) if whole else products(1, m, n, k, epilogue, False, model)
        found.append(of_one)
    cores = model.cores_assumed
    macs = sum(work.macs for work in found)
    computed = round(sum(work.products * cores * model.rounds(work.parallel) / work.parallel for work in found))
    elements = round(sum(work.elements * cores * model.rounds(work.parallel) / work.parallel for work in found))
    classes = {work.cost_class for work in found}
    cost_class = classes.pop() if len(classes) == 1 else "edged"
    shared = cores * sum(work.parallel for work in found)  # what is counted is the busiest core's, times the cores
    return Work(macs, elements, shared, cost_class, computed - macs, cores * len(found))


def together(node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
    """The work of a tile by blocks alone: functions for some calls say that they take all products so."""
    return _together(node, access, tile, model, True)


@register_split
class JointGemmSplit(WorkSplit):
    """Products that share an operand or a result."""

    kernel = "gemms_f32"
    cost_models: ClassVar[Mapping[str, CostModel]] = {"blocks": together}

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """The work of each, on the core that has most of it."""
        return _together(node, access, tile, model, False)


@register_split
class OuterSGDSplit(WorkSplit):
    """Updates by outer products."""

    kernel = "outer_sgd_f32"

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """One product per weight; cores share rows of a block's columns."""
        m, n = tile["m"], tile["n"]
        return Work(macs=m * n, elements=0, parallel=m * model.blocks(n))
