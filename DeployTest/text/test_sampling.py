"""Sampling: Python and C draw the same ids, from the tokens that are kept, as often as their probability says."""

import ctypes
import math
import random
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.core.plan import Options, target_of
from deployer.firmware.common import NEEDED as LIBRARY
from deployer.firmware.common import library_tools
from deployer.firmware.sources import kernel_sources, library_rules
from deployer.testing.bench import compiled
from deployer.text.float_arithmetic import exp_f32, fma_f32
from deployer.text.sampling import NEEDED, CSampler, Sampler
from DeployTest.firmware.test_library import WARNINGS
from DeployTest.support.kernels.functions import sweep
from DeployTest.text.vocabularies import SANITIZED

pytestmark = [pytest.mark.host]
MAIN = Path(__file__).with_name("sampler_main.c")
JOB = np.dtype(
    {
        "names": ["seed", "count", "top_k", "sequence", "position", "draws", "temperature", "top_p", "unused"],
        "formats": ["<u8", "<u4", "<u4", "<u4", "<u4", "<u4", "<f4", "<f4", "<u4"],
    }
)
Row = npt.NDArray[np.float32]
Job = tuple[Row, Sampler, int, int]
NAN, EMPTY, OPTION = -1, -2, -3
CRITICAL = 0.001
"""The probability with which a right sampler fails a test of its distribution, for any one seed; seeds are fixed."""


