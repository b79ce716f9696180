"""What a library begins with, and the image of its state: a header, each tensor in order, and a digest of all that.

An image is bytes, little-endian: `MAGIC`, the version of the format, the model's identity in 8 bytes, the length of the
image, the passes since the last update, the words of the tensors, and in 8 bytes the FNV-1a digest of all before it
(Fowler, Noll and Vo; 64 bits). It depends on no address: any build of the model reads it.
"""

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.codegen.render import loaded_homes
from deployer.core.ir import DTYPES, Program
from deployer.core.operator import Array
from deployer.core.plan import Home, Plan
from deployer.core.safe_text import json_line

MAGIC, VERSION = b"dply", 1
HEADER = struct.Struct("<4sIQII")
DIGEST = struct.Struct("<Q")
FNV_OFFSET, FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
WORD = DTYPES["float32"]
"""Bytes of an element, of any type."""


@dataclass(frozen=True, eq=False)
class Part:
    """A tensor with its place in the memory and its first content, as words."""

    home: Home
    words: Array

    @property
    def uniform(self) -> bool:
        """Whether all words are the same, so that one of them says all."""
        return bool((self.words == self.words.reshape(-1)[0]).all())


def first_parts(plan: Plan, program: Program, weights: Mapping[str, Array]) -> tuple[Part, ...]:
    """Weights, states of the optimizer and constants as a run begins with them, in the order of their homes."""
    filled = {plan.storage_of[name] for name in plan.data}
    homes = [home for home in loaded_homes(plan) if home.storage not in filled]
    return tuple(Part(home, _words(home, program, weights)) for home in homes)


def _words(home: Home, program: Program, weights: Mapping[str, Array]) -> Array:
    known = weights.get(home.storage)
    array = program.tensors[home.storage].array if known is None else known
    return np.ascontiguousarray(array, np.dtype(home.type.dtype).newbyteorder("<")).reshape(-1).view("<u4")


def kept_homes(plan: Plan) -> tuple[Home, ...]:
    """The homes that an image holds: weights and states of the optimizer, then gradients where they outlive a pass."""
    return (*(plan.home(plan.storage_of[name]) for name in plan.weights), *plan.accumulators)


def identity(plan: Plan) -> int:
    """A number that says which images fit: the same for the same tensors in the same order, whatever their values."""
    tensors = [[home.storage, home.type.dtype, *home.type.shape] for home in kept_homes(plan)]
    text = json_line([VERSION, plan.options.accumulate, tensors])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def image_bytes(plan: Plan) -> int:
    """The length of an image."""
    return HEADER.size + sum(home.bytes for home in kept_homes(plan)) + DIGEST.size


def first_image(plan: Plan, parts: Sequence[Part]) -> bytes:
    """The image of the state that a run begins with."""
    known = {part.home.storage: part.words.tobytes() for part in parts}
    body = b"".join(known.get(home.storage, bytes(home.bytes)) for home in kept_homes(plan))
    head = HEADER.pack(MAGIC, VERSION, identity(plan), image_bytes(plan), 0)
    return head + body + DIGEST.pack(fnv1a(head + body))


def fnv1a(content: bytes) -> int:
    """The 64-bit FNV-1a digest of bytes."""
    digest = FNV_OFFSET
    for byte in content:
        digest = (digest ^ byte) * FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return digest
