"""Siracusa's kernels under GVSoC leave the bits of the portable kernels on the host."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from deployer.calibration import measure
from deployer.calibration.measure import KernelJob, Measured
from deployer.core import target
from deployer.core.access import order_dims, tiles
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import Const, Kernel
from deployer.core.operator import registry
from deployer.core.samples import Sample
from deployer.core.traits.execution import BLOCK, GROUP
from deployer.kernel_variants.conditions import variants_of
from deployer.lr_schedules.run_time import kernel_args
from deployer.operators.base.sums import PRODUCTS
from deployer.operators.products.gemm import SINGLE
from deployer.testing.bench import BenchStep, kernel_model, lawful, step_of
from DeployTest.support.kernels import border_jobs
from DeployTest.support.kernels.comparing import compare
from DeployTest.support.kernels.convolution_jobs import convolution_jobs
from DeployTest.support.kernels.int8_jobs import int8_jobs
from DeployTest.support.kernels.joint_jobs import joint_jobs
from DeployTest.support.kernels.kernel_jobs import (
    gemm_form_jobs,
    gemm_job,
    gemm_jobs,
    hard,
    loop_jobs,
    normal,
    weight_jobs,
    whole_job,
)
from DeployTest.targets.simulators import needs_compiler, needs_simulator

pytestmark = [pytest.mark.siracusa, pytest.mark.kernels]
MODEL = kernel_model()

TARGET = target.load("siracusa")
CORES = (TARGET.cores, 3)
"""A power of two, and a number that does not divide the shares."""
TOGETHER = 40
"""Kernels of one program: all of them do not fit the memory that plans leave."""
SIMULATOR = pytest.mark.usefixtures("simulator")
TILES = 3
"""Tiles per cut that are tried: the first, the second and the last."""
NANS = (0x7FC00001, 0xFFC00001, 0x7F800000, 0xFF800000, 0x3F800000, 0xBF800000)
"""Quiet NaNs of both signs with a payload, infinities, ones."""
CHANNELWISE = (
    ("ChannelMoments", 1, 3),
    ("ChannelNormalize", 1, 1),
    ("ChannelGradSums", 2, 2),
    ("ChannelNormalizeGrad", 2, 1),
)
"""Operator, inputs of X's shape, and outputs."""
PLANES = ((1, 16, 8, 4), (2, 4, 5, 3), (8, 2, 9), (3, 8, 7), (1, 24, 2), (4, 1, 33), (1, 8, 1))
"""X of which each of 8 cores gets as many rows: of several images, of every remainder of a turn, and of one element."""
ROW = 2 * GROUP * BLOCK + BLOCK + 7
PARTS = ((0, ROW), (0, BLOCK + 3), (5, ROW - 9), (BLOCK, GROUP * BLOCK), (GROUP * BLOCK, ROW - GROUP * BLOCK))
"""A long row, and parts of it that begin and end inside of blocks, between them and between groups."""
LONG: tuple[tuple[str, tuple[tuple[int, ...], ...], dict[str, AttrValue], int], ...] = (
    ("ChannelMoments", ((1, 2, ROW),), {}, 3),
    ("ChannelMoments", ((2, 1, ROW),), {}, 3),
    ("ChannelVariance", ((1, 2, ROW), (2,)), {}, 1),
    ("ChannelVariance", ((2, 1, ROW), (1,)), {}, 1),
    ("ChannelGradSums", ((1, 2, ROW), (1, 2, ROW), (2,), (2,), (2,)), {}, 2),
    ("ChannelGradSums", ((2, 1, ROW), (2, 1, ROW), (1,), (1,), (1,)), {}, 2),
    ("ReduceSum", ((2, ROW),), {"axes": (1,), "keepdims": 0}, 1),
    ("ReduceSum", ((ROW, 3),), {"axes": (0,), "keepdims": 0}, 1),
    ("ReduceSum", ((ROW, 34),), {"axes": (0,), "keepdims": 0}, 1),
    ("ReduceSum", ((2, 2, ROW),), {"axes": (0, 2), "keepdims": 0}, 1),
    ("MSELoss", ((ROW,), (ROW,)), {}, 1),
)
"""Kernels of sums of several groups: shapes of inputs, attributes, and outputs."""
OVERRIDES = sorted((target.TARGETS_DIR / "siracusa" / "kernels").glob("*"))


def _steps() -> Iterator[BenchStep]:
    for name, operator in registry().items():
        for sample in operator.samples() if name == operator.name and operator.kernel is not None else ():
            step = step_of(operator, sample)
            if step.access.dims:
                yield step


