"""The verifier of plans names rewrites that the program does not have, or that the options leave out."""

from dataclasses import replace
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.core import artefact
from deployer.core.errors import VerifyFailed
from deployer.core.plan import Options
from deployer.verify.plan import verify_plan
from DeployTest.support.building.cases import load_case

pytestmark = [pytest.mark.host, pytest.mark.training]


def test_rewrites_of_plans(models_root: Path) -> None:
    """A plan has its program's rewrites, and none that was left out."""
    tiling, plan = pipeline.plan_case(load_case("autoencoder", models_root), Options(budgets={"L1": 64000}))
    assert plan.rewrites == tiling.lifetimes.schedule.program.rewrites
    assert "finish" in plan.rewrites
    verify_plan(plan, tiling)
    with pytest.raises(VerifyFailed, match="not those of the program"):
        verify_plan(replace(plan, rewrites=()), tiling)
    schedule = tiling.lifetimes.schedule
    options = replace(schedule.options, disabled_rewrites=("finish",))
    without = replace(tiling, lifetimes=replace(tiling.lifetimes, schedule=replace(schedule, options=options)))
    with pytest.raises(VerifyFailed, match=r"'finish'.* leave out"):
        verify_plan(replace(plan, options=options, digest=artefact.digest(without)), without)
