"""Sums of products: blocks as operators declare them, in C as in Python, in an order that is written down again."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pytest

from deployer.core.access import Access, Dim
from deployer.core.ir import AttrValue
from deployer.core.operator import Array, registry
from deployer.core.samples import Sample
from deployer.operators.base.sums import PRODUCTS, block_of, is_single, quantum_of
from deployer.running.build import COMMON
from deployer.testing.bench import BenchStep, bits, run_step, step_of
from deployer.tilers.levels.grid import grid_of, tile_sizes

pytestmark = pytest.mark.host
Pair = tuple[np.float32, np.float32]
Blocks = Iterable[Sequence[Pair]]


def test_the_constant_is_that_of_c() -> None:
    """The products of a block stand in C as in Python."""
    header = (COMMON / "include/products_f32.h").read_text()
    assert re.findall(r"^#define PRODUCTS_BLOCK (\d+)u", header, re.MULTILINE) == [str(PRODUCTS)]


def test_block_lengths() -> None:
    """As many elements as have that many products together, at least one, at most all."""
    assert [block_of(1000, each) for each in (1, 9, 25, 72, 73, 144, 145, 400)] == [144, 16, 5, 2, 1, 1, 1, 1]
    assert [block_of(size, 9) for size in (1, 15, 16, 17)] == [1, 15, 16, 16]
    assert [is_single(size, 9) for size in (1, 15, 16, 17)] == [True, True, True, False]
    assert [quantum_of(size, 9) for size in (1, 15, 16, 17)] == [1, 1, 1, 16]


def ordered(blocks: Blocks) -> np.float32:
    """The total: each block ascending from zero with one rounding per product, then the blocks; nothing is zero."""
    total = None
    for pairs in blocks:
        block = np.float32(0)
        for a, b in pairs:
            block = np.float32(np.float64(a) * np.float64(b) + np.float64(block))
        total = block if total is None else np.float32(total + block)
    return np.float32(0) if total is None else total


def cut(size: int, length: int) -> Iterator[range]:
    """The indices of a dim in blocks of that length."""
    return (range(i, min(i + length, size)) for i in range(0, size, length))


def outputs(shape: tuple[int, ...], blocks: Callable[..., Blocks]) -> Array:
    """All elements of a result from the blocks of each."""
    return np.array([ordered(blocks(*index)) for index in np.ndindex(*shape)], np.float32).reshape(shape)


def normal(*shapes: tuple[int, ...]) -> list[Array]:
    """Arrays of normal numbers."""
    draw = np.random.default_rng(3)
    return [draw.standard_normal(shape).astype(np.float32) for shape in shapes]


def kernel(name: str, inputs: Sequence[Array], attrs: dict[str, AttrValue] | None = None) -> BenchStep:
    """An operator on these inputs."""
    return step_of(registry()[name], Sample("order", tuple(inputs), attrs or {}, onnx=False))


@pytest.mark.parametrize("length", [1, 144, 145, 300, 433])
def test_matrix_product(length: int) -> None:
    """Blocks of 144 along k."""
    a, b = normal((2, length), (length, 3))
    expected = outputs((2, 3), lambda m, n: ([(a[m, k], b[k, n]) for k in block] for block in cut(length, 144)))
    step = kernel("Gemm", (a, b))
    assert bits(run_step(step, step.access.sizes)[0]) == bits(expected)


X, W, STRIDES, PAD = (2, 35, 5, 6), (33, 35, 3, 3), (2, 1), 1
"""A convolution whose sums, and those of its dX, are several blocks; its Y has 3 rows of 6."""


def test_convolution() -> None:
    """Blocks of 16 channels under nine taps."""
    x, w = normal(X, (2, *W[1:]))
    padded = np.pad(x, ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD)), constant_values=np.nan)

    def blocks(n: int, m: int, row: int, column: int) -> Blocks:
        for channels in cut(X[1], 16):
            taps = itertools.product(channels, range(3), range(3))
            pairs = [(padded[n, c, 2 * row + i, column + j], w[m, c, i, j]) for c, i, j in taps]
            yield [pair for pair in pairs if not np.isnan(pair[0])]

    step = kernel("Conv", (x, w), {"strides": STRIDES, "pads": (PAD,) * 4})
    assert bits(run_step(step, step.access.sizes)[0]) == bits(outputs((2, 2, 3, 6), blocks))


def test_gradient_of_x() -> None:
    """Blocks of 24 outputs: at most two rows of three taps meet an element."""
    dy, w = normal((1, 33, 3, 6), (33, 2, 3, 3))

    def blocks(n: int, c: int, row: int, column: int) -> Blocks:
        for channels in cut(33, 24):
            pairs = []
            for m, i, j in itertools.product(channels, range(3), range(3)):
                top, left = row + PAD - i, column + PAD - j
                if top % 2 == 0 and 0 <= top // 2 < 3 and 0 <= left < 6:
                    pairs.append((dy[n, m, top // 2, left], w[m, c, i, j]))
            yield pairs

    step = kernel("ConvGradX", (dy, w), {"strides": STRIDES, "pads": (PAD,) * 4, "input_shape": X[2:]})
    assert bits(run_step(step, step.access.sizes)[0]) == bits(outputs((1, 2, 5, 6), blocks))


@pytest.mark.parametrize(
    ("size", "pad", "rows", "columns"), [((20, 13), 1, 11, 13), ((3, 150), 1, 1, 144), ((22, 12), 12, 4, 34)]
)
def test_gradient_of_w(size: tuple[int, int], pad: int, rows: int, columns: int) -> None:
    """Blocks of whole rows of an image, or of 144 columns of a longer row; a block without a row in X is none."""
    high, wide = (length + 2 * pad - 2 for length in size)
    dy, x = normal((2, 1, high, wide), (2, 1, *size))

    def blocks(m: int, c: int, i: int, j: int) -> Blocks:
        begun = False
        for n, these, part in itertools.product(range(2), cut(high, rows), cut(wide, columns)):
            inside = [row for row in these if 0 <= row + i - pad < size[0]]
            if inside or not begun:
                places = itertools.product(inside, [column for column in part if 0 <= column + j - pad < size[1]])
                yield [(dy[n, m, row, at], x[n, c, row + i - pad, at + j - pad]) for row, at in places]
            begun = True

    step = kernel("ConvGradW", (dy, x), {"pads": (pad,) * 4, "kernel_shape": (3, 3)})
    assert bits(run_step(step, step.access.sizes)[0]) == bits(outputs((1, 1, 3, 3), blocks))


TINY = np.float32(1e-30)
"""The product of two of these is zero, with a sign."""


@pytest.mark.parametrize("tile", [1, 2, 3, 5, 9])
def test_negative_zero(tile: int) -> None:
    """Negative products that vanish leave a negative zero, unless the first block lies in padding."""
    dy, x = np.full((2, 1, 34, 34), -TINY), np.full((2, 1, 28, 28), TINY)
    step = kernel("ConvGradW", (dy, x), {"pads": (4,) * 4, "kernel_shape": (3, 3)})
    whole = run_step(step, step.access.sizes)[0]
    assert not whole.any()
    assert np.signbit(whole).sum() not in (0, whole.size)
    sizes = {**step.access.sizes, "n": 1, "oh": step.access.dim("oh").rounded(tile)}
    assert bits(run_step(step, sizes)[0]) == bits(whole)


@pytest.mark.parametrize("length", [144, 300])
def test_negative_zero_of_a_matrix_product(length: int) -> None:
    """It is left by one block and by several: the first is the total, and is not added to a zero."""
    step = kernel("Gemm", (np.full((2, length), -TINY), np.full((length, 3), TINY)))
    for tile in (length, 144):
        [y] = run_step(step, {**step.access.sizes, "k": tile})
        assert not y.any()
        assert np.signbit(y).all()


@pytest.mark.parametrize("quantum", [2, 3, 7])
def test_tiles_end_with_blocks(quantum: int) -> None:
    """Lengths are the whole, or multiples of the quantum; in the sum outside of such a dim tiles have length 1."""
    for size in range(1, 60):
        lengths = tile_sizes(size, 9, quantum)
        assert lengths == sorted(set(lengths), reverse=True)
        assert lengths[0] == size
        assert all(length % quantum == 0 for length in lengths[1:])
        assert len(lengths) == 1 or lengths[-1] == quantum
    dims = (Dim("n", 3, "reduction"), Dim("k", 5 * quantum, "reduction", quantum), Dim("r", 4, "reduction"))
    grid = grid_of(Access(dims, ()))
    found = {tuple(grid.tile(i).values()) for i in range(grid.size)}
    assert (1, quantum, 4) in found
    assert all(k == 5 * quantum or (n == 1 and k % quantum == 0) for n, k, _ in found)
    assert {r for _, _, r in found} == {4}
