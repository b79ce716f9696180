"""Parts of the samples for each device: at random, by drawn shares of each class, by shards of sorted labels."""

import itertools
from collections.abc import Sequence

import numpy as np

from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.core.operator import Array
from deployer.fleets.options import DIRICHLET, SHARDS

STREAM = 3
"""Number of the random stream of splits beside those of shuffling and drawn faults."""
Parts = tuple[Array, ...]
"""The numbers of the samples of each device, in ascending order; together each sample once, and no part is empty."""


def parts_of(count: int, devices: int, seed: int) -> Parts:
    """Parts of equal size, to one sample, of shuffled samples. Raises DatasetMismatch for more devices than samples."""
    _check(count, devices)
    return _sorted(np.array_split(np.random.default_rng([seed, STREAM]).permutation(count), devices))


def dirichlet_parts(labels: Array, devices: int, alpha: float, seed: int) -> Parts:
    """Parts with shares of each class that are drawn from a symmetric Dirichlet distribution of that concentration.

    A device that the draw leaves without samples takes one of the device that has most of them.
    """
    _check(len(labels), devices)
    draw = np.random.default_rng([seed, STREAM])
    found: list[list[Array]] = [[] for _ in range(devices)]
    for each in np.unique(labels):
        numbers = draw.permutation(np.flatnonzero(labels == each))
        cuts = (np.cumsum(draw.dirichlet(np.full(devices, alpha)))[:-1] * len(numbers)).astype(np.int64)
        for device, part in enumerate(np.split(numbers, cuts)):
            found[device].append(part)
    return _sorted(_filled([np.concatenate(part) for part in found]))


def shard_parts(labels: Array, devices: int, each: int, seed: int) -> Parts:
    """Parts of so many shards each, where shards are equal pieces of the samples in the order of their labels."""
    _check(len(labels), devices * each)
    draw = np.random.default_rng([seed, STREAM])
    shuffled = draw.permutation(len(labels))
    pieces = np.array_split(shuffled[np.argsort(labels[shuffled], kind="stable")], devices * each)
    dealt = draw.permutation(devices * each).reshape(devices, each)
    return _sorted([np.concatenate([pieces[number] for number in row]) for row in dealt])


def parts_of_files(counts: Sequence[int]) -> Parts:
    """Parts of samples that lie one file behind another, so many in each."""
    ends = np.cumsum([0, *counts])
    return tuple(np.arange(first, last) for first, last in itertools.pairwise(ends))


def class_numbers(labels: Array, split: str) -> Array:
    """The class of each sample; OptionProblem where the target is other than one class number for each."""
    if labels.dtype.kind not in "iu" or labels.size != len(labels):
        facts = [("target", f"{labels.dtype}{list(labels.shape)}")]
        cause = f"--split {split} needs a class number for each sample"
        raise OptionProblem(cause, facts, "--split iid, or --split files")
    return labels.reshape(-1)


def split_parts(split: str, labels: Array, devices: int, alpha: float, each: int, seed: int) -> Parts:
    """The parts of a split by its name, whose samples have these targets; one of files has its parts already."""
    if split == DIRICHLET:
        return dirichlet_parts(class_numbers(labels, split), devices, alpha, seed)
    if split == SHARDS:
        return shard_parts(class_numbers(labels, split), devices, each, seed)
    return parts_of(len(labels), devices, seed)


def _check(count: int, parts: int) -> None:
    if count < parts:
        facts = [("samples", str(count)), ("parts", str(parts))]
        raise DatasetMismatch("there are fewer samples than parts of them", facts, "more samples, or fewer --devices")


def _sorted(parts: Sequence[Array]) -> Parts:
    return tuple(np.sort(part) for part in parts)


def _filled(parts: list[Array]) -> list[Array]:
    """The parts, of which each empty one has taken the last sample of the longest, the first of equals."""
    for device, part in enumerate(parts):
        if not len(part):
            longest = max(range(len(parts)), key=lambda other: len(parts[other]))
            parts[device], parts[longest] = parts[longest][-1:], parts[longest][:-1]
    return parts
