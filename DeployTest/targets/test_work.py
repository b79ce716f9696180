"""The work of kernels that take several ways: blocks, lines and rectangles, each output and tap once."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from deployer.calibration.sweep import FEW, sweep_calls
from deployer.core.cost import cost_key
from deployer.core.ir import AttrValue
from deployer.core.kernel import Kernel, Work
from deployer.core.operator import registry
from deployer.core.plan import Step
from deployer.core.samples import Sample
from deployer.core.target import load
from deployer.kernel_variants.costs import CostedWork, StepCosts
from deployer.lr_schedules.run_time import kernel_args
from deployer.operators.base.epilogue import RELU
from deployer.testing.bench import kernel_model, step_of

pytestmark = [pytest.mark.host, pytest.mark.kernels]
MODEL = kernel_model()


def work_of(name: str, *shapes: tuple[int, ...], **attrs: AttrValue) -> Work:
    """The work of an operator in one tile on Siracusa, over ones of these shapes."""
    return costed(name, shapes, {}, attrs).work


def code_of(name: str, *shapes: tuple[int, ...], **attrs: AttrValue) -> str:
    """The key of its cost without the kernel's symbol: a function for such calls, where there is one, and a form."""
    return _code(name, costed(name, shapes, {}, attrs))


def costed(
    name: str, shapes: Sequence[tuple[int, ...]], tile: Mapping[str, int], attrs: Mapping[str, AttrValue]
) -> CostedWork:
    """The work of an operator over ones in one tile of so many of some dims, and to which function it belongs."""
    operator = registry()[name]
    made = step_of(operator, Sample("work", tuple(np.ones(shape, np.float32) for shape in shapes), dict(attrs)))
    arguments = kernel_args(made.node, made.access, MODEL)
    step = Step(0, "infer", made.node, _kernel(name), made.access, arguments, 0)
    return StepCosts(step, load("siracusa")).of(step.access.sizes | tile)


def _kernel(name: str) -> Kernel:
    kernel = registry()[name].kernel
    assert kernel is not None
    return kernel


def _code(name: str, found: CostedWork) -> str:
    return cost_key(found.code, found.work.cost_class).removeprefix(_kernel(name).symbol).removeprefix(".")


@pytest.mark.parametrize(
    ("outputs", "channels", "code"), [(32, 8, "rows"), (33, 8, "taps"), (32, 6, "taps"), (3, 8, "taps"), (4, 4, "taps")]
)
def test_when_single_taps_are_blocks(outputs: int, channels: int, code: str) -> None:
    """The gradient of W with one tap is a product in whole blocks of outputs and channels, where these are enough."""
    shapes = (1, outputs, 10, 10), (1, channels, 10, 10)
    assert code_of("ConvGradW", *shapes, kernel_shape=(1, 1)) == code
    assert work_of("ConvGradW", *shapes, kernel_shape=(1, 1)).macs == outputs * channels * 100


def test_a_product_with_edges() -> None:
    """Whole blocks, two for a core at most, then a row of six pieces and a column of two, one for a core each."""
    work = work_of("Gemm", (9, 140), (140, 21))
    assert (work.cost_class, work.macs) == ("edged", 9 * 21 * 140)
    assert work.products == work.parallel * (2 * 16 + 2 * 4 * MODEL.line_mac_cost) * 140


@pytest.mark.parametrize(("inner", "tile", "form"), [(7, 7, "matrix"), (7, 6, "edged"), (145, 145, "edged")])
def test_blocks_that_overlap(inner: int, tile: int, form: str) -> None:
    """Three by six blocks have all of 10 x 21 outputs, some twice; not where sums wait in these, or have two blocks."""
    work = costed("Gemm", ((10, inner), (inner, 21)), {"k": tile}, {}).work
    assert (work.cost_class, work.macs) == (form, 10 * 21 * tile)
    if form == "matrix":
        assert (work.parallel, work.products) == (3 * 6, 3 * 6 * 16 * tile)


def test_lines_of_a_product() -> None:
    """Narrow products are lines, whose fours are dealt out: of 3 x 2 outputs in a batch of 4 one for each column."""
    work = work_of("Gemm", (4, 3, 5), (4, 5, 2))
    assert (work.cost_class, work.parallel) == ("lines", 4 * 2)
    assert work.macs == 4 * 3 * 2 * 5
    assert work.products == 4 * 2 * 4 * 5, "three outputs are four"