@pytest.fixture(scope="module", params=["sanitized", "optimized"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that draws by the C of a library."""
    folder = tmp_path_factory.mktemp("sampler")
    tools = library_tools(target_of(Options(target=library_rules().target)))
    texts = {**CSampler("draw").files, **kernel_sources((), tools, "draw", (*LIBRARY, *NEEDED))}
    for name, text in texts.items():
        (folder / name).write_text(text)
    rules = library_rules()
    flags = [f"-std=c{rules.standard}", *rules.flags, *WARNINGS, f"-I{folder}"]
    flags += [*SANITIZED] if request.param == "sanitized" else ["-O3", "-march=native"]
    sources = [str(path) for path in sorted(folder.glob("*.c"))]
    words = ["gcc", *flags, str(MAIN), *sources, *(f"-l{name}" for name in rules.libraries), "-o"]
    subprocess.run([*words, str(folder / "main")], check=True)
    return folder / "main"


def drawn_in_c(program: Path, jobs: list[Job], draws: int = 1) -> list[int]:
    """The ids, or errors, of each job for `draws` positions."""
    given = list[bytes]()
    for row, how, sequence, position in jobs:
        values = (how.seed, row.size, how.top_k, sequence, position, draws, how.temperature, how.top_p, 0)
        given += [np.array([values], JOB).tobytes(), row.tobytes()]
    run = subprocess.run([program], input=b"".join(given), capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()
    return np.frombuffer(run.stdout, "<i4").tolist()


def rows(draw: np.random.Generator) -> Iterator[Row]:
    """Logits with ties, infinities, zeros of both signs, subnormal numbers, and of any size."""
    while True:
        size = int(draw.choice([1, 2, 3, 17, 64, 257, 1024]))
        row = (
            (draw.standard_normal(size) * draw.choice([0, 1e-42, 1e-3, 1, 4, 40, 1e38]))
            .clip(-3e38, 3e38)
            .astype(np.float32)
        )
        yield row
        yield np.round(row)  # many ties, and both zeros
        yield draw.choice(np.array([0.0, -0.0, 1.0, -np.inf, 2.5], np.float32), size)
        special = row.copy()
        special[draw.integers(size)] = draw.choice([np.inf, -np.inf, np.finfo(np.float32).max])
        yield special
        yield np.where(draw.random(size) < 0.7, np.float32(-np.inf), row)
        yield draw.integers(0, 1 << 32, size, np.uint32).view(np.float32)


def jobs(count: int, seed: int) -> list[Job]:
    """Rows with options of all kinds."""
    draw = np.random.default_rng(seed)
    found = list[Job]()
    for row in rows(draw):
        how = Sampler(
            temperature=float(np.float32(draw.choice([0, 1e-45, 1e-6, 0.3, 0.7, 1, 1.7, 50, 3e38]))),
            top_k=int(draw.choice([0, 0, 1, 2, 5, 40, 257, 5000])),
            top_p=float(np.float32(draw.choice([1, 1, 1e-30, 1e-9, 0.1, 0.5, 0.9, 0.999999]))),
            seed=int(draw.integers(0, 1 << 63)),
        )
        found.append((row, how, int(draw.integers(0, 1 << 32)), int(draw.integers(0, 1 << 31))))
        if len(found) == count:
            return found
    return found


def result(row: Row, how: Sampler, sequence: int, position: int) -> int:
    """The id in Python, or the code of C for its error."""
    try:
        return how.sample(row, sequence, position)
    except DatasetMismatch as error:
        return NAN if "NaN" in error.cause else EMPTY


@pytest.fixture(scope="module")
def in_python() -> tuple[list[Job], list[int]]:
    """Rows and options, with the ids that Python draws."""
    given = jobs(4000, 1)
    return given, [result(*job) for job in given]


@pytest.mark.matrix(keep=1)
def test_ids_in_c(program: Path, in_python: tuple[list[Job], list[int]]) -> None:
    """For 4000 rows and options; all errors of logits are among them."""
    given, found = in_python
    assert drawn_in_c(program, given) == found
    assert {NAN, EMPTY} < {*found}
    assert len({*found}) > 200


@pytest.mark.parametrize("how", [Sampler(1e-45), Sampler(0.7, 0, 0.9), Sampler(1, 40), Sampler(2, 12, 0.6), Sampler(1)])
def test_a_long_row_in_c(program: Path, how: Sampler) -> None:
    """Positions of a sequence one after the other, for a large vocabulary."""
    row = (np.random.default_rng(3).standard_normal(32_000) * 2).astype(np.float32)
    assert drawn_in_c(program, [(row, how, 7, 100)], 20) == [how.sample(row, 7, 100 + i) for i in range(20)]


_PARTS = """
#include "sampling_f32.h"
uint64_t part_high(uint64_t a, uint64_t b) { return sample_high(a, b); }
uint64_t part_share(float share, uint64_t total) { return sample_share(share, total); }
uint32_t part_pick(const float *logits, uint32_t count, float largest, uint64_t drawn) {
    const sample_row_t row = {logits, count, largest, 1.0f};
    return sample_pick(&row, (sample_cut_t){0u, count}, drawn);
}
"""


def test_whole_numbers_in_c() -> None:
    """Products of 128 bits, shares that are exact, and draws at both ends of each token's weight."""
    parts = compiled({"parts.c": _PARTS}, (), "parts")
    parts.part_high.restype = parts.part_share.restype = ctypes.c_uint64
    parts.part_pick.restype = ctypes.c_uint32
    draw = random.Random(2)
    numbers = [0, 1, (1 << 32) - 1, 1 << 32, (1 << 64) - 1, *(draw.getrandbits(64) for _ in range(300))]
    for a, b in product(numbers, numbers[:40]):
        assert parts.part_high(ctypes.c_uint64(a), ctypes.c_uint64(b)) == a * b >> 64
    for share, total in product([0.5, 0.25, 0.75, 0.1, 2.0**-60, 1e-30, 0.9999], [1, 2, 4, 3 << 40, 1 << 62, 12345]):
        exact = Fraction(int(Fraction(float(np.float32(share))) * 2**63), 2**63) * total
        found = parts.part_share(ctypes.c_float(share), ctypes.c_uint64(total))
        assert found == max(1, math.ceil(exact)) == Sampler(top_p=share).share_of(total)
    row = np.array([-np.inf, 0, 1, 1, -3, -40, 0.5], np.float32)
    weights = Sampler().weights(row, row[2])
    assert weights.tolist().count(0) == 2
    sums = np.cumsum(weights).tolist()
    for id_ in np.flatnonzero(weights).tolist():
        for drawn in (sums[id_] - int(weights[id_]), sums[id_] - 1):
            pointer = ctypes.c_void_p(row.ctypes.data)
            found = parts.part_pick(pointer, ctypes.c_uint32(row.size), ctypes.c_float(1), ctypes.c_uint64(drawn))
            assert found == id_ == Sampler.pick(weights, drawn)


def test_options_in_c(program: Path) -> None:
    """Options that Python refuses, C refuses by a code."""
    row, bad = np.ones(3, np.float32), [("temperature", -1.0), ("temperature", np.inf), ("temperature", np.nan)]
    bad += [("top_p", 0.0), ("top_p", 1.5), ("top_p", -0.1), ("top_p", np.nan), ("top_p", 1e-60)]
    for name, value in bad:
        with pytest.raises(OptionProblem, match=f"{name} of a sampler is out of range"):
            Sampler(**{name: value})
        how = Sampler()
        object.__setattr__(how, name, value)
        assert drawn_in_c(program, [(row, how, 0, 0)]) == [OPTION], (name, value)
    for name, value in (("top_k", -1), ("seed", -1), ("seed", 1 << 64), ("temperature", 1e39)):
        with pytest.raises(OptionProblem, match=f"{name} of a sampler"):
            Sampler(**{name: value})  # type: ignore[arg-type]


def kept_by_definition(row: Row, how: Sampler) -> dict[int, float]:
    """Tokens that may be drawn, with their probabilities, from softmax in float64."""
    order = sorted(range(row.size), key=lambda i: (-row[i], i))[: how.top_k or row.size]
    powers = np.exp((row[order].astype(np.float64) - row[order[0]]) / how.temperature)
    powers /= powers.sum()
    count = 1 + int(np.searchsorted(np.cumsum(powers), np.float32(how.top_p))) if how.top_p < 1 else row.size
    chosen = powers[:count] / powers[:count].sum()
    return dict(zip(order[:count], chosen.tolist(), strict=False))


@pytest.mark.parametrize(
    "how", [Sampler(1.0), Sampler(0.6), Sampler(1.0, 7), Sampler(1.3, 0, 0.8), Sampler(1.0, 9, 0.7), Sampler(50.0)]
)
def test_distribution(program: Path, how: Sampler) -> None:
    """Of 100 000 draws each token has its share: Pearson's test against softmax in float64."""
    row = np.random.default_rng(11).standard_normal(24).astype(np.float32) * 2
    row[5] = row[6]
    draws = 100_000
    counts = np.bincount(drawn_in_c(program, [(row, replace(how, seed=42), 0, 0)], draws), minlength=row.size)
    expected = kept_by_definition(row, how)
    assert {*np.flatnonzero(counts)} <= {*expected}
    rare = [i for i, p in expected.items() if p * draws < 10]
    pooled = [(counts[i], p * draws) for i, p in expected.items() if i not in rare]
    pooled += [(sum(counts[i] for i in rare), sum(expected[i] for i in rare) * draws)] if len(rare) > 1 else []
    statistic = sum((count - mean) ** 2 / mean for count, mean in pooled)
    assert statistic < critical(len(pooled) - 1), (statistic, len(pooled))


def critical(freedom: int) -> float:
    """The value of chi-square that is exceeded with probability CRITICAL, by Wilson and Hilferty's formula."""
    upper = 3.0902  # of the normal distribution
    return float(freedom * (1 - 2 / (9 * freedom) + upper * (2 / (9 * freedom)) ** 0.5) ** 3)


def test_a_wrong_distribution_is_seen(program: Path) -> None:
    """The same draws against another temperature fail the same test."""
    row = np.random.default_rng(11).standard_normal(24).astype(np.float32) * 2
    counts = np.bincount(drawn_in_c(program, [(row, Sampler(1.0, 5, seed=42), 0, 0)], 100_000), minlength=row.size)
    expected = kept_by_definition(row, Sampler(1.1, 5))
    statistic = sum((counts[i] - p * 1e5) ** 2 / (p * 1e5) for i, p in expected.items())
    assert statistic > critical(4)


def test_ties_go_to_the_lower_id() -> None:
    """Greedy takes the first of the largest, and cuts keep the first of equals."""
    row = np.array([0, 3, 1, 3, 3, 1, -0.0], np.float32)
    assert Sampler(0).sample(row) == Sampler(1, 1).sample(row) == Sampler(1, 0, 1e-9).sample(row) == 1
    assert {Sampler(1, 2, seed=4).sample(row, 0, i) for i in range(200)} == {1, 3}
    assert {Sampler(100, 4, seed=4).sample(row, 0, i) for i in range(300)} == {1, 2, 3, 4}
    assert {Sampler(1, 2, seed=4).sample(np.zeros(4, np.float32), 0, i) for i in range(200)} == {0, 1}
    half = np.zeros(4, np.float32)
    assert {Sampler(1, 0, 0.5, seed=4).sample(half, 0, i) for i in range(200)} == {0, 1}, "two have half exactly"


def test_infinite_logits() -> None:
    """Infinite ones share the probability; minus infinity is never drawn."""
    row = np.array([-np.inf, 5, np.inf, -np.inf, np.inf], np.float32)
    assert {Sampler(1).sample(row, 0, i) for i in range(100)} == {2, 4}
    assert {Sampler(9).sample(row[:2], 0, i) for i in range(100)} == {1}
    assert Sampler(0).sample(row) == 2


def test_a_draw_follows_from_its_place() -> None:
    """Seed, sequence and position each change it, and nothing else does."""
    row = np.zeros(4096, np.float32)
    how = Sampler(seed=(3 << 32) + 9)
    first = how.sample(row, 2, 5)
    assert first == how.sample(row, 2, 5) == Sampler(7.5, seed=how.seed).sample(row, 2, 5)
    others = [how.sample(row, 2, 6), how.sample(row, 3, 5), how.sample(row, 5, 2)]
    others += [Sampler(seed=9).sample(row, 2, 5), Sampler(seed=how.seed + 1).sample(row, 2, 5)]
    assert len({first, *others}) == 1 + len(others)


@pytest.mark.parametrize("shape", [(0,), (2, 2), ()])
def test_rows_of_another_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(DatasetMismatch, match="logits of one token are a row"):
        Sampler().sample(np.zeros(shape, np.float32))


def test_a_logit_that_is_no_number() -> None:
    """It is named, also for the greedy choice."""
    with pytest.raises(DatasetMismatch, match="the logit of id 1 is NaN") as error:
        Sampler(0).sample([3, np.nan, 5])
    assert dict(error.value.facts) == {"first id": "1", "NaN": "1 of 3"}


def test_exponential_of_the_kernels() -> None:
    """The same bits as in C: for every 397th float, which has all exponents, and each kind of special number."""
    bits = np.arange(0, 1 << 32, 397, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([bits, np.array([0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000], np.uint32)]).view(np.float32)
    x = x[(np.abs(x) > 1e-12) & (np.abs(x) < 200) | ~np.isfinite(x) | (np.arange(x.size) % 64 == 0)]
    assert x.size > 500_000
    expected, found = sweep("exp", x), exp_f32(x)
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


def test_one_rounding() -> None:
    """a * b + c as fractions, rounded to float32, also where two roundings give another number."""
    draw = np.random.default_rng(5)
    a, b, c = (draw.standard_normal(20_000).astype(np.float32) for _ in range(3))
    c *= np.float32(2.0) ** draw.integers(-40, 40, c.size).astype(np.float32)
    a[:2], b[:2], c[:2] = (
        [float.fromhex("0x1.001p0"), 4097 / 2**30],
        [float.fromhex("0x1.001p0"), 16773121 / 2**30],
        [2.0**-24, 1],
    )
    differ = 0
    for x, y, z, found in zip(a, b, c, fma_f32(a, b, c), strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        near = np.float32(float(exact))
        options = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
        errors = [abs(Fraction(float(option)) - exact) for option in options]
        best = [option for option, error in zip(options, errors, strict=True) if error == min(errors)]
        right = best[0] if len(best) == 1 else next(o for o in best if not int(o.view(np.uint32)) & 1)
        assert found == right
        differ += right != x * y + z
    assert differ > 1000
    assert fma_f32(a[:2], b[:2], c[:2]).tolist() == [float.fromhex("0x1.002002p0"), float.fromhex("0x1.000002p0")]
