"""Schedules of blocks of sums: each sum has all of its products in their order, of values and weights loaded before."""

import re
from collections import defaultdict
from itertools import pairwise

import pytest

from DeployTest.support.kernels import block_schedules
from DeployTest.support.kernels.block_schedules import woven

pytestmark = [pytest.mark.host, pytest.mark.kernels]
FOURS = {name.removeprefix("FOURS_"): words for name, _, words in block_schedules.macros() if name.startswith("FOURS")}
TAPS = {"THREE": (0, 1, 2), "MOVING": (0, 1, 2), "TWO": (0, 2), "ONE": (0,)}
"""Weights of a row by the first word of its name."""
LOADS = {"VALUE": (0, 0), "WIDE": (0, 1), "EVEN": (1, 0), "ODD": (1, 2)}
"""Places of what a load reads and of the register that it writes, in its operands."""


def numbers(word: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", word.partition("(")[2])))


def products(words: list[str]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Run a row of conv_fours.h: the products (tap, value) of each sum (channel, output), as they are added.

    No sum directly follows the load of what it reads, and no weight is that of another channel.
    """
    values, weights = dict[int, int](), dict[int, tuple[int, int]]()
    found, fresh = defaultdict[tuple[int, int], list[tuple[int, int]]](list), ""
    for word in words:
        kind, operands = word.partition("(")[0], numbers(word)
        if kind in ("VALUE", "WIDE"):
            values[operands[LOADS[kind][1]]], fresh = operands[0], f"fa{operands[LOADS[kind][1]]}"
        elif kind in ("EVEN", "ODD"):
            to = operands[LOADS[kind][1]]
            weights[to], fresh = (operands[0], operands[1]), f"ft{to}"
        elif kind == "SUM":
            m, p, w, x = operands
            assert fresh not in (f"ft{w}", f"fa{x}"), word
            channel, tap = weights[w]
            assert channel == m, word
            found[m, p].append((tap, values[x]))
            fresh = ""
        else:
            assert kind == "ADD", word
            fresh = ""
    return found


@pytest.mark.parametrize("name", FOURS)
def test_sums_of_fours(name: str) -> None:
    """Tap b of output p meets value p + b, or 2 p + b where the window moves by two; one output may lack a tap."""
    kind, _, lacks = name.partition("_BUT_")
    weights = TAPS[kind]
    move = 2 if kind == "MOVING" else 1
    wanted = {
        (m, p): [(tap, move * p + place) for place, tap in enumerate(weights)] for m in range(4) for p in range(4)
    }
    output, place = {"": (0, None), "FIRST": (0, 0), "LAST": (3, -1)}[lacks]
    for m in range(4) if place is not None else ():
        del wanted[m, output][place]
    assert products(FOURS[name]) == wanted
    steps = [word for word in FOURS[name] if word.startswith("ADD")]
    assert sorted(steps) == sorted([*block_schedules.CHANNEL_STEPS, block_schedules.ROW_STEP])


@pytest.mark.parametrize(("name", "taps"), [("SIXTEEN_2", 2), ("SIXTEEN_3", 3)])
def test_sums_of_sixteen(name: str, taps: int) -> None:
    """Every sum has as many products as there are taps, and none follows the load of one of its factors."""
    words = next(words for found, _, words in block_schedules.macros() if found == name)
    sums = [numbers(word) for word in words if word.startswith("MAC")]
    assert sorted(sums) == sorted(((10 * m + p), m, p) for m in range(4) for p in range(4) for _ in range(taps))
    for load, after in pairwise(words):
        if load.startswith("FLW") and after.startswith("MAC"):
            _, m, p = numbers(after)
            assert load.split('"')[1] not in (f"ft{m}", f"fa{p}"), after


def test_woven() -> None:
    """Sums follow the other instructions in groups; an empty one keeps its place, what is left comes last."""
    assert woven(["a", "", "c"], ["1", "2", "3", "4", "5"], [1, 1, 0], 1) == ["1", "a", "2", "3", "c", "4", "5"]