@pytest.mark.parametrize(
    ("turned", "outputs", "code"),
    [(0, 16, "line.apart"), (1, 16, "line.narrow"), (0, 17, "line.vector"), (1, 17, "line.vector")],
)
@pytest.mark.parametrize("upright", [0, 1])
def test_few_outputs_know_how_their_factors_lie(turned: int, outputs: int, code: str, upright: int) -> None:
    """The loop that shares outputs by twos takes less where B has the factors of an output beside each other.

    A single row of A is the same either way round.
    """
    shapes = (60, 1) if upright else (1, 60), (outputs, 60) if turned else (60, outputs)
    assert code_of("Gemm", *shapes, transA=upright, transB=turned) == code


def test_rows_of_which_tiles_have_one_lie_apart() -> None:
    """One row of a matrix that is stored by columns is no row of neighbours."""
    assert _code("Gemm", costed("Gemm", ((60, 8), (16, 60)), {"m": 1}, {"transA": 1, "transB": 1})) == "line.apart"


@pytest.mark.slow
def test_both_sorts_of_few_outputs_are_measured() -> None:
    """Calibration has enough calls of each sort for costs of their own, of short sums and of long ones."""
    keys = Counter(call.key for call in sweep_calls(load("siracusa")) if call.job.kernel.symbol == "gemm_f32")
    forms = [f"gemm_f32.{function}.{form}" for function in ("line", "long_line") for form in ("narrow", "apart")]
    assert min(keys[form] for form in forms) >= FEW


@pytest.mark.parametrize(("rows", "epilogue"), [(8, MODEL.epilogue_block_macs), (1, MODEL.epilogue_line_macs)])
def test_what_finishes_a_sum(rows: int, epilogue: tuple[int, ...]) -> None:
    """Alpha, C and Relu are more work for each output, more of it in a line, which also begins to be finished."""
    plain, *finished = (
        work_of("Gemm", *shapes, **attrs).products
        for shapes, attrs in (
            (((rows, 80), (80, 32)), {}),
            (((rows, 80), (80, 32)), {"alpha": 0.5}),
            (((rows, 80), (80, 32), (32,)), {}),
            (((rows, 80), (80, 32)), {"activation": RELU}),
        )
    )
    begin = MODEL.epilogue_line_start if rows == 1 else 0
    assert [work - plain for work in finished] == [rows * 32 * (begin + part) for part in epilogue[:3]]


def test_the_core_with_the_most_decides() -> None:
    """Blocks of rectangles are dealt out in turn: 12 of single outputs, then 12 of four, 3 for each core.

    Cores 4 to 7 have one of the former and two of the latter.
    """
    found = costed("Conv", ((1, 16, 5, 7), (16, 16, 3, 3)), {}, {})
    work = found.work
    assert (_code("Conv", found), work.macs, work.parallel) == ("threes", 16 * 16 * 9 * 15, 24)
    costs = zip((16, 4), MODEL.unrolled_mac_cost, strict=False)
    four, single = (9 * sums * each + MODEL.row_overhead for sums, each in costs)
    assert work.products == round(16 * (single + 2 * four) * 24 / 3)


@pytest.mark.parametrize(("outputs", "taps"), [(4, 2 * 3 * 11), (16, 2 * (2 + 3 + 3 + 3) * 11)])
def test_taps_in_padding_cost_nothing(outputs: int, taps: int) -> None:
    """Eight rows of two fours, which lack a column of a tap: with 4 channels a core has two whole rows, at the least.

    With 16, cores 0 to 3 have rows 0, 2, 4 and 6, and the others 1, 3, 5 and 7: each one of the border.
    """
    shapes = (1, 16, 8, 8), (outputs, 16, 3, 3)
    work = work_of("Conv", *shapes, pads=(1,) * 4)
    assert code_of("Conv", *shapes, pads=(1,) * 4) == "fours"
    assert work.macs == 16 * outputs * 9 * 64, "what is useful counts all taps"
    assert work.products == 8 * 16 * 4 * taps
    assert (work.parallel, work.inner_loop_starts) == (4 * outputs, 4 * outputs)


