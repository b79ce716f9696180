"""Infinities among compared values: the distance of equal ones is 0, of others infinite; NaN equals NaN alone."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from deployer.core.plan import Options, Plan, RunOptions
from deployer.running import report
from deployer.running.run import Outcome
from deployer.verify import verdict
from deployer.verify.tolerances import TOLERANCES
from deployer.verify.verdict import Expected
from DeployTest.support.building.cases import worst_difference
from DeployTest.support.building.command_line import LOSS, deployer
from DeployTest.support.graphs.small_graphs import Case, chain, node

pytestmark = [pytest.mark.host, pytest.mark.training]

INF, NAN = np.inf, np.nan
PAIRS = [
    (INF, INF, 0.0),
    (-INF, -INF, 0.0),
    (INF, -INF, INF),
    (-INF, INF, INF),
    (INF, 1.0, INF),
    (1.0, -INF, INF),
    (NAN, NAN, 0.0),
    (1.0, NAN, NAN),
    (NAN, 1.0, NAN),
    (NAN, INF, NAN),
    (-INF, NAN, NAN),
]
"""The actual value, the expected one and their distance."""
NO_PLAN = Plan(Options(), "", (), 0, (), (), (), (), (), (), {}, RunOptions(1, TOLERANCES.loss, 0))


def f32(*numbers: float) -> np.ndarray:
    """A vector of float32."""
    return np.array(numbers, np.float32)


def faults(outcome: Outcome, expected: Expected, relative: float = 0.0) -> tuple[str, ...]:
    """Return the verdict's faults of an outcome."""
    return report.make_report(NO_PLAN, outcome, expected, TOLERANCES.weight, relative).faults


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("actual", "expected", "distance"), PAIRS)
def test_values(actual: float, expected: float, distance: float) -> None:
    """In outputs and in losses, at the element where they are."""
    one, other = f32(1, actual, 2), f32(1, expected, 2)
    row = verdict.difference("y", one, other)
    np.testing.assert_equal(row.largest, distance)
    assert row.index == ((0,) if distance == 0 else (1,))
    for relative in (0.0, 1e-6):
        messages = faults(Outcome("", (), {"y": one}, {}, 0), Expected("test", arrays={"y": other}), relative)
        assert [f for f in messages if f.startswith("y[1]: differs by")] == messages_beyond(
            distance, f"y[1]: differs by {distance:.3e}"
        )
    messages = faults(Outcome("", (0.5, actual), {}, {}, 0), Expected("test", losses=(0.5, expected)))
    losses = [message for message in messages if not message.startswith("the run diverged in pass 1 ")]
    assert losses == messages_beyond(distance, f"loss 1: computed {actual:.9g}, expected {expected:.9g}")
    assert (losses == list(messages)) is bool(np.isfinite(actual))


def messages_beyond(distance: float, text: str) -> list[str]:
    """The text as the only message, or none for a distance of 0."""
    return [] if distance == 0 else [text]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("actual", "gold", "distance"), PAIRS)
def test_movements(actual: float, gold: float, distance: float) -> None:
    """Of weights and accumulators: an infinity excuses no other element, nor does it condemn one."""
    initial, rest = f32(0, 0, 0), 2.0
    expected = Expected("test", arrays={"w": f32(1, gold, rest)}, initial={"w": initial}, updates=1)
    held = Expected("test", accumulators={"g": f32(1, gold, rest)})
    for other in (rest, 3.0):
        values = f32(1, actual, other)
        [moved] = verdict.movements({"w": values}, expected)
        [sums] = verdict.accumulator_movements({"g": values}, held)
        assert moved.passed == sums.passed == (distance == 0 and other == rest), (moved, sums)
        messages = faults(Outcome("", (), {"w": values}, {}, 0), expected)
        assert bool(messages) == (distance != 0 or other != rest)


