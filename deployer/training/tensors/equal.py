"""Find tensors that repeat another one's numbers: with permuted axes, reshaped, or repeated."""

import hashlib
import itertools
from collections.abc import Iterable, Mapping

import numpy as np

from deployer.core.operator import Array
from deployer.training.tensors.edits import WeightCopy

MOST_AXES = 4
"""The most axes of other than one element whose orders are tried."""


def once(array: Array) -> Array:
    """The part of an array that is repeated along its axes, with as many axes."""
    for axis, length in enumerate(array.shape):
        first = array.take([0], axis)
        if length > 1 and bool((array == first).all()):
            array = first
    return array


def key(array: Array) -> tuple[int, str]:
    """The same for all arrays with the same numbers, whatever their order and however often they are repeated."""
    part = np.sort(once(array), axis=None).astype(np.float32) + np.float32(0)  # no negative zeros
    return part.size, hashlib.sha256(part.tobytes()).hexdigest()


def by_key(arrays: Mapping[str, Array]) -> dict[tuple[int, str], list[str]]:
    """The names of arrays of at least two different numbers, by their keys."""
    found: dict[tuple[int, str], list[str]] = {}
    for name, array in arrays.items():
        part = once(array)
        if part.size > 1:
            found.setdefault(key(part), []).append(name)
    return found


def copy_of(source: str, array: Array, copy: Array) -> WeightCopy | None:
    """Rewrite that makes `copy` of a source's array; None where there is none."""
    full = copy.shape
    for target in (copy, once(copy)):
        if target.size == array.size:
            for shape, order in _orders(array):
                if bool((array.reshape(shape).transpose(order).reshape(-1) == target.reshape(-1)).all()):
                    return WeightCopy(source, shape, order, target.shape, full)
    return None


def _orders(array: Array) -> Iterable[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shapes of an array, each with an order of axes: its own first."""
    yield array.shape, tuple(range(array.ndim))
    shape = tuple(length for length in array.shape if length != 1)
    if 1 < len(shape) <= MOST_AXES:
        yield from (
            (shape, order) for order in itertools.permutations(range(len(shape))) if order != tuple(sorted(order))
        )
