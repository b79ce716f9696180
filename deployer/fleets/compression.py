"""Compressed updates: a change of weights as numbers of 8 bits or as its largest elements, and what that leaves out.

What is left out of an update is kept on the device and added to its next one (error feedback).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deployer.fleets.options import INT8, NONE, TOP_K

LARGEST = 127
"""The largest number of 8 bits that an update has; the smallest is its negative."""
SCALE, NUMBERS, PLACES, VALUES = "/scale", "/int8", "/places", "/values"
"""Ends of the names of arrays that a compressed tensor is sent as."""
Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = dict[str, Array]


@dataclass(frozen=True)
class Compression:
    """A compression by its name; `share` of the elements of each tensor are sent by top-k, at least one."""

    name: str = NONE
    share: float = 1.0

    def packed(self, changes: Mapping[str, Array]) -> Arrays:
        """The arrays that are sent for changes in float32."""
        found: Arrays = {}
        for name, change in changes.items():
            if self.name == INT8:
                found |= _as_bytes(name, change)
            elif self.name == TOP_K:
                found |= _as_largest(name, change, max(1, math.ceil(self.share * change.size)))
            else:
                found[name] = change
        return found

    def unpacked(self, sent: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
        """The changes in float32 that were sent as these arrays, for tensors of these shapes."""
        found: Arrays = {}
        for name, shape in shapes.items():
            if self.name == INT8:
                found[name] = (sent[name + NUMBERS] * sent[name + SCALE]).reshape(shape)
            elif self.name == TOP_K:
                change = np.zeros(math.prod(shape), np.float32)
                change[sent[name + PLACES]] = sent[name + VALUES]
                found[name] = change.reshape(shape)
            else:
                found[name] = sent[name]
        return found


def _as_bytes(name: str, change: Array) -> Arrays:
    """Multiples of a 127th of the largest magnitude, to the nearest, ties to even."""
    flat = change.reshape(-1)
    scale = np.float32(np.abs(flat).max(initial=0) / np.float32(LARGEST))
    numbers = np.rint(flat / scale) if scale > 0 else np.zeros_like(flat)
    return {name + NUMBERS: np.clip(numbers, -LARGEST, LARGEST).astype(np.int8), name + SCALE: scale.reshape(1)}


def _as_largest(name: str, change: Array, count: int) -> Arrays:
    """So many elements of the largest magnitude, of equal ones the first, in the order of their places."""
    flat = change.reshape(-1)
    places = np.sort(np.argsort(-np.abs(flat), kind="stable")[:count]).astype(np.uint32)
    return {name + PLACES: places, name + VALUES: flat[places]}


def sent_bytes(sent: Mapping[str, Array]) -> int:
    """Bytes of what is sent, without names and headers."""
    return sum(array.nbytes for array in sent.values())
