"""Compiler pipeline: the stages in order, with each artefact verified between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from deployer.codegen import generate
from deployer.codegen.harness import inference_input, training_input
from deployer.core import artefact
from deployer.core.errors import DatasetMismatch, OptionProblem, TilingInfeasible, VerifyFailed, Warn, python_warning
from deployer.core.files.reading import real_path
from deployer.core.ir import Graph, Program, records_of
from deployer.core.operator import Array
from deployer.core.plan import Options, Plan, RunOptions, Tiling, target_of
from deployer.frontend import check, parse
from deployer.frontend.dataset import FILE_LIMIT, Dataset, data_inputs, load, load_inference, windows
from deployer.frontend.prepare import NO_AXES, Axes
from deployer.frontend.raw_graph import RawGraph
from deployer.frontend.runtime import case as runtime_case
from deployer.frontend.runtime.case import Parameters
from deployer.lr_schedules.lr_schedule import LrSchedule, shown_rates
from deployer.lr_schedules.run_time import with_run_time_rates
from deployer.planning import fuse, lifetimes, schedule
from deployer.planning.place import PackingGap
from deployer.planning.plan_choice import ONCE, Progress, across_steps, place_tiling, plan_best, silent
from deployer.running import build, output
from deployer.running import run as run_stage
from deployer.running.profile import StepProfile, measured_profile, model_profile
from deployer.running.run import Outcome
from deployer.training.samples import drawn_inputs
from deployer.verify.checked import moments, state_bytes, usual_checks
from deployer.verify.program import verify_program
from deployer.verify.reference import Memory, as_float32, completed, final_memory, run_inference, with_oracle
from deployer.verify.tolerances import TOLERANCES
from deployer.verify.verdict import Expected

OUTPUTS, REFERENCE = "outputs.npz", "the float64 reference"


@dataclass(frozen=True, eq=False)
class Case:
    """A test case: its program, and the numbers it trains or infers with."""

    directory: Path
    program: Program
    dataset: Dataset | None
    inputs: dict[str, Array]
    expected: dict[str, Array]
    note: str
    notes: tuple[str, ...] = ()  # what a report says of the case besides
    train: RawGraph | None = None  # the training graph as its file has it

    @property
    def passes(self) -> int:
        """Forward passes of a run."""
        return self.dataset.n_batches if self.dataset else 1


def load_training(
    directory: Path,
    n_steps: int | None = None,
    n_accum: int | None = None,
    learning_rate: float | None = None,
    changing: int | None = None,
    warn: Warn = python_warning,
    lr_schedule: LrSchedule | None = None,
    flush: bool | None = None,
    axes: Axes = NO_AXES,
) -> Case:
    """Read and check a training case. What its files do not record is computed by the float64 reference.

    `changing` is the number of graph inputs that differ per sample, for cases of one sample with frozen inputs. `warn`
    is called with what is odd but harmless in the files, and `axes` are lengths that they leave open, here and below.
    With a `lr_schedule`, or with rates in the files, the program takes its rates when it runs. `flush` says whether
    passes that are left at the end have an update of their own; by default it is as the files say, or they have none.
    """
    read = _read_training(directory, learning_rate, changing, warn, axes)
    dataset = read.dataset(n_steps, n_accum, lr_schedule is None, flush)
    read, dataset, notes = _with_rates(read, dataset, learning_rate, lr_schedule)
    dataset, note = _with_expected(read, dataset, learning_rate, lr_schedule is not None)
    notes = (*notes, *windows(dataset))
    return Case(read.folder, read.program, dataset, {}, dict(dataset.expected_weights), note, notes, read.train)


@dataclass(frozen=True, eq=False)
class _Training:
    """Graphs of a training case as a program; `parameters` is set if its files are ONNX Runtime's artifacts."""

    folder: Path
    program: Program
    parameters: Parameters | None
    train: RawGraph

    @property
    def expected(self) -> Path:
        """The file with expected results, if there is one."""
        return self.folder / (runtime_case.EXPECTED if self.parameters else OUTPUTS)

    def dataset(
        self, n_steps: int | None = None, n_accum: int | None = None, rated: bool = True, flush: bool | None = None
    ) -> Dataset:
        """Its numbers, with the rates of its files if `rated`, and an update of passes that are left if `flush`."""
        if self.parameters:
            return runtime_case.load_runtime(self.parameters, self.program, n_steps, n_accum, bool(flush))
        return load(self.folder, self.program, n_steps=n_steps, n_accum=n_accum, rated=rated, flush=flush)


