"""The order of a sum of products: blocks, each ascending by fmaf from zero, are added in order; the first is the total.

`products_f32.h` has the same for kernels. Where a sum is several blocks a tile ends where one does, so that one float
waits between tiles: the total. Where it is a single one, which may wait itself, a tile may end anywhere.
"""

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
