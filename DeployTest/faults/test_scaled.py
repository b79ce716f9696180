"""Small errors of drawn operators are found, and their steps named: a part of what `DeployTest.faults.scaled` does."""

import random
from pathlib import Path

import pytest

from DeployTest.faults.scaled.__main__ import is_missed, named_steps, scanned, small_errors
from DeployTest.faults.scaled.localised import drawn
from DeployTest.faults.scaled.nets import makers, nets

pytestmark = [pytest.mark.host, pytest.mark.training]
OPERATORS = random.Random(5).sample([of for kind, of in makers() if kind == "operator"], 40)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["operator", "loss", "optimizer", "statistic"])
def test_every_small_error(kind: str) -> None:
    """Of drawn nets of each kind: each result that matters is found a ten-thousandth off, and each fault named."""
    keys = [key for key in makers() if key[0] == kind]
    rows = [scanned(key, 2, 3) for key in random.Random(7).sample(keys, min(len(keys), 3 if kind == "operator" else 1))]
    assert any(row["places"] for row in rows)
    missed = [place for row in rows for place in row["places"] if is_missed(place)]
    assert not missed
    assert not [each for row in rows for each in row["named"] if not each["right"]]
    assert "with an effect" in small_errors(rows)
    assert "all" in named_steps(rows)


@pytest.mark.slow
def test_steps_of_drawn_operators(tmp_path: Path) -> None:
    """The step with a wrong kernel is named, in the first nets of a drawn list that can be trained."""
    results = list(drawn(nets(tmp_path, ("operator",), OPERATORS), 1, 2))
    assert len(results) > 5
    assert not [result for result in results if not result.right]