def _read_training(
    directory: Path, learning_rate: float | None, changing: int | None, warn: Warn, axes: Axes
) -> _Training:
    parameters: Parameters | None = None
    count: int | None
    if runtime_case.is_runtime_case(directory):
        folder, source = directory, runtime_case.read_runtime_graphs(directory, axes)
        parameters = runtime_case.read_parameters(directory, source.main)
        count = changing or parameters.data_inputs
    else:
        folder = parse.train_dir(directory)
        source = parse.read_graphs(folder / "network.onnx", parse.optimizer_dir(folder) / "network.onnx", axes)
        count = changing or data_inputs(folder)
    program = check.check_program(source, data_inputs=count, learning_rate=learning_rate, warn=warn)
    verify_program(program)
    return _Training(folder, program, parameters, source.main)


def _with_rates(
    read: _Training, dataset: Dataset, learning_rate: float | None, lr_schedule: LrSchedule | None
) -> tuple[_Training, Dataset, tuple[str, ...]]:
    """The program with rates that it takes when it runs, those of each update, and what to say of them.

    They are those of the schedule, or of the files; where there are neither, nothing changes.
    """
    if lr_schedule is None and not dataset.rates.size:
        return read, dataset, ()
    program, bases = with_run_time_rates(read.program)
    if lr_schedule is not None:
        bases = bases if learning_rate is None else (learning_rate,)
        if lr_schedule.listed and len(bases) > 1:
            facts = [("rates", ", ".join(f"{base:g}" for base in bases))]
            hint = "a relative schedule, which all of them follow"
            raise OptionProblem("the optimizer graph has several learning rates, and a list sets one", facts, hint)
        dataset = replace(dataset, rates=lr_schedule.rates(bases, dataset.updates, bases[0]))
    elif learning_rate is not None:
        hint = "--lr-scheduler constant beside it, or another schedule"
        raise OptionProblem("--lr would replace the rates of all updates, which the case holds", hint=hint)
    if dataset.rates.shape[1] != len(bases):
        counts = [("in the file", str(dataset.rates.shape[1])), ("in the optimizer graph", str(len(bases)))]
        raise DatasetMismatch(f"{read.folder}: the rates belong to other parameter groups", counts, "--lr-scheduler")
    return replace(read, program=program), dataset, (shown_rates(dataset.rates, lr_schedule),)


def _with_expected(
    read: _Training, dataset: Dataset, learning_rate: float | None, scheduled: bool
) -> tuple[Dataset, str]:
    """The dataset with expected results of all passes and weights, and their source; a new schedule has none yet."""
    name, program = read.expected.name, read.program
    if not read.expected.exists():
        return with_oracle(program, dataset), f"{REFERENCE} (there is no {name})"
    losses_known = len(dataset.expected_losses) >= dataset.n_batches
    partial = read.parameters is not None
    changed = learning_rate is not None or not losses_known or not dataset.expected_weights
    if scheduled or (changed and not partial):
        return with_oracle(program, dataset), f"{REFERENCE} (options differ from the recorded run)"
    if losses_known and dataset.expected_weights.keys() >= set(program.updated.values()):
        return dataset, name
    return completed(program, dataset), f"{name}, and {REFERENCE} for what it does not record"


def load_optimizer_case(
    directory: Path, learning_rate: float | None = None, warn: Warn = python_warning, axes: Axes = NO_AXES
) -> Case:
    """The optimizer graph of a training case alone, on its initial weights and gradients drawn from a fixed seed.

    `directory` is the training or the optimizer folder; the float64 reference says what must come out.
    """
    name = real_path(directory).name
    if name.endswith("_optimizer"):
        directory = real_path(directory).with_name(name.removesuffix("_optimizer") + "_train")
    read = _read_training(directory, learning_rate, None, warn, axes)
    weights = read.dataset().weights
    program = optimizer_program(read.program)
    draw = np.random.default_rng(0)
    inputs = {n: draw.standard_normal(program.tensors[n].type.shape).astype(np.float32) for n in program.data}
    outputs = run_inference(program, {**inputs, **weights}, np.float64)
    expected = {n: as_float32(outputs[n]) for n in program.outputs}
    return Case(read.folder, program, None, {**inputs, **weights}, expected, REFERENCE)


def optimizer_program(training: Program) -> Program:
    """The optimizer graph with its gradients as data inputs and the updated weights as outputs."""
    nodes = training.graphs[-1].nodes
    names = {name for node in nodes for name in (*node.inputs, *node.outputs) if name}
    names |= {training.storage(name) for name in names}
    accumulators = set(training.accumulators)
    tensors = {
        n: replace(t, role="data") if n in accumulators else t for n, t in training.tensors.items() if n in names
    }
    return Program(
        tensors,
        (Graph("infer", nodes),),
        data=tuple(n for n in training.accumulators if n in names),
        weights=tuple(n for n in training.weights if n in names),
        accumulators=(),
        flag="",
        outputs=tuple(n for n in training.updated if n in names),
        updated={},
    )


