"""Initial state of a library and images of its state, as bytes that contain no address.

docs/firmware-state.md has the format: a header, the words of tensors, and a digest of all that, little-endian.
"""

import hashlib
import itertools
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from deployer.codegen.render import loaded_homes
from deployer.core.ir import DTYPES, Program, Tensor
from deployer.core.operator import Array
from deployer.core.plan import Home, Plan
from deployer.core.safe_text import json_line

MAGIC, VERSION = b"dply", 2
HEADER = struct.Struct("<4sIIQII")
"""Magic, version, kind, identity, bytes of the image, passes since the last update."""
DIGEST = struct.Struct("<Q")
SLOT_MAGIC = b"slot"
SLOT = struct.Struct("<4sIQ")
"""Before an image in flash: magic, number of the save, digest of both."""
DONE_MAGIC, KEPT_MAGIC = b"done", b"kept"
DONE = struct.Struct("<4sI")
"""Behind an image in flash, in units of their own: that its save is done, and that it was when the next one began."""
UNIT_MOST = 256
KINDS = ("state", "weights", "changes")
"""What an image holds, by its number: all that lasts; weights alone; those weights that differ from the first ones."""
STATE, WEIGHTS, CHANGES = range(len(KINDS))
GRADIENTS = len(KINDS)
"""The kind of images of gradients alone, which devices exchange and no flash keeps."""
FNV_OFFSET, FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
FNV_BLOCK = 1 << 14
"""Bytes that are digested at once: their sums lie in the processor's cache."""
WORD = DTYPES["float32"]
"""Bytes of a word: of an element, or of several of 8 bits."""


