"""Needs of the training of a case: memory and constants by its plan, code, stack and instructions by core."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from deployer import pipeline
from deployer.core.artefact import digest
from deployer.core.errors import (
    DeployerError,
    MachineTooSlow,
    MachineTooSmall,
    OptionProblem,
    TilingInfeasible,
    Warn,
    python_warning,
)
from deployer.core.files.reading import parse_json, real_path
from deployer.core.ir import Program
from deployer.core.level import L_INNER
from deployer.core.operator import Array
from deployer.core.plan import Options, target_of
from deployer.core.target import Target
from deployer.firmware.bill import check_name
from deployer.firmware.byte_inputs import with_byte_inputs, with_numbers
from deployer.firmware.common import PLAIN_FORM, LibraryForm, library_tools
from deployer.firmware.library import Material, library_files
from deployer.firmware.memory import memory_layout
from deployer.firmware.model_library import ModelMaterial, check_outputs
from deployer.firmware.prediction import (
    Predictor,
    after_update,
    replayed_program,
    with_own_inputs,
    with_prediction,
    with_predictor,
)
from deployer.firmware.replay import NEEDED, ReplayOptions, ring_of, single_samples
from deployer.firmware.sources import library_rules
from deployer.lr_schedules.run_time import with_run_time_rates
from deployer.pipeline import Case
from deployer.planning.plan_choice import Progress, silent
from deployer.sizing.boards import Core
from deployer.sizing.cache import compiler_digest, key_of, remembered
from deployer.sizing.emulated import can_run, run_example
from deployer.sizing.objects import Files, available, compile_library
from deployer.verify.program import verify_program

# Inputs of library generation, made from a training case as read.


def material(
    case: Case,
    name: str,
    options: Options,
    predicted: str | Predictor = "",
    warn: Warn = python_warning,
    progress: Progress = silent,
    replay: ReplayOptions | None = None,
    form: LibraryForm = PLAIN_FORM,
) -> Material:
    """Return the inputs of the case's library: training, prediction and update in one plan.

    `predicted` is the value of the training graph that predict returns, or a forward pass of its own. With a `replay`
    the head alone trains, on latents, and the frozen part is a graph of its own.
    """
    assert case.dataset is not None
    assert case.train is not None
    target = target_of(options)
    library_tools(target)
    program, rates = _rated(case)
    if replay is not None and form.after_update:
        cause = "--predict-after-update has no effect on a library with latents, whose gradients wait for features, too"
        raise OptionProblem(cause, hint="leave one of them out")
    if replay is not None:
        program = replayed_program(program, case.train, predicted, warn)
    elif isinstance(predicted, Predictor):
        program = with_predictor(program, predicted)
    else:
        program = with_prediction(program, case.train, predicted, warn)
    program, scales = with_byte_inputs(program, form.inputs) if form.inputs else (program, {})
    program = after_update(program, case.dataset.n_accum) if form.after_update else program
    verify_program(program)
    ring = None if replay is None else ring_of(replay, program)
    planned = replace(options, budgets=None)  # one memory has one plan, and the struct has no constants
    tiling, plan = pipeline.plan_program(program, pipeline.accumulate_of(case, planned), progress)
    schedule, title = tiling.lifetimes.schedule, real_path(case.directory).name
    budget = target.levels[L_INNER].budget
    layout = memory_layout(plan, schedule.program, budget, ring.tensors if ring else ())
    if ring:
        read, dataset = (*ring.inputs, ring.label), single_samples(case.dataset, case.program, ring)
    else:
        read, dataset = program.data, with_own_inputs(case.dataset, program)
    dataset, needed = with_numbers(dataset, read, scales), NEEDED if ring else ()
    own = check_name(name)
    return Material(
        own, title, plan, program, schedule, layout, dataset, rates, ring, form, needed=needed, scales=scales
    )


def model_material(
    case: Case,
    name: str,
    options: Options,
    progress: Progress = silent,
    weights: Mapping[str, Array] | None = None,
    inputs: str = "",
) -> ModelMaterial:
    """Return the inputs of a library of an inference case: one graph, whose weights are constants.

    `weights` are the first contents of those among the program's inputs that a user of the library may replace,
    `inputs` is the type of 8 bits of inputs that the model quantizes at once.
    """
    target = target_of(options)
    library_tools(target)
    check_outputs(case.program)
    program, scales = with_byte_inputs(case.program, inputs) if inputs else (case.program, {})
    given = {name: scales[name].numbers(x) if name in scales else x for name, x in case.inputs.items()}
    verify_program(program)
    tiling, plan = pipeline.plan_program(program, replace(options, budgets=None), progress)
    schedule = tiling.lifetimes.schedule
    layout = memory_layout(plan, schedule.program, target.levels[L_INNER].budget)
    title = real_path(case.directory).name
    own = check_name(name)
    return ModelMaterial(own, title, plan, program, schedule, layout, given, weights or {}, scales=scales)


def _rated(case: Case) -> tuple[Program, tuple[float, ...]]:
    """The program with rates that it takes when it runs, where there are any, and those it begins with."""
    assert case.dataset is not None
    if case.dataset.rates.size:
        return case.program, case.dataset.rates_of(0)
    try:
        return with_run_time_rates(case.program)
    except OptionProblem:
        return case.program, ()


# Resource needs of training a case: memory and constants by its plan, code, stack and instructions by core.

CONSTANTS = ("words_", "step_")
"""What tables of a library's first weights and steps begin with."""
NAME = "model"
"""The library's name here: sources of kernels are the same for all models, and compiled once."""


