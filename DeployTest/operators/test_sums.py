"""Long sums: the order that operators declare is that of sum_f32.h, accurate for any length and equal for any tiles."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from deployer.core.operator import Array, execution_of, registry
from deployer.core.samples import Sample
from deployer.core.traits.execution import BLOCK, CARRIED, CARRIED_FLOATS, GROUP, SHORT
from deployer.operators.update import accumulation
from deployer.running.build import COMMON
from deployer.testing.bench import BenchStep, bits, lawful, run_step, step_of
from DeployTest.support.kernels.functions import sweep
from DeployTest.support.tolerances import table

pytestmark = pytest.mark.host
UNIT = 2.0**-24
BOUND = table()["sums"]
LENGTHS = (BLOCK, SHORT, SHORT + 1, GROUP * BLOCK, GROUP * BLOCK + 1, 576, 2304, 9216, 110_592)
SUMMING = sorted(name for name, op in registry().items() if execution_of(op).sums and name == op.name)


def test_constants_are_those_of_c() -> None:
    """Elements of a block, blocks of a group and floats carried stand in C as in Python."""
    header = (COMMON / "include/sum_f32.h").read_text()
    constants = dict(re.findall(r"^#define (SUM_\w+) (\d+)u", header, re.MULTILINE))
    assert constants == {"SUM_BLOCK": str(BLOCK), "SUM_GROUP": str(GROUP), "SUM_CARRIED": str(CARRIED_FLOATS)}


def reduction(x: Array) -> BenchStep:
    """The sum of each row of x."""
    return step_of(registry()["ReduceSum"], Sample("rows", (x,), {"axes": (1,), "keepdims": 0}))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("seed", range(3))
def test_accuracy(length: int, seed: int) -> None:
    """The error of sums of positive numbers, root mean square over rows, is below the bound for every length."""
    rows = max(8, min(128, 2**20 // length))
    x = np.abs(np.random.default_rng(seed).standard_normal((rows, length))).astype(np.float32)
    step = reduction(x)
    exact = x.astype(np.float64).sum(1)
    errors = (run_step(step, step.access.sizes)[0] - exact) / exact / UNIT
    assert np.sqrt(np.mean(errors**2)) <= BOUND["rms"]


def ordered(*rows: Array) -> np.float32:
    """The declared order for the rows of a sum, in numpy's float32."""
    high, low = np.float32(0), np.float32(0)
    for group in (x[i : i + GROUP * BLOCK] for x in rows for i in range(0, x.size, GROUP * BLOCK)):
        total = np.float32(0)
        for block in (group[i : i + BLOCK] for i in range(0, group.size, BLOCK)):
            total += np.add.accumulate(block, dtype=np.float32)[-1]
        more = np.float32(high + total)
        part = np.float32(more - high)
        low += np.float32(high - np.float32(more - part)) + np.float32(total - part)
        high = more
    return np.float32(high + low)


@pytest.mark.parametrize("length", [SHORT + 1, 131, GROUP * BLOCK, GROUP * BLOCK + 70, 3 * GROUP * BLOCK])
def test_order(length: int) -> None:
    """The bits are those of the order, written down a second time."""
    x = np.random.default_rng(length).standard_normal((3, length)).astype(np.float32)
    step = reduction(x)
    assert bits(run_step(step, step.access.sizes)[0]) == bits(np.array([ordered(row) for row in x]))


@pytest.mark.parametrize("tile", [{}, {"n": 1}, {"n": 1, "s": BLOCK + 1}], ids=str)
def test_rows_end_blocks_and_groups(tile: Mapping[str, int]) -> None:
    """A channel's variance adds the rows of two images; squares about zero and their mean are exact here."""
    length = 2 * GROUP * BLOCK
    x = np.random.default_rng(length).integers(-4095, 4096, (2, 3, length)).astype(np.float32)
    step = step_of(registry()["ChannelVariance"], Sample("rows", (x, np.zeros(3, np.float32)), {}))
    expected = np.array([ordered(*rows * rows) for rows in x.swapaxes(0, 1)]) / np.float32(2 * length)
    assert bits(run_step(step, {**step.access.sizes, **tile})[0]) == bits(expected)