def test_still_infinite() -> None:
    """A weight that is infinite before and after the run has not moved there."""
    wide = {"w": f32(INF, 1)}
    expected = Expected("test", arrays=wide, initial={"w": f32(INF, 0)}, updates=1)
    assert not faults(Outcome("", (), wide, {}, 0), expected)
    for broken in (f32(-INF, 1), f32(0, 1), f32(NAN, 1)):
        [row] = verdict.movements({"w": broken}, expected)
        assert not row.passed


def test_sizes_are_not_stretched() -> None:
    """One value is not compared with each of several."""
    with pytest.raises(ValueError, match="reshape"):
        verdict.distances(f32(1, 1), f32(1))


def test_largest_of_a_case() -> None:
    """The largest difference that the tests look at."""
    for actual, gold, distance in PAIRS:

        class Samples:
            expected_losses = (gold,)

        class Given:
            dataset, expected = Samples, {"w": f32(1)}

        outcome = Outcome("", (actual,), {"w": f32(1)}, {}, 0)
        assert worst_difference(Given, outcome) == (INF if np.isnan(distance) else distance)  # type: ignore[arg-type]


LOG_CASES = [
    ((0.0, 0.0, 1.0), (-INF, -INF, 0.0), 0, "0.00e+00"),
    ((0.0, 0.0, 1.0), (-INF, INF, 0.0), 1, "inf"),
    ((0.0, 0.0, 1.0), (-INF, 5.0, 0.0), 1, "inf"),
    ((0.0, 1.0, 1.0), (-INF, -INF, 0.0), 1, "inf"),
    ((-1.0, 1.0, 1.0), (NAN, 0.0, 0.0), 0, "0.00e+00"),
    ((-1.0, 1.0, 1.0), (1.0, 0.0, 0.0), 1, "nan"),
    ((1.0, 1.0, 1.0), (NAN, 0.0, 0.0), 1, "nan"),
]


@pytest.mark.parametrize(("x", "gold", "code", "largest"), LOG_CASES)
def test_inference_command(
    x: tuple[float, ...],
    gold: tuple[float, ...],
    code: int,
    largest: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Logarithms of zero, on the command line and in report.json."""
    model = chain(node("Log", ("x",), ("y",)), out=(3,), x=(3,))
    model.save(tmp_path / "m" / "network.onnx")
    np.savez(tmp_path / "m" / "inputs.npz", x=f32(*x))
    np.savez(tmp_path / "m" / "outputs.npz", y=f32(*gold))
    capsys.readouterr()
    assert deployer("infer", "-t", tmp_path / "m", "-o", tmp_path / "c") == code
    assert f"largest difference {largest} (y)" in capsys.readouterr().out
    [row] = json.loads((tmp_path / "c" / "report.json").read_text())["weights"]
    assert row["largest"] == (0.0 if code == 0 else largest)


FAR = float(2**70)
"""Its square is beyond float32."""


@pytest.mark.parametrize("gold", [INF, -INF, NAN, 1.0])
def test_training_command(gold: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A loss that overflows while no weight moves ends the run; nobody may expect it, and the program says it."""
    weights, zeros = np.full((4, 3), 0.5, np.float32), np.zeros((2, 3), np.float32)
    arrays = {"arr_0002": weights}
    for prefix in ("", "mb1_"):
        arrays |= {f"{prefix}arr_0000": zeros, f"{prefix}arr_0001": np.full((2, 4), FAR, np.float32)}
    case = Case(arrays=dict(arrays), gold={"loss": f32(*[gold] * 4), "w": weights})
    case.program(tmp_path)
    folder = case.dataset(tmp_path)
    capsys.readouterr()
    finite = bool(np.isfinite(gold))
    assert deployer("train", "-t", folder, "-o", tmp_path / "c", "--dma-order", "late") == (1 if finite else 2)
    said = capsys.readouterr()
    assert (f"holds {gold} at [0]" in said.err) is not finite
    if finite:
        assert "Errors: 1 out of 1" in said.out
        assert {(row[1], row[3]) for row in LOSS.findall(said.out)} == {("inf", "inf")}
        assert len(re.findall(r"^FAULT loss", said.out, re.MULTILINE)) == 1
