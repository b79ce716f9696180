"""Costs of a call are those of the function that the call goes to: one rule decides, for plans and for costs.

Forms of work say which way a kernel takes; functions for some calls of a kernel are such ways, and have conditions in
the target's lists. Where both speak of a call they must say the same.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.calibration import measure, sweep
from deployer.core import target
from deployer.core.operator import operator_of
from deployer.core.plan import Options
from DeployTest.benchmarks.cluster.networks import drawn

pytestmark = [pytest.mark.siracusa, pytest.mark.kernels]
TARGET = target.load("siracusa")
GENERAL = {"dense", "wide", "strided", "uneven", "tall", "windows"}
FORMS = {
    "conv_f32": {
        "": GENERAL,
        "planes": {"strips"},
        "strips": {"strips", "low"},
        "pointwise": {"pointwise"},
        "matrix": {"pointwise"},
        "first": {"first"},
        "fours": {"fours"},
        "moving": {"moving"},
        "lines": {"depthwise", "tall", "windows"},
    },
    "conv_grad_x_f32": {
        "": GENERAL | {"thinned"},
        "planes": {"strips"},
        "strips": {"strips", "low"},
        "pointwise": {"pointwise"},
        "matrix": {"pointwise"},
        "fours": {"fours"},
        "lines": {"depthwise", "tall", "windows"},
    },
    "conv_grad_w_f32": {
        "": {"taps"},
        "plane": {"depthwise"},
        "nine": {"nine"},
        "rows": {"rows", "pointwise", "strided"},
        "squares": {"pointwise", "strided"},
        "pairs": {"pairs", "alone"},
        "threes": {"dense", "alone", "by_rows", "tall"},
        "fours": {"wide"},
        "alone": {"wide", "windows"},
    },
}
"""For the functions of kernels the forms of calls that go to them, without what finishes a result."""
FORMS["conv_sgd_f32"] = FORMS["conv_grad_w_f32"]
FINISHES = ("_relu", "_gated", "_biased")


def _measured() -> Iterator[tuple[str, str, str, str]]:
    for call in sweep.sweep_calls():
        symbol, name = measure.function_of(call.job, TARGET, True) or ("", "")
        yield call.job.label, symbol, name, call.work.form


def _planned(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    for seed in (2, 3, 8):
        case = pipeline.load_training(drawn(seed).write(folder / str(seed)))
        tiling, plan = pipeline.plan_case(case, Options(TARGET.name, "auto", {"L1": 128000}))
        for step, choice, chosen in zip(tiling.lifetimes.schedule.steps, tiling.steps, plan.steps, strict=True):
            work = operator_of(step.node).work(step.node, step.access, choice.tile)
            yield f"{seed} {chosen.name}", step.kernel.symbol, chosen.specialization, work.form


def _disagreeing(calls: Iterator[tuple[str, str, str, str]]) -> list[tuple[str, str, str, str]]:
    found = []
    for label, symbol, name, form in calls:
        plain = form
        for finish in FINISHES:
            plain = plain.removesuffix(finish)
        if symbol in FORMS and plain not in FORMS[symbol][name]:
            found.append((label, symbol, name, form))
    return found


def test_measured_layers() -> None:
    """Each measured call goes to the function that its form is the cost of."""
    assert _disagreeing(_measured()) == []


def test_planned_steps(tmp_path: Path) -> None:
    """So does each step of a plan, by the tile that its cost is computed for."""
    assert _disagreeing(_planned(tmp_path)) == []