@pytest.mark.parametrize("tile", [{}, {"n": 1}, {"phase": 1, "n": 1, "s": BLOCK + 1}], ids=str)
def test_rows_end_those_of_moments(tile: Mapping[str, int]) -> None:
    """So do those of the mean, where the pivot is 0, and of the deviation, where the mean is 0 and epsilon is lost."""
    length, r = 2 * GROUP * BLOCK, np.random.default_rng(3)
    shifted = r.standard_normal((2, 8, length)).astype(np.float32)
    shifted[0, :, 0] = 0
    half = r.integers(-4095, 4096, (2, 8, length // 2))
    x = np.concatenate((half, -half), 2).astype(np.float32)
    means, deviations = _moments(shifted, tile)[0], _moments(x, tile)[1]
    assert bits(means) == bits(np.array([ordered(*rows) for rows in shifted.swapaxes(0, 1)]) / np.float32(2 * length))
    variances = np.array([ordered(*rows * rows) for rows in x.swapaxes(0, 1)]) / np.float32(2 * length)
    assert bits(deviations) == bits(sweep("rsqrt", variances))


def _moments(x: Array, tile: Mapping[str, int]) -> list[Array]:
    step = step_of(registry()["ChannelMoments"], Sample("rows", (x,), {}, 3))
    return run_step(step, lawful(step.access, {**step.access.sizes, **tile}))[:2]


@pytest.mark.parametrize("tile", [1, 3, BLOCK - 1, BLOCK, BLOCK + 1, SHORT + 1, 1000, GROUP * BLOCK, GROUP * BLOCK + 1])
def test_tiles_end_anywhere(tile: int) -> None:
    """Tiles that end inside of blocks and groups give the bits of the whole."""
    x = np.random.default_rng(tile).standard_normal((2, 2 * GROUP * BLOCK + 77)).astype(np.float32)
    step = reduction(x)
    whole = run_step(step, step.access.sizes)
    [dim] = [d.name for d in step.access.dims if d.kind == "reduction"]
    assert [bits(y) for y in run_step(step, {**step.access.sizes, dim: tile})] == [bits(y) for y in whole]


@pytest.mark.parametrize("length", [2, BLOCK + 1, SHORT])
def test_short_sums_are_one_block(length: int) -> None:
    """Summed ascending, with nothing that waits: a budget without room for that keeps compiling."""
    x = np.random.default_rng(length).standard_normal((3, length)).astype(np.float32)
    step = reduction(x)
    assert not carries(step)
    for tile in (length, 3):
        [dim] = [d.name for d in step.access.dims if d.kind == "reduction"]
        [y] = run_step(step, {**step.access.sizes, dim: tile})
        assert bits(y) == bits(np.add.accumulate(x, 1, dtype=np.float32)[:, -1])


def test_infinity_is_the_sum() -> None:
    """An infinite element, or a sum that is too large, gives infinity, as one addition after the other would."""
    x = np.ones((2, 500), np.float32)
    x[0, 70] = np.inf
    x[1] = np.finfo(np.float32).max
    step = reduction(x)
    assert np.isposinf(run_step(step, step.access.sizes)[0]).all()


def carries(step: BenchStep) -> bool:
    """Whether the step has an operand for what waits between tiles."""
    return any(operand.arg == CARRIED for operand in step.access.operands)


def samples(name: str) -> Mapping[bool, Sequence[str]]:
    """Labels of an operator's samples by whether they carry."""
    steps = [step_of(registry()[name], sample) for sample in registry()[name].samples()]
    return {carry: [s.node.name for s in steps if s.access.dims and carries(s) is carry] for carry in (False, True)}


@pytest.mark.parametrize("name", SUMMING)
def test_samples_have_short_and_long_sums(name: str) -> None:
    """Each operator that sums is tested with sums of one block and of several."""
    labels = samples(name)
    assert labels[False]
    assert labels[True]


@pytest.mark.parametrize("length", [2048, 2049, 4095, 9216])
@pytest.mark.parametrize("behind", [False, True], ids=["first", "behind"])
def test_shared_squares(length: int, behind: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that cores share, and their total, give the bits of the sum that one core makes, in any tiles."""
    random = np.random.default_rng(length)
    x, before = random.standard_normal(length).astype(np.float32), [np.float32(3.7).reshape(())] * behind
    with monkeypatch.context() as patch:
        patch.setattr(accumulation, "SHARED", length + 1)
        whole = step_of(registry()["SquareSum"], Sample("whole", (x, *before)))
    expected, *_ = run_step(whole, whole.access.sizes)
    apart = step_of(registry()["SquareGroups"], Sample("groups", (x,)))
    for tile in (1, 2, apart.access.sizes["g"]):
        [groups] = run_step(apart, {"g": tile})
        total = step_of(registry()["GroupTotal"], Sample("total", (groups, *before)))
        assert bits(run_step(total, total.access.sizes)[0]) == bits(expected)
