"""Ranges and scales of values, beside NumPy."""

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch
from deployer.quantization.ranges import BINS, HistogramObserver, MinMaxObserver, check_values, scaling_of

pytestmark = [pytest.mark.host]


@pytest.mark.parametrize("percent", [90.0, 99.9, 100.0])
@pytest.mark.parametrize("growing", [False, True])
def test_middle_share(percent: float, growing: bool) -> None:
    """Bounds are between NumPy's neighbours of the percentiles, to a bin's width, in whatever order values come."""
    values = np.random.default_rng(2).standard_t(3, 40_000).astype(np.float32)
    batches = np.array_split(np.array(sorted(values, key=abs)) if growing else values, 7)
    histogram = HistogramObserver(percent)
    for batch in batches:
        histogram.see(batch)
    low, high = histogram.bounds()
    cut = (100 - percent) / 2
    lower, higher = (np.percentile(values, [cut, 100 - cut], method=side) for side in ("lower", "higher"))
    assert histogram.counts.sum() == values.size
    assert histogram.width <= 2 * np.abs(values).max() / BINS * 2
    assert (lower - 2 * histogram.width <= [low, high]).all()
    assert (higher + 2 * histogram.width >= [low, high]).all()
    if percent == 100:
        assert (low, high) == (values.min(), values.max())


def test_extremes_and_zeros() -> None:
    """The least and the largest; a histogram of zeros that other values follow counts them."""
    extremes, histogram = MinMaxObserver(), HistogramObserver(50.0)
    for batch in (np.zeros(8, np.float32), np.array([-1, 3], np.float32)):
        extremes.see(batch)
        histogram.see(batch)
    assert extremes.bounds() == (-1, 3)
    low, high = histogram.bounds()
    assert -0.01 < low <= 0 <= high < 0.01


@pytest.mark.parametrize("bounds", [(-1.0, 3.0), (0.0, 6.0), (2.0, 5.0), (-7.0, -3.0), (-1e-20, 1e-20), (-3e38, 3e38)])
def test_scaling(bounds: tuple[float, float]) -> None:
    """Zero is a number of 8 bits, and both ends of the range are within half a step of one."""
    scaling = scaling_of("x", bounds)
    low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
    numbers = (np.arange(-128, 128) - scaling.zero) * np.float64(scaling.scale)
    assert 0.0 in numbers
    assert scaling.scale == np.float32((high - low) / 255)
    for end in (low, high):
        assert np.abs(numbers - end).min() <= 0.5001 * scaling.scale


def test_no_range() -> None:
    """Values that are all zero, and values that are not finite, with their name."""
    with pytest.raises(DatasetMismatch, match="'x' is 0 for all samples"):
        scaling_of("x", (0.0, 0.0))
    for value in (np.nan, np.inf):
        with pytest.raises(DatasetMismatch, match="'x' has no range") as caught:
            check_values("x", np.array([1, value, value], np.float32))
        assert caught.value.facts[0] == ("not finite", "2 of 3 in a batch")
