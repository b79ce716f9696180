"""Products that share an operand or their result, in one call: blocks with and without rests, sums of several."""

from collections.abc import Iterator

from deployer.calibration.measure import KernelJob
from deployer.core.ir import AttrValue
from DeployTest.support.kernels.kernel_jobs import hard, whole_job

SHAPES = (
    *((8, 12, (8, 4, 12)), (16, 160, (8, 8)), (7, 9, (5, 3, 6)), (6, 170, (9, 5)), (1, 20, (4, 4))),
    *((13, 24, (12, 24, 12)), (8, 8, (160, 8)), (9, 8, (160, 9))),
)
"""Two lengths that all products have in common, and the third of each."""


def joint_jobs() -> Iterator[KernelJob]:
    """Rows, columns and terms as every operator has them."""
    for first, second, apart in SHAPES:
        label = f"{first}x{second}x{'x'.join(map(str, apart))}"
        swapped: dict[str, AttrValue] = {"transB": 1}
        x = hard(0, first * second).reshape(first, second)
        weights = tuple(hard(i + 1, n * second).reshape(n, second) for i, n in enumerate(apart))
        yield whole_job("ProductsOfA", label, (x, *weights), swapped, len(apart))
        slopes = tuple(hard(i + 1, first * n).reshape(first, n) for i, n in enumerate(apart))
        yield whole_job("ProductsOfB", label, (x, *slopes), {"transA": 1}, len(apart))
        rights = tuple(hard(i + 4, n * second).reshape(n, second) for i, n in enumerate(apart))
        pairs = tuple(x for pair in zip(slopes, rights, strict=True) for x in pair)
        yield whole_job("SumOfProducts", label, pairs, {})
        yield whole_job("SumOfProducts", f"{label}+c", (*pairs, hard(9, first * second).reshape(first, second)), {})
