"""Splits of samples over devices: each sample has one device, shares are as drawn, and the seed says all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.fleets.splits import dirichlet_parts, parts_of, parts_of_files, shard_parts, split_parts

pytestmark = [pytest.mark.host]
CASES = st.tuples(st.integers(1, 12), st.integers(0, 60), st.integers(1, 5), st.integers(0, 99))
"""Devices, samples beyond one for each, classes, and the seed."""


@settings(max_examples=60, deadline=None)
@given(CASES, st.sampled_from(["iid", "dirichlet", "shards"]), st.sampled_from([0.01, 0.5, 100.0]))
def test_each_sample_has_one_device(case: tuple[int, int, int, int], split: str, alpha: float) -> None:
    """No sample is lost or doubled, no device is empty, and the same seed gives the same parts."""
    devices, more, classes, seed = case
    labels = np.random.default_rng(seed).integers(0, classes, 2 * devices + more)
    parts = split_parts(split, labels, devices, alpha, 2, seed)
    assert len(parts) == devices
    assert all(len(part) for part in parts)
    assert all((np.diff(part) > 0).all() for part in parts)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))
    again = split_parts(split, labels, devices, alpha, 2, seed)
    assert all((a == b).all() for a, b in zip(parts, again, strict=True))


def shares(parts: tuple[np.ndarray, ...], labels: np.ndarray) -> np.ndarray:
    """The share of each device in each class."""
    counts = np.array([np.bincount(labels[part], minlength=labels.max() + 1) for part in parts])
    return counts / counts.sum(0)


def test_concentration() -> None:
    """Shares have the variance of a symmetric Dirichlet distribution, which falls with the concentration."""
    labels = np.repeat(np.arange(400), 200)
    devices = 5
    for alpha in (0.5, 5.0):
        found = shares(dirichlet_parts(labels, devices, alpha, 0), labels)
        wanted = (1 / devices) * (1 - 1 / devices) / (devices * alpha + 1)
        # four standard errors of a variance of 2000 correlated shares, about as many as 1600 independent ones
        spread = found.var() * np.sqrt(2 / 1600) * 4 * (3 if alpha < 1 else 2)
        assert abs(found.var() - wanted) < spread


def test_few_labels_of_shards() -> None:
    """With shards of one label each, a device has as many labels as shards."""
    labels = np.tile(np.arange(10), 20)
    parts = shard_parts(labels, 10, 2, 0)
    assert {len(part) for part in parts} == {20}
    assert max(len(set(labels[part].tolist())) for part in parts) == 2


def test_equal_parts_and_files() -> None:
    """Parts differ by one sample at most; files keep their order."""
    assert sorted({len(part) for part in parts_of(11, 4, 0)}) == [2, 3]
    assert [part.tolist() for part in parts_of_files([2, 3])] == [[0, 1], [2, 3, 4]]


def test_refusals() -> None:
    """Fewer samples than devices, and targets that are no classes."""
    with pytest.raises(DatasetMismatch, match="fewer samples"):
        parts_of(3, 4, 0)
    with pytest.raises(OptionProblem, match="class number for each sample"):
        split_parts("dirichlet", np.zeros((8, 2), np.float32), 2, 1.0, 2, 0)