@pytest.mark.parametrize(("rows", "taps"), [(8, 11), (4, 2 * 3), (2, 3), (1, 3)])
def test_tiles_between_others_have_no_border(rows: int, taps: int) -> None:
    """Of three tiles and more most lie in the middle, so none is cheaper for the padding of the first one."""
    found = costed("Conv", ((1, 16, 8, 8), (16, 16, 3, 3)), {"oh": rows}, {"pads": (1,) * 4})
    assert _code("Conv", found) == "fours"
    assert found.work.products == 8 * 16 * 4 * 2 * taps * 11 // (2 if rows == 1 else 1)


def test_blocks_of_a_sum() -> None:
    """An inner loop begins for each block of a sum: of 144 products, over channels or rows."""
    for channels, sums in ((16, 1), (17, 2), (64, 4)):
        found = costed("Conv", ((1, channels, 8, 8), (8, channels, 3, 3)), {}, {"pads": (1,) * 4})
        assert (_code("Conv", found), found.work.inner_loop_starts) == ("fours", found.work.parallel * sums)
    for rows, sums in ((4, 1), (8, 2), (9, 3)):
        shapes = (1, 16, rows, 32), (1, 16, rows, 32)
        found = costed("ConvGradW", shapes, {}, {"kernel_shape": (3, 3), "pads": (1,) * 4})
        assert (_code("ConvGradW", found), found.work.inner_loop_starts) == ("pairs.dense", found.work.parallel * sums)


def test_single_outputs_of_a_gradient() -> None:
    """With too few blocks of four outputs, one per row of taps, each output is computed by itself, without pairs."""
    for channels, code, inner_loop_starts in ((1, "threes.alone", 16 * 3), (2, "pairs.dense", 4 * 2 * 3)):
        shapes = (1, 16, 6, 10), (1, channels, 6, 10)
        found = costed("ConvGradW", shapes, {}, {"kernel_shape": (3, 3), "pads": (1,) * 4})
        assert (_code("ConvGradW", found), found.work.parallel) == (code, inner_loop_starts)


def test_planes_of_neighbours() -> None:
    """In the gradient of X with strides of two, outputs of one plane are neighbours; a single row has two planes."""
    attrs: dict[str, AttrValue] = {"strides": (2, 2), "pads": (1,) * 4, "input_shape": (8, 8)}
    for rows, planes in ((8, 4), (1, 2)):
        found = costed("ConvGradX", ((1, 8, 4, 4), (8, 8, 3, 3)), {"ih": rows}, attrs)
        work = found.work
        each, busiest = 16 * work.parallel, -(-work.parallel // MODEL.cores_assumed)
        assert _code("ConvGradX", found) == "thinned"
        assert work.elements == each + MODEL.plane_setup_elements * (planes - 1) * work.parallel // busiest


def test_channels_and_elements() -> None:
    """A normalization deals out whole channels where cores get as many, else elements; Relu is other code."""
    expected = {(1, 16, 6, 6): "channels", (1, 12, 6, 6): "elements", (2, 16, 6, 6): "elements"}
    for shape, form in expected.items():
        assert work_of("ChannelNormalize", shape, *[shape[1:2]] * 4).cost_class == form
        assert work_of("ChannelNormalize", shape, *[shape[1:2]] * 4, activation=RELU).cost_class == f"{form}_relu"


def test_depthwise_planes() -> None:
    """Planes are dealt out whole where 8 times their turns are at most 3 times those of their rows of taps.

    Else the rows are dealt out; planes of one row, and sums of several blocks, take longer code.
    """
    expected = {
        (1, 16, 6, 6): "plane",  # 2 turns, 6 of rows
        (1, 12, 6, 6): "threes.by_rows",  # 2 turns, 5 of rows
        (1, 16, 1, 6): "nine",
        (1, 16, 24, 24): "nine",
    }
    for shape, code in expected.items():
        attrs: dict[str, AttrValue] = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "group": shape[1]}
        assert code_of("ConvGradW", shape, shape, **attrs) == code, shape


