"""The work of planning, in counts of calls, is what the committed table says: no search, cache or bound gets lost."""

import re

import pytest

from deployer.planning import timeline
from DeployTest.benchmarks.drawn import Drawn
from DeployTest.benchmarks.upkeep.commits import HERE, measured_at
from DeployTest.benchmarks.upkeep.planning_work import NETWORKS, counted, grown, table
from DeployTest.benchmarks.upkeep.renew import benchmarks, missing

pytestmark = [pytest.mark.host, pytest.mark.training]
RENEW = "`python -m DeployTest.benchmarks.upkeep.planning_work` renews the table where more work is meant"

SLOW = ("resnet8", "transformer")


def _name(network: Drawn) -> str:
    return network.make.__module__.rpartition(".")[2]


@pytest.mark.parametrize(
    "network",
    [pytest.param(x, id=_name(x), marks=[pytest.mark.slow] if _name(x) in SLOW else []) for x in NETWORKS],
)
def test_planning_does_no_more_work_than_the_table_says(network: Drawn) -> None:
    """Each count is at most MOST times the committed one."""
    faults = grown(network.name, table()[network.name], counted(network))
    assert not faults, "\n".join([*faults, RENEW])


@pytest.mark.slow
def test_a_cache_that_is_off_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of one geometry share a timeline; where none does, the count is too large."""
    monkeypatch.setattr(timeline, "loop_key", lambda loop: object())
    network = NETWORKS[0]
    faults = grown(network.name, table()[network.name], counted(network))
    assert any("timelines of steps" in fault for fault in faults), faults


def test_every_table_names_its_commit() -> None:
    """Each benchmark that writes a table, and no other, has a commit in commits.json."""
    commits = measured_at()
    assert commits.keys() == benchmarks().keys()
    assert all(re.fullmatch("[0-9a-f]{8}\\+?", commit) for commit in commits.values())
    writing = {HERE / name.replace(".", "/") for name in benchmarks()}
    assert all(any(path.parent == other.parent for other in writing) for path in HERE.rglob("*.json"))


def test_benchmarks_that_cannot_run_say_why() -> None:
    """One that needs a simulator is skipped without its folder, and runs with it."""
    text = benchmarks()["siracusa"]
    assert "GVSOC_INSTALL_DIR" in missing(text, {})
    assert not missing(text, {"GVSOC_INSTALL_DIR": "anywhere"})
    assert not missing(benchmarks()["planning"], {})
