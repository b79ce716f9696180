"""docs/accuracy.md: our errors are those it shows, and its verdicts follow from its numbers."""

import importlib.util

import numpy as np
import pytest

from DeployTest.support.kernels.accuracy import (
    ABSENT,
    BROKEN,
    KEPT,
    OURS,
    Error,
    Row,
    allowed,
    documented,
    error,
    measure,
)
from DeployTest.support.kernels.accuracy_cases import CASES, Case
from DeployTest.support.references.peers import run_by_torch, torch_module

pytestmark = [pytest.mark.host, pytest.mark.kernels]

LONGEST = 2304
"""Longer sums are measured by the benchmark alone."""
SHORT = [case for case in CASES if case.sums <= LONGEST]


@pytest.mark.parametrize("case", SHORT, ids=lambda case: f"{case.function}-{case.data}-{case.sums}".replace(" ", "_"))
def test_our_errors(case: Case) -> None:
    """A kernel that adds in another order needs a new page: python -m DeployTest.benchmarks.accuracy."""
    for row in measure(case, others=False):
        assert documented()[row.key][0] == str(row.errors[OURS]), row.key


def test_the_page_is_complete() -> None:
    """Each result of each case has a row, and no row is left over."""
    keys = [Row(c.function, result, c.data, c.sums, {}).key for c in CASES for result in c.results]
    assert len(set(keys)) == len(keys)
    assert set(documented()) == set(keys)


@pytest.mark.parametrize("key", documented(), ids="-".join)
def test_verdicts(key: tuple[str, ...]) -> None:
    """Kept or broken as the numbers say, against at least one of the others."""
    *cells, verdict = documented()[key]
    ours, *others = (float(cell.partition("/")[0]) for cell in cells if cell != ABSENT)
    assert others
    assert verdict == (KEPT if ours <= allowed(min(others)) else BROKEN)


def test_errors() -> None:
    """In u of the root mean square, or of each element; another shape or nothing at all is no comparison."""
    half, size = 2.0**-22, np.array([[4.0, -4.0]])
    exact, near = np.array([[2.0, 4.0]]), np.array([[2.0 + half, 4.0]])
    assert error(near, exact, per_element=True) == Error(2**0.5, 2.0)
    assert error(size + np.array([half, 0.0]), size, per_element=False) == Error(0.5**0.5, 1.0)
    for values in (near[:, :1], near[:0]):
        with pytest.raises(AssertionError):
            error(values, exact[: len(values)], per_element=True)


def test_a_row_breaks_the_contract() -> None:
    """Beyond both bounds, or by NaN."""
    for ours, best, kept in ((3.9, 0.5, True), (4.1, 0.5, False), (7.4, 5.0, True), (7.6, 5.0, False)):
        assert Row("f", "Y", "", 1, {OURS: Error(ours, 0), "numpy": Error(best, 0)}).kept is kept
    assert not Row("f", "Y", "", 1, {OURS: Error(np.nan, 0), "numpy": Error(1.0, 0)}).kept


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.torch
def test_autograd() -> None:
    """PyTorch computes an output and the gradients that are wanted, with a gradient that arrives."""
    x = np.array([1.0, -2.0], np.float32)
    output, gradients = run_by_torch(torch_module(), lambda t, v: v[0] * v[1], [x, x + 1], x, [1])
    np.testing.assert_array_equal(output, x * (x + 1))
    np.testing.assert_array_equal(gradients[1], x * x)