def _tile_jobs() -> Iterator[KernelJob]:
    """Every sample in one tile, in halves, and in tiles of three elements per dim that can be split, where they fit."""
    for step in _steps():
        for cut in (1, 2, 0):
            sizes = lawful(
                step.access, {d.name: -(-d.size // cut) if cut else min(3, d.size) for d in step.access.dims}
            )
            boxes = list(tiles(step.access, sizes, order_dims(step.access)))
            selection = boxes if len(boxes) <= TILES else [*boxes[: TILES - 1], boxes[-1]]
            for number, tile in enumerate(selection):
                label = f"{step.operator.name}-{step.node.name}-cut{cut}-{number}"
                job = measure.kernel_job(label, step.node, step.types, step.values, tile, MODEL, step.flag)
                if measure.fits(TARGET, job):
                    yield job


def _flat_jobs() -> Iterator[KernelJob]:
    """Elementwise kernels on every remainder of a core's share, with signed zeros, subnormals and overflow."""
    flat = {"Relu": "x", "ReluGrad": "xy", "SGD": "xy", "MSELossGrad": "xy", "Add": "xy", "Sub": "xy", "Mul": "xy"}
    for name, inputs in flat.items():
        for size in (1, 8, 21, 64, 131):
            types = {x: TensorType("float32", (size,)) for x in (*inputs, "o")}
            values = {x: hard(index, size) for index, x in enumerate(inputs)}
            node = Node(f"hard{size}", name, tuple(inputs), ("o",))
            dims = registry()[name].access(node, types).dims
            yield measure.kernel_job(
                f"{name}-hard{size}", node, types, values, {d.name: (0, d.size) for d in dims}, MODEL
            )
    for name, arg in (("Relu", "x"), ("ReluGrad", "y")):
        types = {x: TensorType("float32", (40,)) for x in "xyo"}
        bits = np.resize(np.array(NANS, np.uint32), 40)
        node = Node("nan", name, ("x",) if arg == "x" else ("x", "y"), ("o",))
        yield measure.kernel_job(f"{name}-nan", node, types, {arg: bits.view(np.float32)}, {"n": (0, 40)}, MODEL)


def _channel_jobs() -> Iterator[KernelJob]:
    """Steps of batch normalization on rows that all cores share evenly, one and several images; then NaN and Relu."""
    for name, wide, outputs in CHANNELWISE:
        for shape in PLANES:
            kernel = registry()[name].kernel
            assert kernel is not None
            inputs = [arg for arg, _, is_output in kernel.pointers if not is_output]
            types = {arg: TensorType("float32", shape if i < wide else shape[1:2]) for i, arg in enumerate(inputs)}
            node = Node("", name, tuple(inputs), tuple(f"o{i}" for i in range(outputs)), {})
            results = registry()[name].infer(node, list(types.values()))
            types |= dict(zip(node.outputs, results, strict=True))
            tile = {d.name: (0, d.size) for d in registry()[name].access(node, types).dims}
            label = f"{name}-plane{'x'.join(map(str, shape))}"
            yield measure.kernel_job(label, node, types, {}, tile, MODEL)
    node = Node("", "ChannelNormalize", ("x", "s", "b", "m", "i"), ("o",), {"activation": "Relu"})
    bits = np.resize(np.array(NANS, np.uint32), (1, 2, 21))
    types = {n: TensorType("float32", bits.shape if n in "xo" else (2,)) for n in "xsbmio"}
    values = {"x": bits.view(np.float32), "s": np.array([1.5, -2.0], np.float32)}
    tile = {"n": (0, 1), "c": (0, 2), "s": (0, 21)}
    yield measure.kernel_job("ChannelNormalize-nan", node, types, values, tile, MODEL)


def _long_jobs() -> Iterator[KernelJob]:
    """Sums of several groups in one tile, and tiles that are a part of them."""
    for number, (name, shapes, attrs, outputs) in enumerate(LONG):
        inputs = tuple(normal(i, math.prod(shape)).reshape(shape) for i, shape in enumerate(shapes))
        step = step_of(registry()[name], Sample("long", inputs, attrs, outputs))
        *outer, row = (d.name for d in step.access.dims if d.kind == "reduction")
        whole = {d.name: (0, d.size) for d in step.access.dims}
        assert whole[row] == PARTS[0]
        yield measure.kernel_job(f"{name}-long{number}", step.node, step.types, step.values, whole, MODEL)
        for place in range(2 if outer else 1):
            for first, length in PARTS:
                tile = {**whole, **{dim: (place % whole[dim][1], 1) for dim in outer}, row: (first, length)}
                label = f"{name}-long{number}-{place}-{first}"
                yield measure.kernel_job(f"{label}-{length}", step.node, step.types, step.values, tile, MODEL)


MAKERS = (
    _tile_jobs,
    gemm_jobs,
    gemm_form_jobs,
    _flat_jobs,
    _channel_jobs,
    _long_jobs,
    convolution_jobs,
    int8_jobs,
    loop_jobs,
    joint_jobs,
)
SYMBOLS = sorted({op.kernel.symbol for op in registry().values() if op.kernel is not None})


@cache
def all_jobs() -> dict[str, KernelJob]:
    """Every job by its label; made where a test wants them, as they are thousands."""
    return {job.label: job for make in (*MAKERS, border_jobs.all_jobs) for job in make()}


@pytest.fixture(scope="module")
def simulator() -> None:
    """Skip without it."""
    needs_simulator(TARGET.name)


@pytest.fixture(scope="module", params=CORES, ids=lambda cores: f"{cores}cores")
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Measured]:
    """All jobs, by as few programs as the memory allows."""
    machine, results = replace(TARGET, cores=request.param), list[Measured]()
    for symbols in _groups(SYMBOLS):
        jobs = [job for job in all_jobs().values() if job.kernel.symbol in symbols]
        results += measure.measure_jobs(machine, jobs, tmp_path_factory.mktemp("measure"))
    return {result.label: result for result in results}


def _groups(symbols: Iterable[str]) -> Iterator[list[str]]:
    """The kernels of each program, in alphabetical order."""
    names = sorted(set(symbols))
    yield from (names[first : first + TOGETHER] for first in range(0, len(names), TOGETHER))


def _functions(symbols: Iterable[str], kernels: Mapping[str, Kernel]) -> Iterator[tuple[Kernel, str]]:
    """All functions of some kernels, those for all calls without a name."""
    for symbol in symbols:
        yield from ((kernels[symbol], name) for name in ("", *(s.name for s in variants_of(symbol, TARGET))))


@pytest.mark.slow
def test_every_kernel_builds(tmp_path: Path) -> None:
    """Overrides and portable kernels compile for the target without a warning and link without a library."""
    needs_compiler(TARGET.name)
    kernels: dict[str, Kernel] = {op.kernel.symbol: op.kernel for op in registry().values() if op.kernel is not None}
    for symbols in _groups(kernels):
        assert measure.program(TARGET, list(_functions(symbols, kernels)), {}, tmp_path / symbols[0]).is_file()
    assert {path.stem for path in OVERRIDES} <= set(kernels)
    assert {job.kernel.symbol for job in all_jobs().values()} == set(kernels), "a kernel that is compared with nothing"


@SIMULATOR
@pytest.mark.parametrize("symbol", SYMBOLS)
def test_bits_equal_the_host(symbol: str, measured: dict[str, Measured]) -> None:
    """Every operand, read or written, is what the host's kernel leaves."""
    compare([job for job in all_jobs().values() if job.kernel.symbol == symbol], measured)


@SIMULATOR
@pytest.mark.parametrize("cores", [1, 4])
def test_convolution_on_cores(cores: int, tmp_path: Path) -> None:
    """Cores take turns at blocks, whatever their number."""
    jobs = list(convolution_jobs())
    results = measure.measure_jobs(replace(TARGET, cores=cores), jobs, tmp_path)
    compare(jobs, {result.label: result for result in results})


@SIMULATOR
def test_outer_products_are_shared_evenly(tmp_path: Path) -> None:
    """Eight columns more than can be dealt out evenly cost less than half of what as many for each core do."""
    strips = (TARGET.cores, TARGET.cores + 1, 2 * TARGET.cores)
    jobs = [gemm_job(8 * TARGET.cores, 8 * n, 1, "nn", single=SINGLE["outer"]) for n in strips]
    even, one_more, double = (result.warm for result in measure.measure_jobs(TARGET, jobs, tmp_path))
    assert even < one_more
    assert 2 * (one_more - even) < double - even


@SIMULATOR
def test_loops_of_their_own_are_taken(tmp_path: Path) -> None:
    """A Relu behind a flat sum costs less than half of one behind a sum by rows; neighbours in a row of taps share what
    they load, dilated taps do not; a core's only block of weights is of four outputs, as all three of more are.
    """
    jobs = []
    for label, b in (("flat", (32, 32)), ("rows", (32,))):
        sum_of = (normal(0, 1024).reshape(32, 32), normal(1, math.prod(b)).reshape(b))
        jobs += [whole_job("Add", label, sum_of, {}), whole_job("Add", f"{label}-relu", sum_of, {"activation": "Relu"})]
    jobs += weight_jobs(TARGET.cores)
    costs = (result.warm for result in measure.measure_jobs(TARGET, jobs, tmp_path))
    flat, flat_relu, rows, rows_relu, dense, dilated, one_each, three_each = costs
    assert 2 * (flat_relu - flat) < rows_relu - rows
    assert 3 * dense < 2 * dilated
    assert 2 * one_each < three_each


@pytest.mark.parametrize(
    ("inner", "tile", "c", "attrs", "form"),
    [
        (1, 1, None, {}, "outer"),
        (1, 1, (12, 48), {}, "added"),
        (1, 1, (48,), {}, "added"),
        (1, 1, (12, 1), {}, "matrix"),
        (1, 1, (12, 48), {"alpha": 2.0}, "matrix"),
        (1, 1, None, {"activation": "Relu"}, "matrix"),
        (8, 1, None, {}, "matrix"),
        (8, 8, None, {}, "matrix"),
    ],
)
def test_form_of_an_outer_product(
    inner: int, tile: int, c: tuple[int, ...] | None, attrs: dict[str, AttrValue], form: str
) -> None:
    """The cost model takes for one what the kernel does: no part of a longer sum, none that is finished otherwise."""
    shapes = [(12, inner), (inner, 48), *([c] if c else [])]
    step = step_of(
        registry()["Gemm"], Sample("outer", tuple(normal(0, math.prod(x)).reshape(x) for x in shapes), attrs)
    )
    assert registry()["Gemm"].work(step.node, step.access, {**step.access.sizes, "k": tile}, MODEL).cost_class == form


@pytest.mark.parametrize(
    ("m", "n", "k", "attrs", "form"),
    [
        *((1, 8, 64, attrs, "few") for attrs in ({}, {"activation": "Relu"})),
        (1, 8, 65, {}, "apart"),
        (1, 20, 65, {}, "vector"),
        (1, 3, 145, {}, "apart"),
        (2, 8, 8, {}, "lines"),
        (4, 8, 8, {}, "matrix"),
        (8, 64, 1, {}, "few_rows"),
        (12, 43, 1, {}, "outer"),
        (8, 16, 1, {"alpha": 2.0}, "matrix"),
    ],
)
def test_form_of_few_products(m: int, n: int, k: int, attrs: dict[str, AttrValue], form: str) -> None:
    """Kernel and cost model take the same form: few are products of a vector, or outer ones, in sums of one block."""
    inputs = (normal(0, m * k).reshape(m, k), normal(1, k * n).reshape(k, n))
    step = step_of(registry()["Gemm"], Sample("few", inputs, attrs))
    assert registry()["Gemm"].work(step.node, step.access, step.access.sizes, MODEL).cost_class == form
    assert kernel_args(step.node, step.access, MODEL)["single"] == Const(SINGLE.get(form, int(k <= PRODUCTS)))


@SIMULATOR
def test_few_products_take_little_code(tmp_path: Path) -> None:
    """A first call, whose code is fetched, takes less than four fifths of what the same products in other forms do."""
    for shape, form in (((1, 8, 64), "few"), ((10, 8, 1), "few_rows")):
        costs = []
        for single in (1 if form == "few" else SINGLE["outer"], SINGLE[form]):
            jobs = [gemm_job(*shape, "nt", single=single)]
            costs.append(measure.measure_jobs(TARGET, jobs, tmp_path / f"{form}{single}")[0].cold)
        assert 5 * costs[1] < 4 * costs[0]


@SIMULATOR
def test_outer_products_add_c(tmp_path: Path) -> None:
    """With a C of rows they are no product of matrices, which would take more than twice as long."""
    forms: tuple[dict[str, float], ...] = ({"beta": 1.0, "single": SINGLE["added"]}, {"beta": 1.0, "alpha": 2.0})
    jobs = [gemm_job(40, 64, 1, "tn", **changed) for changed in forms]
    added, finished = (result.warm for result in measure.measure_jobs(TARGET, jobs, tmp_path))
    assert 2 * added < finished


@SIMULATOR
def test_the_clock_repeats(tmp_path: Path) -> None:
    """Two runs of one program take the same cycles, and a cold one more than a warm one."""
    jobs: list[measure.Job] = [measure.DISPATCH, gemm_job(8, 8, 8, "nn"), measure.TransferJob("in", "in", 512)]
    first, second = (measure.measure_jobs(TARGET, jobs, tmp_path) for _ in range(2))
    assert [x.cycles for x in first] == [x.cycles for x in second]
    assert all(x.cold > x.warm > 0 for x in first)