def load_inference_case(directory: Path, warn: Warn = python_warning, axes: Axes = NO_AXES) -> Case:
    """Read and check an inference case, or a model's file alone, whose inputs are drawn from a fixed seed."""
    is_alone = directory.is_file()
    path = directory if is_alone else directory / "network.onnx"
    program = check.check_program(parse.read_graphs(path, None, axes), warn=warn)
    verify_program(program)
    expected: dict[str, Array] = {}
    if is_alone:
        inputs, directory = drawn_inputs(program), path.with_suffix("")
    else:
        inputs, expected = load_inference(directory, program)
    if (directory / OUTPUTS).exists():
        return Case(directory, program, None, inputs, expected, OUTPUTS)
    outputs = run_inference(program, inputs, np.float64)
    expected = {n: as_float32(outputs[n]) for n in program.outputs}
    return Case(directory, program, None, inputs, expected, f"{REFERENCE} (there is no {OUTPUTS})")


def expectation(case: Case, plan: Plan, begun: Memory | None = None) -> Expected:
    """Return the losses and arrays that a run of the case must produce.

    Accumulators that the plan keeps get the content that the float64 reference computes. `begun` is its memory after
    the first pass, where that is known.
    """
    program, dataset = case.program, case.dataset
    initial = dataset.weights if dataset else case.inputs
    weights = {n: initial[n] if n in initial else program.tensors[n].array for n in program.weights}
    moved = {n: weights[program.storage(n)] for n in case.expected if program.storage(n) in weights}
    outputs = {program.storage(n) for node in program.nodes for n in node.outputs if n}
    accumulators = {}
    if dataset and plan.accumulators:
        memory = final_memory(program, dataset, np.float64, begun=begun)[1]
        accumulators = {home.storage: as_float32(memory[home.storage]) for home in plan.accumulators}
    return Expected(
        reference=case.note,
        losses=dataset.expected_losses if dataset else (),
        arrays=case.expected,
        initial=moved,
        updates=dataset.updates if dataset else 1,
        frozen={n: weights[n] for n in plan.weights if n not in outputs and dataset},
        accumulators=accumulators,
        by_reference=bool(dataset and dataset.by_reference),
        notes=case.notes,
        tensors=records_of(program) if dataset else (),
    )


def running_of(case: Case, tolerance: float = TOLERANCES.loss, checks: int | None = None) -> RunOptions:
    """The passes and the tolerance of a run of the case, and of how many passes the state is dumped.

    By default those are as many as `usual_checks` has it. OptionProblem where the dump is larger than a file may be.
    """
    if case.dataset is None:
        return RunOptions(case.passes, tolerance, 0)
    each = state_bytes(case.program, case.dataset.n_accum > 1)
    count = usual_checks(case.passes, each) if checks is None else min(checks, case.passes)
    running = RunOptions(case.passes, tolerance, count, case.dataset.flush and case.dataset.left > 0)
    if len(moments(running)) * each > FILE_LIMIT:
        facts = [("state", f"{each} B"), ("limit", f"{FILE_LIMIT} B in a file")]
        hint = f"--check-passes {max(FILE_LIMIT // (2 * each), 1)}"
        raise OptionProblem(f"the states of {count} checked passes need too much room", facts, hint)
    return running


def plan_case(
    case: Case,
    options: Options,
    progress: Progress = silent,
    tolerance: float = TOLERANCES.loss,
    checks: int | None = None,
    jobs: int = 0,
) -> tuple[Tiling, Plan]:
    """Plan a case's program, with the case's number of passes in all and per update."""
    running = running_of(case, tolerance, checks)
    return plan_program(case.program, accumulate_of(case, options), progress, running, jobs)


def plan_program(
    program: Program, options: Options, progress: Progress = silent, running: RunOptions = ONCE, jobs: int = 0
) -> tuple[Tiling, Plan]:
    """Schedule, lifetimes, tiles, addresses, with argument tables resident unless it is quicker to fetch them.

    `jobs` tilings are solved at a time, by default as many as there are cores; the plan is the same to the byte.
    """
    progress("schedule and lifetimes")
    fused = fuse.fuse_program(program, options)
    verify_program(fused)
    lives = lifetimes.find_lifetimes(schedule.make_schedule(fused, options))
    return plan_best(lives, running, progress, jobs)


