"""The work of kernels that take several ways: blocks, lines and rectangles, each output and tap once."""

import numpy as np
import pytest

from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Sample, Work, registry
from DeployTest.support.kernels.kernel_bench import step_of

pytestmark = [pytest.mark.host, pytest.mark.kernels]


def work_of(name: str, *shapes: tuple[int, ...], **attrs: int | tuple[int, ...]) -> Work:
    """The work of an operator in one tile, over ones of these shapes."""
    operator = registry()[name]
    step = step_of(operator, Sample("work", tuple(np.ones(shape, np.float32) for shape in shapes), dict(attrs)))
    return operator.work(step.node, step.access, step.access.sizes)


@pytest.mark.parametrize(
    ("outputs", "channels", "form"), [(32, 8, "pointwise"), (32, 6, "taps"), (3, 8, "taps"), (4, 4, "taps")]
)
def test_when_single_taps_are_squares(outputs: int, channels: int, form: str) -> None:
    """The gradient of W with one tap is a product in squares of outputs and channels, where these are enough blocks."""
    work = work_of("ConvGradW", (1, outputs, 10, 10), (1, channels, 10, 10), kernel_shape=(1, 1))
    assert (work.form, work.macs) == (form, outputs * channels * 100)


def test_a_product_in_phases() -> None:
    """Whole blocks, then what is left of rows and of columns in lines, each output once."""
    phases, work = [], work_of("Gemm", (10, 7), (7, 21))
    while work:
        phases.append((work.form, work.macs))
        work = work.then
    assert phases == [("matrix", 8 * 20 * 7), ("vector", 2 * 21 * 7), ("narrow", 8 * 7)]


def test_lines_of_a_product() -> None:
    """Narrow products are lines, which begin anew on each core: of 3 x 2 outputs in a batch of 4, 12 of 2 pairs."""
    work = work_of("Gemm", (4, 3, 5), (4, 5, 2))
    assert (work.form, work.parallel, work.runs) == ("narrow", 2, 8 * 2)
    assert work.macs == 4 * 3 * 2 * 5
    assert work.products == 4 * 2 * 4 * 5, "three outputs are two pairs"


@pytest.mark.parametrize("pad", [0, 1])
def test_taps_in_padding_cost_nothing(pad: int) -> None:
    """Rectangles of a layer count the taps that lie inside of X, and of single outputs FACTS.single more."""
    work = work_of("Conv", (1, 16, 5, 7), (16, 16, 3, 3), pads=(pad,) * 4)
    inner = 9 * (15 + 3 * FACTS.single)  # three rows of five outputs: three blocks of four and three single ones
    edges = 112 * (1 + FACTS.single)  # two rows and two columns of six taps, four corners of four: no block of four
    assert work.form == "dense"
    assert work.products == round(16 * 16 * (inner + edges if pad else inner))
    assert work.macs == 16 * 16 * 9 * ((5 + 2 * pad - 2) * (7 + 2 * pad - 2)), "what is useful counts all taps"


def test_depthwise_planes() -> None:
    """Planes are dealt out whole where 8 times their turns are at most 3 times those of their rows of taps.

    Else the rows are dealt out; planes of one row, and sums of several blocks, take longer code.
    """
    expected = {
        (1, 16, 6, 6): "depthwise",  # 2 turns, 6 of rows
        (1, 12, 6, 6): "by_rows",  # 2 turns, 5 of rows
        (1, 16, 1, 6): "nine",
        (1, 16, 24, 24): "nine",
    }
    for shape, form in expected.items():
        attrs = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "group": shape[1]}
        assert work_of("ConvGradW", shape, shape, **attrs).form == form, shape


@pytest.mark.parametrize(("columns", "form"), [(8, "pointwise"), (4, "uneven")])
def test_parts_of_rows_are_no_matrix(columns: int, form: str) -> None:
    """Single taps of whole rows are a product in blocks; of parts of rows they are not, wherever operands live."""
    operator = registry()["Conv"]
    shapes = (1, 16, 8, 8), (16, 16, 1, 1)
    step = step_of(operator, Sample("work", tuple(np.ones(shape, np.float32) for shape in shapes)))
    assert operator.work(step.node, step.access, step.access.sizes | {"ow": columns}).form == form
