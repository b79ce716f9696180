"""Calibration recovers the costs of a simulated machine whose costs are known."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.calibration import calibrate, measure, sweep
from deployer.calibration.calibrate import Calibration
from deployer.calibration.measure import DISPATCH, Job, KernelJob, Measured, TransferJob
from deployer.core import target as targets
from deployer.core.cost import cold_start, cost_key, cost_of, kernel_cost, kernel_cycles
from deployer.core.errors import OptionProblem
from deployer.core.ir import Program
from deployer.core.kernel import Work
from deployer.core.operator import Array, registry
from deployer.core.plan import Options, Tiling
from deployer.core.target import Target
from deployer.planning.timeline import simulate
from deployer.running.profile import StepProfile
from DeployTest.support.building.cases import load_case
from DeployTest.support.building.other_levels import FLAT, NAMED, add_targets
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.kernels]
NAMES = ("siracusa", *(pytest.param(name, marks=pytest.mark.slow) for name in (NAMED, FLAT)))
BOUND = table()["calibration"]


def machine_of(name: str) -> Target:
    """The machine: another one than the files know, on which calls cost alike that count together."""
    known = replace(targets.load(name), dispatch=95, step=210, tile=37, contention=150)
    kinds = dict[tuple[str, str, str], Counter[str]]()
    for call in sweep.sweep_calls(known):
        kinds.setdefault(call.kind, Counter())[call.key] += call.work.then is None
    alike = {key: min(keys) for keys in kinds.values() if min(keys.values()) < sweep.FEW for key in keys}
    return replace(known, kernels=known.kernels | {key: cost_of(known, other) for key, other in alike.items()})


def works(target: Target) -> Iterator[tuple[str, str, Work]]:
    """Label, function and work of every call that calibration makes."""
    for call in sweep.sweep_calls(target):
        yield call.job.label, call.code, call.work


class Machine:
    """Answers measurements as `truth` would."""

    def __init__(self, truth: Target) -> None:
        """Know the work of each call by its label, and tilings by their plans."""
        self.truth = truth
        self.works = {label: (symbol, work) for label, symbol, work in works(truth)}

    def run(self, target: Target, jobs: Sequence[Job], directory: Path) -> list[Measured]:
        """In place of `measure.measure_jobs`."""
        return [self.measured(job) for job in jobs]

    def measured(self, job: Job) -> Measured:
        """The first of three runs is cold; a transfer is started and awaited."""
        if isinstance(job, TransferJob):
            hop = self.truth.hops[job.hop]
            channel = hop.inward if job.direction == "in" else hop.outward
            cycles = hop.issue + channel.cycles(job.run * job.count, job.count)
            return Measured(job.label, (cycles + 50, cycles, cycles), (hop.issue + 9, hop.issue, hop.issue), {})
        assert isinstance(job, KernelJob)
        if job is DISPATCH:
            return Measured(job.label, (300, self.truth.dispatch, self.truth.dispatch), (0, 0, 0), {})
        symbol, work = self.works[job.label]
        warm = kernel_cycles(self.truth, symbol, work)
        return Measured(job.label, (warm + cold_start(self.truth, symbol, work), warm, warm), (0, 0, 0), {})

    def profiled(
        self, program: Program, options: Options, inputs: Mapping[str, Array], folder: Path
    ) -> tuple[Tiling, list[StepProfile]]:
        """As `pipeline.profiled` where programs can run: each step as the machine has it."""
        tiling, plan = pipeline.plan_program(program, options)
        truth = self.truth
        rows = []
        for step, choice in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
            timeline = simulate(step, choice, truth, True)
            kernels = tuple(0 for _ in plan.steps[step.index].tile_cycles)
            rows.append(StepProfile(step.index, "", "", "measured", (), kernels, (), timeline.cycles, 0))
        return tiling, rows


@dataclass(frozen=True)
class Trial:
    """A calibration, the machine it was made on, and function and work of each call by its label."""

    calibration: Calibration
    truth: Target
    works: Mapping[str, tuple[str, Work]]

    @property
    def target(self) -> Target:
        """The target with the fitted costs."""
        return self.calibration.target


@pytest.fixture(scope="module", params=NAMES)
def trial(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """A calibration of a machine, with target files of its own; levels may be few and have any names."""
    with pytest.MonkeyPatch.context() as patch:
        add_targets(tmp_path_factory.mktemp("targets"), patch)
        truth = machine_of(request.param)
        machine = Machine(truth)
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(measure, "measure_jobs", machine.run)
            result = calibrate.calibrate_target(
                request.param, "a machine of the tests", machine.profiled, lambda text: None
            )
        read = targets.load(request.param)
        same = replace(result.target, toolchain=None) == replace(read, toolchain=None)
        assert same, "what is written is what was found"
        yield Trial(result, truth, machine.works)


@pytest.mark.slow
def test_transfers_and_dispatch(trial: Trial) -> None:
    """Whole cycles are all that is lost."""
    assert trial.target.dispatch == trial.truth.dispatch
    for hop, truth in zip(trial.target.hops, trial.truth.hops, strict=True):
        assert (hop.issue, hop.shared) == (truth.issue, truth.shared)
        for channel, true in ((hop.inward, truth.inward), (hop.outward, truth.outward)):
            for size, lines in [(n, 1) for n in calibrate.SIZES] + [(r * n, n) for r, n in calibrate.LINES]:
                expected = true.cycles(size, lines)
                assert abs(channel.cycles(size, lines) - expected) <= BOUND["transfers"] * expected, (size, lines)


def test_kernels(trial: Trial) -> None:
    """Every call that was measured is predicted, and each fit says how well."""
    assert {f.symbol for f in trial.calibration.fits} == {
        cost_key(symbol, work.cost_class) for symbol, work in trial.works.values()
    }
    for label, (symbol, work) in trial.works.items():
        expected = kernel_cycles(trial.truth, symbol, work)
        assert abs(kernel_cycles(trial.target, symbol, work) - expected) <= BOUND["kernels"] * expected, label
    for fit in trial.calibration.fits:
        assert fit.median <= fit.worst <= BOUND["kernels"]
        true = kernel_cost(trial.truth, fit.symbol)
        assert abs(trial.target.kernels[fit.symbol].cold - true.cold) <= 1, "a pass sees all of a cold start there"


def test_loops(trial: Trial) -> None:
    """The code around kernels.

    Tiles and contention explain each other's cycles: only what they make of programs is compared.
    """
    assert abs(trial.target.step - trial.truth.step) <= BOUND["steps"] * trial.truth.step


@pytest.mark.parametrize("strategy", ["single", "double"])
@pytest.mark.parametrize(("test", "size"), [("autoencoder", 16000), ("simple_mlp", 4000)])
def test_programs(test: str, size: int, strategy: str, trial: Trial, models_root: Path) -> None:
    """Whole programs take what the machine takes for them: in a model of costs that is what counts."""
    case = load_case(test, models_root)
    budgets = {trial.truth.levels[0].name: size}
    tiling = pipeline.plan_case(case, Options(trial.truth.name, strategy, budgets))[0]
    cycles = {}
    for name, target in (("fitted", trial.target), ("truth", trial.truth)):
        machine = target.with_options(budgets, None)
        steps = zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True)
        cycles[name] = sum(simulate(step, choice, machine, True).cycles for step, choice in steps)
    assert abs(cycles["fitted"] - cycles["truth"]) <= BOUND["programs"] * cycles["truth"], cycles


def test_measurements_that_fall_below_zero() -> None:
    """A channel whose time is all lines has no setup and no bytes, not less than none."""
    shapes = [(n, 1) for n in calibrate.SIZES] + [(r * n, n) for r, n in calibrate.LINES]
    falling = [max(1, 900 * lines - size // 100) for size, lines in shapes]
    measured = [Measured("", (c, c, c), (0, 0, 0), {}) for c in falling]
    channel = calibrate._channel(measured, 0)
    assert min(channel.setup, channel.byte_milli, channel.line_milli) >= 0
    assert channel.line_milli > 0


@pytest.mark.parametrize("spare", [0, -4])
def test_a_job_fits_the_innermost_level(spare: int, tmp_path: Path) -> None:
    """A job has its table, its operands and the guards in the innermost level; one float more is refused by name."""
    kernel = registry()["Relu"].kernel
    assert kernel is not None
    target = targets.load("siracusa")
    level = target.levels[0]
    table = -(-kernel.table_bytes(target.pointer_bytes) // 16) * 16
    size = (level.bytes - level.reserved - table - 2 * measure.GUARD - spare) // 4
    job = KernelJob(
        "wide",
        kernel,
        {kernel.pointers[0][0]: np.zeros(size, np.float32)},
        dict.fromkeys((name for name, _ in kernel.scalars), 0),
    )
    assert measure.fits(target, job) == (spare == 0)
    if spare:
        with pytest.raises(OptionProblem, match=f"'wide' needs {level.bytes - level.reserved + 4} B of {level.name}"):
            measure.measure_jobs(target, [job], tmp_path)


def test_a_model_is_not_measured(tmp_path: Path) -> None:
    """The host's clock is the cost model: measuring it would measure nothing."""
    with pytest.raises(OptionProblem, match="model"):
        measure.measure_jobs(targets.load("host"), [measure.DISPATCH], tmp_path)


def test_few_calls_count_with_others_of_their_kind() -> None:
    """A single call would cost the same however large it is; with others of its kind it costs what these do."""
    line, other = ("gemm_f32", "", "vector"), ("gemm_f32", "", "narrow")

    def points(*sizes: int) -> list[sweep.CalibrationPoint]:
        return [sweep.CalibrationPoint(str(n), Work(n, n, 1, "vector"), 100 + 3 * n, 100 + 3 * n) for n in sizes]

    own = {"gemm_f32.long": points(1000), "gemm_f32.line": points(*range(100, 700, 100)), "gemm_f32.one": points(7)}
    kinds = {"gemm_f32.long": line, "gemm_f32.line": line, "gemm_f32.one": other}
    found = sweep.with_others(own, kinds)
    assert [len(found[key]) for key in own] == [7, 6, 1]
    cost = calibrate.fit_kernel("gemm_f32.long", found["gemm_f32.long"], cores=1).cost
    assert (cost.call, cost.mac_milli + cost.element_milli) == (100, 3000)
