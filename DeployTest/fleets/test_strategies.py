"""Strategies beside numpy in float64, by hand, and in any order of replies."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployer.fleets.compression import Compression
from deployer.fleets.strategies import DevicePart, FleetStrategy, ServerState, mean_of, stepped

pytestmark = [pytest.mark.host]
DEVICES, SIZE = 7, 33
NAMES = ("fedavg", "fedprox", "fedavgm", "fedadam")


def drawn(seed: int) -> tuple[ServerState, list[DevicePart]]:
    """Global weights with running statistics, and replies of devices with different samples.

    Magnitudes are so far apart that a sum in float64 depends on its order.
    """
    draw = np.random.default_rng(seed)

    def one() -> np.ndarray:
        return (draw.standard_normal(SIZE) * 2.0 ** draw.integers(-20, 20, SIZE)).astype(np.float32)

    def weights() -> dict[str, np.ndarray]:
        return {name: one() for name in ("w", "mean")}

    state = ServerState(weights())
    return state, [DevicePart(n, int(draw.integers(1, 90)), weights()) for n in range(DEVICES)]


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(DEVICES)), st.sampled_from(NAMES), st.booleans(), st.integers(0, 9))
def test_order_of_replies(order: list[int], name: str, changes: bool, seed: int) -> None:
    """Two rounds have the same bits in any order, though sums of floats depend on it."""
    state, parts = drawn(seed)
    strategy = FleetStrategy(name, 0.5)
    first = second = state
    for _ in range(2):
        first = stepped(strategy, first, parts, changes, ("mean",))
        second = stepped(strategy, second, [parts[i] for i in order], changes, ("mean",))
    for known, found in ((first.weights, second.weights), (first.moments, second.moments)):
        assert {n: a.tobytes() for n, a in known.items()} == {n: a.tobytes() for n, a in found.items()}


def test_sums_depend_on_their_order() -> None:
    """Summed as they come, some order of these replies has other bits: the order of devices is needed."""
    _, parts = drawn(0)
    values = {
        sum((p.samples * p.arrays["w"].astype(np.float64) for p in ps), np.zeros(SIZE)).tobytes()
        for ps in (parts, parts[::-1], parts[3:] + parts[:3])
    }
    assert len(values) > 1


def test_mean_is_exact_to_its_rounding() -> None:
    """The mean weighted by samples, beside fractions, is off by the rounding of its float64 sum at most."""
    _, parts = drawn(1)
    found = mean_of(parts, "w")
    total = sum(part.samples for part in parts)
    for i in range(SIZE):
        exact = sum(part.samples * Fraction(float(part.arrays["w"][i])) for part in parts) / total
        size = sum(part.samples * abs(Fraction(float(part.arrays["w"][i]))) for part in parts) / total
        # a product, a sum and the quotient each round once: 2 n roundings of half a unit
        assert abs(Fraction(float(found[i])) - exact) <= 2 * DEVICES * Fraction(1, 1 << 53) * size


def test_each_strategy_by_hand() -> None:
    """Three rounds of each strategy beside its paper's formulas, written out for one number after another."""
    for name, rate in (("fedavg", 1.0), ("fedavgm", 0.7), ("fedadam", 0.02)):
        state, _ = drawn(2)
        strategy = FleetStrategy(name, rate, 0.8, 0.95, 1e-4)
        weight, first, second = [float(x) for x in state.weights["w"]], [0.0] * SIZE, [0.0] * SIZE
        for number in range(3):
            _, parts = drawn(10 + number)
            state = stepped(strategy, state, parts, False)
            total = sum(part.samples for part in parts)
            for i in range(SIZE):
                mean = 0.0
                for part in parts:
                    mean += part.samples * float(part.arrays["w"][i])
                mean /= total
                if name == "fedavg":
                    new = mean
                elif name == "fedavgm":
                    first[i] = 0.8 * first[i] + (mean - weight[i])
                    new = weight[i] + 0.7 * first[i]
                else:
                    change = mean - weight[i]
                    first[i] = 0.8 * first[i] + (1 - 0.8) * change
                    second[i] = 0.95 * second[i] + (1 - 0.95) * change * change
                    new = weight[i] + 0.02 * first[i] / (math.sqrt(second[i]) + 1e-4)
                weight[i] = float(np.float32(new))
            assert state.weights["w"].tolist() == weight, (name, number)


def test_statistics_are_averaged_as_they_are() -> None:
    """Running statistics are no weights: the server's optimizer leaves them alone, also beside changes."""
    state, parts = drawn(3)
    for name in NAMES:
        found = stepped(FleetStrategy(name, 0.1), state, parts, True, ("mean",)).weights
        assert found["mean"].tobytes() == mean_of(parts, "mean").astype(np.float32).tobytes()
        assert found["w"].tobytes() != mean_of(parts, "w").astype(np.float32).tobytes()


CHANGES = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=40)


@settings(max_examples=80, deadline=None)
@given(CHANGES)
def test_bytes_are_near(values: list[float]) -> None:
    """A change of 8 bits is off by half a 127th of the largest one, and the next update has what is left out."""
    change = np.array(values, np.float32)
    own = Compression("int8")
    sent = own.packed({"w": change})
    found = own.unpacked(sent, {"w": change.shape})["w"]
    assert sent["w/int8"].dtype == np.int8
    largest = float(np.abs(change).max())
    step = float(sent["w/scale"][0])
    # the scale, a quotient and a product round in float32: each by a unit of 2**-24 of the largest, subnormals by one
    slack = 4 * (2.0**-24 * largest + 2.0**-149 * 127)
    assert (np.abs(found.astype(np.float64) - change) <= step / 2 + slack).all()
    again = own.packed({"w": change})
    assert {name: array.tobytes() for name, array in again.items()} == {n: a.tobytes() for n, a in sent.items()}


@settings(max_examples=80, deadline=None)
@given(CHANGES, st.sampled_from([0.01, 0.3, 1.0]))
def test_largest_elements(values: list[float], share: float) -> None:
    """Exactly the largest magnitudes are sent, of equal ones the first, and all of them with a share of 1."""
    change = np.array(values, np.float32)
    own = Compression("topk", share)
    sent = own.packed({"w": change})
    found = own.unpacked(sent, {"w": change.shape})["w"]
    count = max(1, math.ceil(share * change.size))
    wanted = sorted(range(change.size), key=lambda i: (-abs(float(change[i])), i))[:count]
    assert sorted(wanted) == sent["w/places"].tolist()
    assert {i: found[i] for i in wanted} == {i: change[i] for i in wanted}
    assert not np.delete(found, wanted).any()


def test_error_feedback_adds_up() -> None:
    """Over many updates of the same change, what arrives differs from their sum by what is kept, and no more."""
    change = np.random.default_rng(0).standard_normal(50).astype(np.float32)
    for own in (Compression("int8"), Compression("topk", 0.1)):
        kept, arrived = np.zeros_like(change), np.zeros(50)
        for _ in range(40):
            wanted = change + kept
            found = own.unpacked(own.packed({"w": wanted}), {"w": wanted.shape})["w"]
            kept, arrived = wanted - found, arrived + found
        # each of 40 updates rounds a sum and a difference in float32
        bound = 2 * 40 * 2.0**-24 * np.abs(wanted).max()
        assert np.abs(arrived + kept - 40.0 * change).max() <= bound
        assert np.abs(kept).max() < 40 * np.abs(change).max() / 2
