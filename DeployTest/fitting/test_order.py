"""Order of samples: every sample in each epoch, reproducible by seed; incomplete batches are handled as defined."""

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch
from deployer.core.ir import TensorType
from deployer.lr_schedules.windows import Updates
from deployer.training.batches import fitted_samples
from deployer.training.order import Order, Samples, numbered, split

pytestmark = [pytest.mark.host]


@pytest.mark.parametrize(("count", "batch"), [(9, 4), (8, 4), (1, 4), (7, 7), (13, 3)])
def test_every_sample_in_every_epoch(count: int, batch: int) -> None:
    """An epoch has each sample once, and what fills up its last batch are the first of its own order."""
    order = Order(count, batch, seed=5)
    for epoch in range(3):
        first = epoch * order.passes
        seen = np.concatenate([order.indices(first + place) for place in range(order.passes)])
        assert sorted(seen[:count]) == list(range(count))
        assert np.array_equal(seen[count:], np.resize(seen[:count], len(seen) - count))
        assert len(seen) - count < max(batch, 1)


def test_incomplete_batch_is_dropped_only_on_request() -> None:
    """With one sample more than batches take, an epoch is a pass longer, or that sample is left out and said so."""
    fill, drop = Order(9, 4), Order(9, 4, drop_last=True)
    assert (fill.passes, drop.passes) == (3, 2)
    assert "filled up" in fill.note
    assert "the last 1 of each epoch's order are dropped" in drop.note
    assert Order(8, 4).note == ""
    with pytest.raises(DatasetMismatch, match="no complete batch"):
        Order(3, 4, drop_last=True)


def test_orders_follow_from_seed_and_epoch() -> None:
    """Another epoch, another seed: another order; the same ones again: the same. Unshuffled is as it is."""
    orders = [Order(50, 1, seed).of_epoch(epoch).tolist() for seed in (0, 1) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == len(orders)
    assert Order(50, 1, 1).of_epoch(1).tolist() == orders[-1]
    assert Order(50, 1, shuffled=False).of_epoch(3).tolist() == list(range(50))


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("passes", [1, 2, 3, 4])
def test_samples_of_an_update_by_number(passes: int, flush: bool) -> None:
    """An update has the samples that were drawn for it, in the order of their numbers, also beyond an epoch's end."""
    order = Order(9, 4, seed=5)
    updates = Updates(7, passes, flush)
    found = numbered(order, updates)
    for first in range(0, 7, passes):
        window = updates.window(first)
        drawn, sorted_ones = (np.concatenate([o.indices(i) for i in window]) for o in (order, found))
        assert sorted_ones.tolist() == sorted(drawn.tolist())
    assert (found.passes, found.note) == (order.passes, order.note)


def test_split() -> None:
    """Both sides together are all samples, each once; a share that leaves a side empty is refused."""
    kind = TensorType("float32", (1, 1))
    samples = Samples({"x": kind}, {"x": np.arange(10, dtype=np.float32).reshape(10, 1)}, 1)
    rest, held_out = split(samples, 0.3, 4)
    assert (rest.count, held_out.count) == (7, 3)
    assert sorted([*rest.arrays["x"].ravel(), *held_out.arrays["x"].ravel()]) == list(range(10))
    with pytest.raises(DatasetMismatch, match="no samples on one side"):
        split(samples, 0.01, 4)


def test_shapes_of_samples() -> None:
    """Samples, samples with axes of one, whole batches, and labels of several rows per sample; nothing else."""
    types = {"x": TensorType("float32", (4, 1, 3)), "labels": TensorType("int32", (8,))}
    x, labels = np.arange(24.0).reshape(8, 3), np.arange(16).reshape(8, 2)
    for shape in ((8, 3), (8, 1, 3), (2, 4, 1, 3)):
        samples = fitted_samples({"x": x.reshape(shape), "labels": labels}, types)
        assert samples.count == 8
        one, two = samples.of(np.array([7, 0, 1, 2]))
        assert np.array_equal(one, x[[7, 0, 1, 2]][:, None])
        assert np.array_equal(two, labels[[7, 0, 1, 2]].ravel())
    for columns, word in (
        ({"x": x.reshape(4, 6), "labels": labels}, "no samples for 'x'"),
        ({"x": x, "labels": labels.astype(float)}, "no samples for 'labels'"),
        ({"x": x}, "no samples for 'labels'"),
        ({"x": x[:4], "labels": labels}, "different numbers of samples"),
        ({"x": x * np.nan, "labels": labels}, "holds nan"),
    ):
        with pytest.raises(DatasetMismatch, match=word):
            fitted_samples(columns, types)
