"""Order of sums: products in blocks, and partial sums that an extra kernel operand carries across tiles."""

from deployer.core.access import Access, Operand, Whole
from deployer.core.ir import Node
from deployer.core.kernel import ArgValue, Const, CType, Kernel, Start
from deployer.core.traits.execution import CARRIED, Sums

LONGEST_ROW = 1024
"""Elements of a row that every tile may have whole; longer rows are lowered to steps that tiles cut anywhere.

Nodes are lowered before a target is known, so that all targets compute the same graph.
"""

# Partial sums that wait between tiles, in an extra kernel operand; `sum_f32.h` defines their order.

CARRY = (CARRIED, "float32", True)
"""The last pointer of such a kernel: low part of the total, open group and open block of each sum, per element."""
CARRY_SCALARS: tuple[tuple[str, CType], ...] = (("start", "u32"),)
"""Where in its row a tile begins."""


def operand_pointers(kernel: Kernel) -> list[tuple[str, str, bool]]:
    """The kernel's pointers besides what it carries."""
    return [pointer for pointer in kernel.pointers if pointer != CARRY]


def result_count(kernel: Kernel) -> int:
    """Number of outputs of the kernel, excluding carried partial sums."""
    return sum(is_output for _, _, is_output in operand_pointers(kernel))


def carry_operands(node: Node, kernel: Kernel, sums: Sums | None, result: Operand) -> tuple[Operand, ...]:
    """The operand behind `carry`, where the node has that output: a row of floats per element of `result`."""
    results = result_count(kernel)
    if sums is None or len(node.outputs) <= results:
        return ()
    view, axes = (*result.view, sums.carried), (*result.axes, Whole())
    return (Operand(CARRIED, node.outputs[results], "out", view, axes),)


def carry_args(sums: Sums | None, access: Access) -> dict[str, ArgValue]:
    """The scalars of CARRY_SCALARS."""
    if sums is None:
        return {}
    dim = next((name for name in reversed(sums.dims) if name in access.sizes), "")
    return {"start": Start(dim) if dim else Const(0)}


# The order of a sum of products: blocks, each ascending by fmaf from zero, are added in order; the first is the total.
#
# `products_f32.h` has the same for kernels. Where a sum is several blocks a tile ends where one does, so that one float
# waits between tiles: the total. Where it is a single one, which may wait itself, a tile may end anywhere.

PRODUCTS = 144
"""Most products of a block, but where a single element has more: those of 16 channels under a window of 3 x 3."""


def is_single(size: int, products: int = 1) -> bool:
    """Whether all elements of a dim make one block, where each stands for so many products."""
    return size * products <= PRODUCTS


def block_of(size: int, products: int = 1) -> int:
    """Elements of a dim that make a block."""
    return min(size, max(PRODUCTS // products, 1))


def quantum_of(size: int, products: int = 1) -> int:
    """The quantum of a dim that is all of a sum."""
    return 1 if is_single(size, products) else block_of(size, products)