@pytest.mark.parametrize(("columns", "code"), [(8, "pointwise"), (4, "single")])
def test_parts_of_rows_are_no_matrix(columns: int, code: str) -> None:
    """Single taps of whole rows are a product in blocks; of parts of rows they are not, wherever operands live."""
    shapes = (1, 16, 8, 8), (16, 16, 1, 1)
    assert _code("Conv", costed("Conv", shapes, {"ow": columns}, {})) == code


@pytest.mark.parametrize(
    ("planes", "rows", "pieces", "busiest"),
    [(8, 6, 8, 6), (12, 6, 24, 3 * 3), (20, 3, 40, 3 * 2 + 2 * 1), (36, 3, 36, 5 * 3), (3, 8, 12, 2 * 2)],
)
def test_parts_of_depthwise_planes(planes: int, rows: int, pieces: int, busiest: int) -> None:
    """Few planes are cut into halves or quarters, which are dealt out part by part; the core with most rows decides."""
    shapes = (1, planes, rows, 8), (planes, 1, 3, 3)
    found = costed("Conv", shapes, {}, {"pads": (1,) * 4, "group": planes})
    assert found.code == "conv_f32.planes"
    assert (found.work.parallel, found.work.macs) == (pieces, planes * rows * 8 * 9)
    turns = -(-pieces // MODEL.cores_assumed)
    assert found.work.products == round(busiest * 8 * 9 * pieces / turns)


@pytest.mark.parametrize(("planes", "parts"), [(48, 1), (16, 1), (12, 2), (3, 4)])
def test_lines_of_depthwise_layers(planes: int, parts: int) -> None:
    """Six outputs that lack a tap here or there are lines by themselves; 28 taps are inside."""
    shapes = (1, planes, 3, 5), (planes, 1, 3, 3)
    found = costed("Conv", shapes, {}, {"pads": (1,) * 4, "strides": (2, 2), "group": planes})
    work = found.work
    assert (found.code, work.cost_class, work.parallel) == ("conv_f32.lines", "", planes * parts)
    assert (work.macs, work.elements) == (planes * (2 + 2) * (2 + 3 + 2), planes * 6)
    assert work.inner_loop_starts == planes * parts * 6 * (MODEL.rectangle_starts + 1)


@pytest.mark.parametrize(
    ("sides", "taps", "parts"),
    [
        ((8, 3), (2 + 3 + 3 + 3) * (2 + 2), 4),  # no window has all of its columns
        (
            (4, 7),
            (2 + 3) * (2 + 3 + 3 + 2) - 1 * 2 * 9,
            1 + 3,
        ),  # a row at the border; one with windows before and behind
        ((7, 9), (2 + 3 + 3 + 2) * (2 + 3 + 3 + 3 + 2) - 2 * 3 * 9, 2 + 2 * 3),
    ],
)
def test_maxima_at_borders(sides: tuple[int, int], taps: int, parts: int) -> None:
    """Of windows over a border the elements inside are searched; rows of windows have parts at ends that lack some."""
    counts = tuple((side + 2 - 3) // 2 + 1 for side in sides)
    attrs: dict[str, AttrValue] = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1,) * 4}
    work = work_of("MaxPoolGrad", (1, 16, *counts), (1, 16, *sides), **attrs)
    assert (work.cost_class, work.overhead_macs, work.inner_loop_starts) == ("nines", 16 * taps, 16 * parts)


def test_parts_of_columns_are_searched_one_by_one() -> None:
    """A tile that has a part of the columns has no rows of squares."""
    attrs: dict[str, AttrValue] = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1,) * 4}
    shapes = (1, 16, 4, 5), (1, 16, 8, 9)
    for columns, form in ((9, "nines"), (4, "")):
        assert costed("MaxPoolGrad", shapes, {"w": columns}, attrs).work.cost_class == form


@pytest.mark.parametrize(("columns", "inner_loop_starts"), [(20, 20), (34, 8 + 2)])
def test_sums_of_columns_begin(columns: int, inner_loop_starts: int) -> None:
    """In the gradient of a scale each column begins a sum or, where each core has four, each four."""
    work = work_of("LayerScaleGrad", (12, columns), (12, columns), (12, 1), (12, 1))
    assert (work.parallel, work.inner_loop_starts) == (inner_loop_starts, inner_loop_starts)
