"""Counts of the work of planning: solver calls, candidates, timelines and more; writes planning_work.json.

Run as `python -m DeployTest.benchmarks.upkeep.planning_work`. Counts are of calls, and never of time: a cache that
fails shows on any machine. A test plans the same networks and compares.
"""

import cProfile
import json
import pstats
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ortools.sat.python.cp_model import CpSolver

from deployer import pipeline
from deployer.core.plan import Options
from deployer.kernel_variants.costs import StepCosts
from deployer.loops import graph_program as graph_run
from deployer.loops import lower
from deployer.planning import timeline
from deployer.planning.cross_step import choose
from deployer.tilers.addresses import placement
from deployer.tilers.levels.candidates import StepCandidates, movement
from deployer.tilers.levels.dma_timeline import DmaTimeline, _Clocked
from deployer.verify.plan import verify_plan
from DeployTest.benchmarks.drawn import Drawn
from DeployTest.benchmarks.upkeep.commits import stamp
from DeployTest.models import autoencoder, resnet8, transformer

RESULT = Path(__file__).with_suffix(".json")
MOST = 1.3
"""Largest allowed growth of a count over the table's."""
NETWORKS = (
    Drawn(autoencoder.generate, {"seed": 1}, 24_000, 0),
    Drawn(transformer.generate, {"layers": 1, "tokens": 16, "width": 32, "hidden": 64, "seed": 1}, 24_000, 40_000),
    Drawn(resnet8.generate, {"blocks": 1, "samples": 1, "seed": 1}, 64_000, 0),
)
COUNTED: dict[str, Callable[..., Any]] = {
    "solver calls": CpSolver.solve,
    "steps with candidates": StepCandidates.__init__,
    "candidates": StepCandidates.fronts,
    "costs of tiles": StepCosts.of,
    "movements": movement,
    "choices on the clock between": DmaTimeline.cycles,
    "stages on the clock between": _Clocked.run,
    "timelines of steps": timeline.simulate,
    "steps of graphs timed": graph_run._GraphRun._run,
    "programs lowered": lower.lower,
    "choices of crossings": choose._Choice.chosen,
    "packings": placement.place,
    "plans verified": verify_plan,
}
"""Functions by what each of their calls is; a generator's is one of what it yields."""
ALL = "calls in all"


def counted(network: Drawn) -> dict[str, int]:
    """Count each event, and all calls of functions, while a network is planned on one thread."""
    _warm()
    case, options = _read(network)
    profile = cProfile.Profile()
    profile.enable()
    pipeline.plan_case(case, options, jobs=1)
    profile.disable()
    calls = {place: numbers[1] for place, numbers in pstats.Stats(profile).stats.items()}  # type: ignore[attr-defined]
    codes = {what: function.__code__ for what, function in COUNTED.items()}
    found = {what: calls.get((code.co_filename, code.co_firstlineno, code.co_name), 0) for what, code in codes.items()}
    return found | {ALL: sum(calls.values())}


@cache
def _warm() -> None:
    """Plan once what is not counted: a process reads its registry and targets but once."""
    pipeline.plan_case(*_read(NETWORKS[0]), jobs=1)


def _read(network: Drawn) -> tuple[pipeline.Case, Options]:
    """The case of a network, and the options of its budgets."""
    with tempfile.TemporaryDirectory() as name:
        case = pipeline.load_training(network.make(Path(name) / "case", **network.words))
    budgets = {"L1": network.l1, "L2": network.l2} if network.l2 else {"L1": network.l1}
    return case, Options("host", "auto", budgets, outermost="L3" if network.l2 else None)


def table() -> dict[str, dict[str, int]]:
    """The committed counts by network."""
    counts: dict[str, dict[str, int]] = json.loads(RESULT.read_text())
    return counts


def grown(network: str, before: dict[str, int], now: dict[str, int]) -> list[str]:
    """List the counts that are above MOST times the table's, as texts."""
    return [
        f"{network}: {now[what]} {what}, {now[what] / max(count, 1):.2f} times the {count} of {RESULT.name}"
        for what, count in before.items()
        if now[what] > MOST * count
    ]


def main() -> None:
    """Write the table."""
    counts = {network.name: counted(network) for network in NETWORKS}
    RESULT.write_text(json.dumps(counts, indent=1) + "\n")
    stamp(__file__)
    print(RESULT.read_text())


if __name__ == "__main__":
    main()
