"""Random words: the vectors of the paper's authors, and what masks that are made of them look like."""

import itertools
import math

import numpy as np
import pytest

from deployer.core.ir import Node
from deployer.operators.base.philox import drawn, philox
from deployer.operators.elementwise.random import kept

pytestmark = [pytest.mark.host, pytest.mark.kernels]

KNOWN = {
    (0, 0, 0, 0, 0, 0): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    (0xFFFFFFFF,) * 6: (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0): (
        *(0xD16CFE09, 0x94FDCCEB),
        *(0x5001E420, 0x24126EA1),
    ),
}
"""Counter and key to words: philox4x32 with 10 rounds in `kat_vectors` of Random123, the library of the paper."""
FAILING = 1e-9
"""The probability, over seeds, that the test of masks fails though words are independent and uniform: no more."""
COUNT = 1 << 16
RATIOS = (0.1, 0.25, 0.5, 0.9)
LAGS = (1, 2, 3, 4, 5, 8, 64, 4096)


def test_known_answers() -> None:
    """One counter, and all of them at once."""
    for given, words in KNOWN.items():
        assert tuple(map(int, philox(np.array(given[:4]), (given[4], given[5])))) == words
    counters, keys = np.array([given[:4] for given in KNOWN]), {given[4:] for given in KNOWN}
    for key in keys:
        rows = philox(counters, key)
        assert all(np.array_equal(row, philox(counter, key)) for row, counter in zip(rows, counters, strict=True))


def test_place_of_a_word() -> None:
    """A word follows from seed, node, pass and element alone: of fewer elements the first ones are the same."""
    words = drawn((7 << 32) + 3, 2, 1000, 11)
    expected = [philox(np.array([block, 1000, 2, 0]), (3, 7)) for block in range(3)]
    np.testing.assert_array_equal(words, np.concatenate(expected)[:11])
    np.testing.assert_array_equal(drawn((7 << 32) + 3, 2, 1000, 5), words[:5])
    np.testing.assert_array_equal(drawn(5, 0, -1, 4), philox(np.array([0, 0xFFFFFFFF, 0, 0]), (5, 0)))


def _mask(ratio: float, seed: int, stream: int, passes: int) -> np.ndarray:
    return kept(Node("n", "", (), (), {"ratio": ratio, "seed": seed, "stream": stream}), passes, COUNT)


def _shares() -> dict[str, tuple[float, float]]:
    """Return the share of Bernoulli trials that came out true, and the expectation of each trial.

    Of fair masks, which elements are kept in one and not in another, or not so many places later, are independent
    trials themselves.
    """
    shares = {}
    for ratio, seed, stream, passes in itertools.product(RATIOS, (0, 1, 1 << 40), (0, 1), (1, 2)):
        key = f"{seed}, {stream}, {passes}"
        shares[f"{ratio} of {key}"] = float(_mask(ratio, seed, stream, passes).mean()), 1 - ratio
    one = _mask(0.5, 0, 0, 1)
    others = {"seed": (1, 0, 1), "upper seed": (1 << 32, 0, 1), "node": (0, 1, 1), "pass": (0, 0, 2)}
    shares |= {name: (float((one ^ _mask(0.5, *key)).mean()), 0.5) for name, key in others.items()}
    shares |= {f"{lag} on": (float((one[lag:] ^ one[:-lag]).mean()), 0.5) for lag in LAGS}
    return shares


def test_masks() -> None:
    """The share that is kept, and that masks of other elements, passes, nodes and seeds are others.

    By Hoeffding's inequality a share of n trials is t or more off with a probability of 2 exp(-2 n t^2) at most; the
    bound is such that all comparisons together have FAILING.
    """
    shares = _shares()
    bound = math.sqrt(math.log(2 * len(shares) / FAILING) / (2 * (COUNT - max(LAGS))))
    assert bound < 0.02
    for name, (share, expected) in shares.items():
        assert abs(share - expected) < bound, name


def test_ratio_is_float32() -> None:
    """As in ONNX, whose ratio is a float: the share of words below the threshold is that number within 2^-33."""
    words = 1 << 32
    for ratio in RATIOS:
        node = Node("n", "", (), (), {"ratio": ratio})
        mask, lowest = kept(node, 1, COUNT), drawn(0, 0, 1, COUNT)
        assert lowest[mask].min() >= words * float(np.float32(ratio)) - 0.5
        assert lowest[~mask].max() < words * float(np.float32(ratio)) + 0.5
