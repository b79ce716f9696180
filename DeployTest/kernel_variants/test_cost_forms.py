"""Costs of a call are those of the function that the call goes to: a target's lists decide for plans and for costs."""

from dataclasses import replace

import pytest

from deployer import pipeline
from deployer.calibration import measure, sweep
from deployer.core import target
from deployer.core.cost import cost_of
from deployer.core.operator import registry
from deployer.core.plan import Options, Plan, Tiling, target_for
from deployer.kernel_variants import calls
from deployer.kernel_variants.calls import CostedTiles
from deployer.kernel_variants.conditions import costed_of, variants_of
from deployer.kernel_variants.costs import StepCosts
from deployer.lr_schedules.run_time import kernel_args
from deployer.testing.bench import step_of
from DeployTest.benchmarks.cluster.networks import drawn

pytestmark = [pytest.mark.siracusa, pytest.mark.kernels]
TARGET = target.load("siracusa")
LISTED = {
    symbol: found
    for symbol in sorted({op.kernel.symbol for op in registry().values() if op.kernel})
    if (found := variants_of(symbol, TARGET))
}
SEEDS = (2, 3, 8)
"""Networks with depthwise, pointwise and other layers, with norms and without."""


@pytest.fixture(scope="module")
def measured() -> list[sweep.CalibrationCall]:
    """The calls that costs are measured on."""
    return list(sweep.sweep_calls(TARGET))


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Tiling, Plan]]:
    """Plans of drawn networks."""
    folder = tmp_path_factory.mktemp("networks")
    cases = [pipeline.load_training(drawn(seed).write(folder / str(seed))) for seed in SEEDS]
    return [pipeline.plan_case(case, Options(TARGET.name, "auto", {"L1": 128000})) for case in cases]


@pytest.mark.slow
def test_each_function_is_measured(measured: list[sweep.CalibrationCall]) -> None:
    """Some measured call goes to each function, and to the one for all calls of its kernel; keys are of one each."""
    called: dict[str, set[tuple[str, str] | None]] = {}
    for call in measured:
        called.setdefault(call.key, set()).add(measure.function_of(call.job, TARGET, True))
    assert [key for key, functions in called.items() if len(functions) > 1] == []
    everything = set().union(*called.values())
    assert {(symbol, name) for symbol, found in LISTED.items() for name in ("", *(s.name for s in found))} <= everything


@pytest.mark.slow
def test_steps_cost_what_they_call(planned: list[tuple[Tiling, Plan]]) -> None:
    """The function whose costs the solver took for a tile is the one that the step calls."""
    wrong, named = [], set()
    for tiling, plan in planned:
        schedule = tiling.lifetimes.schedule
        for step, choice, made in zip(schedule.steps, tiling.steps, plan.steps, strict=True):
            code, _ = StepCosts(step, target_for(schedule)).of(choice.tile)
            named.add(made.variant)
            if code != ".".join(filter(None, (step.kernel.symbol, made.variant))):
                wrong.append((made.name, code, made.variant))
    assert wrong == []
    assert len(named) > 6


def test_tiles_and_calls_agree(measured: list[sweep.CalibrationCall]) -> None:
    """From the geometry of a tile follows the same function as from the arguments of its call."""
    jobs, symbols, wrong = {call.job.label: call.job for call in measured}, set(), []
    for name, operator in registry().items():
        if name != operator.name or operator.kernel is None or operator.kernel.symbol not in LISTED:
            continue
        symbols.add(operator.kernel.symbol)
        for sample in operator.sweep():
            step, job = step_of(operator, sample), jobs[f"{name} {sample.label}"]
            arguments = kernel_args(step.node, step.access, TARGET.kernel_model)
            found = CostedTiles(operator.kernel, step.access, arguments, TARGET).of(step.access.sizes)
            if found != measure.variant_of(job, TARGET):
                wrong.append(job.label)
    assert wrong == []
    assert symbols == set(LISTED)


def test_the_list_decides(planned: list[tuple[Tiling, Plan]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a function in the list, costs are those of the next one, or of the function for all calls."""
    schedule = planned[0][0].lifetimes.schedule
    before = [StepCosts(step, TARGET).of(step.access.sizes).code for step in schedule.steps]
    assert "conv_f32.fours" in before
    monkeypatch.setattr(calls, "costed_of", lambda symbol, _: LISTED.get(symbol, ())[:1])
    after = [StepCosts(step, TARGET).of(step.access.sizes).code for step in schedule.steps]
    changed = {(a, b) for a, b in zip(before, after, strict=True) if a != b}
    assert ("conv_f32.fours", "conv_f32") in changed


def test_simulated_costs() -> None:
    """A target with costs of another counts as that one does, although it has none of its functions."""
    host = target.load("host")
    assert {symbol: costed_of(symbol, host) for symbol in LISTED} == LISTED
    assert not any(variants_of(symbol, host) for symbol in LISTED)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("m.few.dense", "m.few.dense"),
        ("m.few.tall", "m.tall"),
        ("m.few.long", "m.many.long"),
        ("m.few", "default"),
        ("other.dense", "default"),
        ("m", "default"),
    ],
)
def test_costs_of_what_was_not_measured(key: str, nearest: str) -> None:
    """A form costs what it does by the function for all calls, else by another function; else there is the default."""
    costs = TARGET.kernels["default"]
    keys = ("default", "m.dense", "m.tall", "m.few.dense", "m.many.tall", "m.many.long", "m.most.long")
    kernels = {name: replace(costs, call=number) for number, name in enumerate(keys)}
    assert cost_of(replace(TARGET, kernels=kernels), key) == kernels[nearest]