def place_edited(tiling: Tiling, running: RunOptions, progress: Progress = silent) -> Plan:
    """The plan of a tiling from a file; a fault of the tiling is an OptionProblem or TilingInfeasible."""
    try:
        return across_steps(tiling, place_tiling(tiling, running, progress))
    except VerifyFailed as fault:
        raise OptionProblem(f"the tiling breaks a rule: {fault.cause}", fault.facts, "undo the edit") from fault
    except PackingGap as problem:
        facts = [("beyond the budget", f"{problem.beyond} B of {problem.level.name}")]
        raise TilingInfeasible("the tiling does not fit", facts, "smaller tiles") from problem


RESULTS = ("network", "output.bin", "report.json", "report.html", "drift.svg")
"""Files that the build, the run and the report add to a case's folder."""
ARTEFACTS = ("plan.json", "tiling.json", "input.bin")


def write_files(files: Mapping[str, str | bytes], directory: Path, force: bool = False) -> None:
    """Write generated files, and remove the C, headers and objects that an earlier plan left there and nobody changed.

    OptionProblem, and nothing written, where a file would replace what is not ours; `force` replaces it.
    """
    objects = {Path(name).with_suffix(".o").name for name in files if name.endswith(".c")}
    output.claim(directory, objects, force)
    output.write(directory, files, force)
    earlier = {name for name in output.listed(directory) if Path(name).suffix in (".c", ".h", ".o")}
    output.discard(directory, earlier - objects - files.keys())


def write_case(case: Case, tiling: Tiling, plan: Plan, directory: Path, force: bool = False) -> dict[str, str]:
    """Everything a build and a run need: C, input file, and the artefacts for later re-entry."""
    files = generate.generate_files(plan)
    artefacts = (artefact.dumps(plan), artefact.dumps(tiling), input_bytes(case, plan))
    write_files({**files, **dict(zip(ARTEFACTS, artefacts, strict=True))}, directory, force)
    return files


def input_bytes(case: Case, plan: Plan) -> bytes:
    """The harness's input file for a case."""
    if case.dataset is not None:
        return training_input(plan, case.program, case.dataset)
    return inference_input(plan, case.program, case.inputs)


def execute(case: Case, plan: Plan, directory: Path, flags: Sequence[str] = ()) -> Outcome:
    """Run a built case."""
    return run_stage.run_program(plan, case.program, directory, case.passes, flags)


def build_case(plan: Plan, directory: Path, sanitize: bool = False) -> Path:
    """Compile a written case."""
    return build.build_program(plan, directory, sanitize)


def profile(case: Case, plan: Plan, directory: Path, measured: bool) -> list[StepProfile]:
    """Cycles per step and tile: a target's own records where it makes them and may run, else the model's."""
    if not measured or not build.toolchain(target_of(plan.options)).profile:
        return model_profile(plan)
    files = []
    for detail in (1, 2):
        build.build_program(plan, directory, profile=detail)
        run_stage.run_program(plan, case.program, directory, case.passes, name=build.program_name(detail))
        files.append((directory / run_stage.PROFILE).read_bytes())
    return measured_profile(plan, *files)


def profiled(
    program: Program, options: Options, inputs: Mapping[str, Array], folder: Path
) -> tuple[Tiling, list[StepProfile]]:
    """Build and run an inference program in a folder; its tiling, and the profile of each step."""
    case = Case(folder, program, None, dict(inputs), {}, "")
    tiling, plan = plan_case(case, options)
    write_case(case, tiling, plan, folder)
    return tiling, profile(case, plan, folder, measured=True)


def accumulate_of(case: Case, options: Options) -> Options:
    """The options with the case's number of passes per update."""
    return replace(options, accumulate=case.dataset.n_accum if case.dataset else 1)


def check_origin(case: Case, tiling: Tiling, path: Path) -> None:
    """Raise OptionProblem where a tiling file belongs to another case or to another number of passes per update."""
    planned = tiling.lifetimes.schedule
    options = planned.options
    if fuse.fuse_program(case.program, options) != planned.program:
        raise OptionProblem(f"{path} was made for other graphs than {case.directory}", hint="make it again")
    if accumulate_of(case, options) != options:
        hint = "give the same --accumulate-grad-batches, or make it again"
        raise OptionProblem(f"{path} was made for {options.accumulate} passes per update", hint=hint)


def tiling_from(path: Path, sealed: bool = False) -> Tiling:
    """Re-enter at a dumped tiling, which may be edited unless `sealed`; OptionProblem where it is another artefact."""
    kind = artefact.kind_of(path)
    if kind != "Tiling":
        raise OptionProblem(f"{path} is a {kind}", hint="--from takes tiling.json; a plan.json goes to `deployer emit`")
    return artefact.load(Tiling, path, sealed)
