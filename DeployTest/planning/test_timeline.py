"""The planned timeline has the cycles of the simulated machine, also for a machine with other costs."""

import re
import shutil
from pathlib import Path

import pytest

from deployer.core import target as targets
from DeployTest.support.building.cases import check_clock, compile_case, load_case

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.mark.parametrize("strategy", ["single", "double"])
def test_where_waiting_takes_time(
    strategy: str, models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wait for a transfer has a cost, except for one that was never started; the hops have exchanged engines."""
    folder = tmp_path / "targets"
    shutil.copytree(targets.TARGETS_DIR, folder)
    costs = folder / "siracusa" / "costs.toml"
    text = costs.read_text()
    assert text.count("wait = 0\n") == 2
    text = text.replace("wait = 0\n", "wait = 7\n", 1).replace("wait = 0\n", "wait = 23\n", 1)
    swapped = {"shared = true": "shared = false", "shared = false": "shared = true"}
    costs.write_text(re.sub("shared = (true|false)", lambda match: swapped[match[0]], text))
    monkeypatch.setattr(targets, "TARGETS_DIR", folder)
    assert [hop.wait for hop in targets.load("host").hops] == [7, 23]
    case = load_case("simple_mlp", models_root)
    built = compile_case(case, tmp_path / "c", strategy, 1600, l2=4000, outermost="L3")
    assert any(step.staging for step in built.plan.steps)
    assert any(op.slots > 1 for step in built.plan.steps for op in step.operands) == (strategy != "single")
    check_clock(built, built.run())