def words_of(home: Home) -> int:
    """Words of a tensor, the last of which may be in part its own."""
    return -(-home.bytes // WORD)


@dataclass(frozen=True, eq=False)
class InitialTensor:
    """A tensor with its place in the memory and its first content, as words."""

    home: Home
    words: Array

    @property
    def uniform(self) -> bool:
        """Whether all words are the same, so that one of them says all."""
        return bool((self.words == self.words.reshape(-1)[0]).all())


@dataclass(frozen=True)
class Kept:
    """A tensor of the state: its home, and whether it is a weight; else an optimizer's, a counter, or a gradient."""

    home: Home
    is_weight: bool


@dataclass(frozen=True)
class StateLayout:
    """Layout of a state: tensors in order, and for each kind of image its model's identity and its maximal bytes.

    Images of states and of weights fit where tensors and frozen constants are the same, those of changes where the
    first weights are, too. `gradients` are the numbers of the tensors that passes add up for their update.
    """

    kept: tuple[Kept, ...]
    identities: tuple[int, ...]
    most: tuple[int, ...]
    gradients: range = range(0)

    @property
    def gradient_bytes(self) -> int:
        """Bytes of an image of gradients."""
        return HEADER.size + sum(self.kept[number].home.bytes for number in self.gradients) + DIGEST.size


def initial_tensors(plan: Plan, program: Program, weights: Mapping[str, Array]) -> tuple[InitialTensor, ...]:
    """Weights, states of the optimizer and constants as a run begins with them, in the order of their homes."""
    filled = {plan.storage_of[name] for name in plan.data}
    homes = [home for home in loaded_homes(plan) if home.storage not in filled]
    return tuple(InitialTensor(home, _words(home, program, weights)) for home in homes)


def _words(home: Home, program: Program, weights: Mapping[str, Array]) -> Array:
    known = weights.get(home.storage)
    array = program.tensors[home.storage].array if known is None else known
    content = np.ascontiguousarray(array, np.dtype(home.type.dtype).newbyteorder("<")).tobytes()
    return np.frombuffer(content.ljust(words_of(home) * WORD, b"\0"), "<u4")


def is_state(tensor: Tensor) -> bool:
    """Whether a tensor that lasts is an optimizer's or a counter, which no sample file holds; else it is a weight."""
    return tensor.data is not None


def state_layout(
    plan: Plan, program: Program, initial: Sequence[InitialTensor], beside: Sequence[Home] = ()
) -> StateLayout:
    """Lay out the model's images: persistent tensors in the plan's order, gradients that outlive a pass, and those
    `beside` the plan's.
    """
    lasting = [plan.home(plan.storage_of[name]) for name in plan.weights]
    kept = [Kept(home, not is_state(program.tensors[home.storage])) for home in lasting]
    kept += [Kept(home, False) for home in (*plan.accumulators, *beside)]
    whole = HEADER.size + sum(k.home.bytes for k in kept) + DIGEST.size
    weights = HEADER.size + sum(k.home.bytes for k in kept if k.is_weight) + DIGEST.size
    changes = weights + WORD * sum(k.is_weight for k in kept)
    tensors = [[k.home.storage, k.home.type.dtype, *k.home.type.shape, k.is_weight] for k in kept]
    digests = {p.home.storage: hashlib.sha256(p.words.tobytes()).hexdigest() for p in initial}
    names = {k.home.storage for k in kept}
    frozen = sorted([name, content] for name, content in digests.items() if name not in names)
    same = _identity([VERSION, plan.options.accumulate, tensors, frozen])
    first = _identity([same, sorted(map(list, digests.items()))])
    gradients = range(len(lasting), len(lasting) + len(plan.accumulators))
    return StateLayout(tuple(kept), (same, same, first), (whole, weights, changes), gradients)


def _identity(facts: object) -> int:
    return int.from_bytes(hashlib.sha256(json_line(facts).encode()).digest()[:8], "little")


def first_image(layout: StateLayout, initial: Sequence[InitialTensor]) -> bytes:
    """The image of the state that a run begins with."""
    known = {tensor.home.storage: tensor.words.tobytes() for tensor in initial}
    body = b"".join(known.get(k.home.storage, bytes(k.home.bytes)) for k in layout.kept)
    return sealed_image(STATE, layout.identities[STATE], 0, body)


def sealed_image(kind: int, identity: int, passes: int, body: bytes) -> bytes:
    """An image with this body: its header before it, its digest behind it."""
    length = HEADER.size + len(body) + DIGEST.size
    content = HEADER.pack(MAGIC, VERSION, kind, identity, length, passes) + body
    return content + DIGEST.pack(fnv1a(content))


def fnv1a(content: bytes) -> int:
    """The 64-bit FNV-1a digest of bytes (Fowler, Noll and Vo)."""
    digest, data = FNV_OFFSET, np.frombuffer(content, np.uint8)
    for start in range(0, data.size, FNV_BLOCK):
        block = data[start : start + FNV_BLOCK]
        mixed = _mixed(block, digest & 0xFF)
        # exclusive-or changes the lowest byte alone: as an addition it lets products be summed in one go
        added = mixed.astype(np.int64) - (mixed ^ block)
        total = int(np.dot(added.view(np.uint64), _powers()[-block.size :]))
        digest = (digest * pow(FNV_PRIME, block.size, 1 << 64) + total) & (1 << 64) - 1
    return digest


def fnv1a_each(data: Array, places: Array, length: int) -> Array:
    """The digests of so many bytes at each of several places."""
    digests = np.full(places.shape, FNV_OFFSET, np.uint64)
    for at in range(length):
        digests = (digests ^ data[places + at]) * np.uint64(FNV_PRIME)
    return digests


def _mixed(block: Array, low: int) -> Array:
    """The lowest byte of the digest behind each exclusive-or with a byte of the block; `low` is that before the first.

    Bit k of a product depends on bits up to k of its factors, so that bits are found one after another for all bytes.
    """
    mixed = np.zeros(block.size, np.uint8)
    for k in range(8):
        bits = block & np.uint8(1 << k)
        bits[1:] ^= (mixed * np.uint8(FNV_PRIME & 0xFF))[:-1] & np.uint8(1 << k)
        bits[0] ^= low & 1 << k
        mixed |= np.bitwise_xor.accumulate(bits)
    return mixed


@cache
def _powers() -> Array:
    """Powers of the prime for a block, the first for its last byte."""
    powers = itertools.accumulate(itertools.repeat(FNV_PRIME, FNV_BLOCK), lambda a, b: a * b & (1 << 64) - 1)
    return np.array(list(powers)[::-1], np.uint64)
