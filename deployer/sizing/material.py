"""Inputs of library generation, made from a training case as read."""

from dataclasses import replace

from deployer import pipeline
from deployer.core.errors import OptionProblem, Warn, python_warning
from deployer.core.files.reading import real_path
from deployer.core.ir import Program
from deployer.core.level import L_INNER
from deployer.core.plan import Options, target_of
from deployer.firmware.library import Material, library_tools
from deployer.firmware.memory import memory_layout
from deployer.firmware.names import check_name
from deployer.firmware.prediction import with_prediction
from deployer.lr_schedules.run_time import with_run_time_rates
from deployer.pipeline import Case
from deployer.planning.plan_choice import Progress, silent
from deployer.verify.program import verify_program


def material(
    case: Case,
    name: str,
    options: Options,
    predicted: str = "",
    warn: Warn = python_warning,
    progress: Progress = silent,
) -> Material:
    """Return the inputs of the case's library: training, prediction and update in one plan."""
    assert case.dataset is not None
    assert case.train is not None
    target = target_of(options)
    library_tools(target)
    program, rates = _rated(case)
    program = with_prediction(program, case.train, predicted, warn)
    verify_program(program)
    planned = replace(options, budgets=None)  # one memory has one plan, and the struct has no constants
    tiling, plan = pipeline.plan_program(program, pipeline.accumulate_of(case, planned), progress)
    schedule, title = tiling.lifetimes.schedule, real_path(case.directory).name
    layout = memory_layout(plan, schedule.program, target.levels[L_INNER].budget)
    return Material(check_name(name), title, plan, program, schedule, layout, case.dataset, rates)


def _rated(case: Case) -> tuple[Program, tuple[float, ...]]:
    """The program with rates that it takes when it runs, where there are any, and those it begins with."""
    assert case.dataset is not None
    if case.dataset.rates.size:
        return case.program, case.dataset.rates_of(0)
    try:
        return with_run_time_rates(case.program)
    except OptionProblem:
        return case.program, ()