@dataclass(frozen=True)
class CoreNeeds:
    """Needs of a library on a core: bytes of code and of the deepest stack, instructions of a pass and an update.

    None is what is not known, for want of a compiler, of an emulator, or of memory in the machine that it emulates.
    """

    code: int | None = None
    stack: int | None = None
    train: int | None = None
    update: int | None = None


@dataclass(frozen=True)
class TargetNeeds:
    """Needs of the plan for a target with several memories: bytes by level, predicted cycles of a pass, an update.

    `lacking` says why there is no plan.
    """

    levels: tuple[tuple[str, int, int], ...] = ()
    train: int = 0
    update: int = 0
    lacking: str = ""


class CaseNeeds:
    """Resource needs of a case; each machine is queried once."""

    def __init__(
        self, case: Case, warn: Warn, replay: ReplayOptions | None = None, form: LibraryForm = PLAIN_FORM
    ) -> None:
        """Plan the library of the case for one flat memory, with a `replay` that of its head."""
        self.replay, options = replay, Options(target=library_rules().target)
        self.case = replace(case, program=with_byte_inputs(case.program, form.inputs)[0]) if form.inputs else case
        self.files: Files = library_files(material(case, NAME, options, warn=warn, replay=replay, form=form))
        sizes = parse_json(str(self.files["manifest.json"]))["bytes"]
        self.memory = sizes.pop("struct")
        self.constants = sum(sizes.values())

    def on_core(self, core: Core, counted: bool = True) -> CoreNeeds:
        """Code, stack and, where `counted`, instructions on a core."""
        if not available(core):
            return CoreNeeds()
        built = compile_library(self.files, NAME, core)
        weights = sum(row[0] for symbol, row in built.functions.items() if is_constant(symbol))
        code, stack = built.total(0) - weights, None if built.stack.unbounded else built.stack.bytes
        if not counted or not can_run(core):
            return CoreNeeds(code, stack)
        try:
            train, update, _ = run_example(self.files, NAME, built, once=True).instructions
        except (MachineTooSmall, MachineTooSlow):
            return CoreNeeds(code, stack)
        return CoreNeeds(code, stack, train, update)

    def on_target(self, target: Target) -> TargetNeeds:
        """The plan of a target with several memories; what was planned before is not planned again."""
        if self.replay is not None:
            return TargetNeeds(lacking="a latent replay is part of a library, which works in one memory")
        options = pipeline.accumulate_of(self.case, Options(target.name, outermost=target.levels[-1].name))
        fields = [compiler_digest(), target.name, digest(self.case.program), repr(options)]

        def make() -> dict[str, Any]:
            try:
                _, plan = pipeline.plan_program(self.case.program, options)
            except TilingInfeasible as problem:
                return {"levels": [], "train": 0, "update": 0, "lacking": problem.cause}
            levels = [[level.name, level.peak, level.budget] for level in plan.levels]
            first, *others = plan.graphs
            return {
                "levels": levels,
                "train": plan.cycles(first),
                "update": sum(map(plan.cycles, others)),
                "lacking": "",
            }

        known = remembered(key_of(fields), make)
        levels = tuple((name, peak, budget) for name, peak, budget in known["levels"])
        return TargetNeeds(levels, known["train"], known["update"], known["lacking"])


def is_constant(symbol: str) -> bool:
    """Whether a symbol is one of the tables that the plan has counted: first weights, frozen ones, and steps."""
    _, _, own = symbol.partition(":")
    return own.startswith(CONSTANTS) or symbol == f"{NAME}_frozen"


def fused_bytes(case: Case) -> int | None:
    """The memory of tensors of a program whose pass and update are one graph; None where it cannot be."""
    options = pipeline.accumulate_of(case, Options(target=library_rules().target, fuse_update=True))
    try:
        _, plan = pipeline.plan_program(case.program, options)
    except DeployerError:
        return None
    return plan.levels[L_INNER].peak - plan.table_bytes
