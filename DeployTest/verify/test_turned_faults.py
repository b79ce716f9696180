"""Faults planted in the C of programs in which rounding turned a unit: none of them passes or is explained."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from deployer import judging
from deployer.running.report import make_report
from deployer.running.run import _outcome
from DeployTest.faults.inject.draw import draw
from DeployTest.faults.inject.judge import MODES, NOTHING, UNSEEN, judge, right_output
from DeployTest.faults.inject.program import Program, Recipe, make
from DeployTest.support.graphs.turned import PASSES, at_border

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.slow]

SEEDS = range(12)
FAULTS = 40
UNGUARDED = next(mode for mode in MODES if mode.guards == "off")
"""Where the simulator looks the least, so that the verdict has most to see."""


@dataclass(frozen=True)
class Border(Recipe):
    """The case of a seed with a unit at its border, in an L1 that makes tiles."""

    seed: int = 0

    def generate(self, folder: Path) -> Path:
        """Write the case; its *_train folder."""
        return at_border(folder, self.seed)


def verdict_of(program: Program) -> str:
    """The verdict on the program as it is."""
    outcome = _outcome(program.plan, program.case.program, right_output(program, UNGUARDED), PASSES, "BENCH")
    tolerance = program.plan.running.tolerance
    judge = judging.judge_of(program.case, program.plan, outcome, tolerance)
    return make_report(program.plan, outcome, program.expected, tolerance, judge=judge).verdict


def test_every_fault_beside_a_turned_unit_is_seen(tmp_path: Path) -> None:
    """Under every seed whose program turns the unit, on drawn faults that change a bit of the results."""
    turned = 0
    for seed in SEEDS:
        program = make(Border("border", 3000, seed=seed), "double", tmp_path / str(seed))
        if verdict_of(program) != "explained":
            continue
        turned += 1
        results = {fault: judge(program, fault, UNGUARDED) for fault in draw(program, seed, per_class=1)}
        live = {fault: said for fault, said in results.items() if said.result != NOTHING}
        assert len(live) >= FAULTS, seed
        assert not [str(fault) for fault, said in live.items() if said.result == UNSEEN], seed
    assert turned >= 2, "hardly a seed turns the unit"
