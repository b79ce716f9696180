"""Philox 4x32-10, random numbers without a state: words that follow from a key and a counter alone.

Salmon, Moraes, Dror, Shaw, Parallel random numbers: as easy as 1, 2, 3, SC 2011, section 3.3 and table 1;
`philox_f32.h` is the same in C.
"""

import numpy as np
import numpy.typing as npt

from deployer.core.operator import Array

ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85
"""What a round adds to each half of the key."""
WORDS = 4
"""Words that a counter gives."""
WORD = 0xFFFFFFFF
BITS = 32

Words = npt.NDArray[np.uint32]


def philox(counter: Array, key: tuple[int, int]) -> Words:
    """Four words for each counter of four words along the last axis."""
    mask, shift = np.uint64(WORD), np.uint64(BITS)
    a, b, c, d = (np.asarray(word, np.uint64) for word in np.moveaxis(np.asarray(counter), -1, 0))
    k = list(key)
    for _ in range(ROUNDS):
        first, second = (np.uint64(m) * x for m, x in zip(MULTIPLIERS, (a, c), strict=True))
        a, b = (second >> shift) ^ b ^ np.uint64(k[0]), second & mask
        c, d = (first >> shift) ^ d ^ np.uint64(k[1]), first & mask
        k = [(half + step) & WORD for half, step in zip(k, WEYL, strict=True)]
    return np.stack([a, b, c, d], axis=-1).astype(np.uint32)


def halves(seed: int) -> tuple[int, int]:
    """The key of a seed: its low and its high word."""
    return seed & WORD, (seed >> BITS) & WORD


def drawn(seed: int, stream: int, passes: int, count: int) -> Words:
    """The words of elements 0 to `count` of a stream in a pass.

    Word i % 4 of the counter (i / 4, pass, stream, 0) is that of element i, so that each is known without the others.
    """
    blocks = np.arange(-(-count // WORDS), dtype=np.uint64)
    rest = [np.full_like(blocks, number & WORD) for number in (passes, stream, 0)]
    return philox(np.stack([blocks, *rest], axis=-1), halves(seed)).reshape(-1)[:count]
