"""`deployer package`: a training case as a library of C, in a folder."""

import argparse
from dataclasses import replace

from deployer import pipeline
from deployer.commands import ending, requests
from deployer.core import target as targets
from deployer.core.errors import DeployerWarning, OptionProblem, Warn, python_warning
from deployer.core.ir import Program
from deployer.core.level import RESIDENT
from deployer.core.plan import Options, target_of
from deployer.firmware.library import Material, library_files, library_tools
from deployer.firmware.memory import memory_layout
from deployer.firmware.names import check_name
from deployer.firmware.prediction import with_prediction
from deployer.firmware.sources import library_rules
from deployer.pipeline import Case
from deployer.planning.plan_choice import Progress, silent
from deployer.rates.run_time import with_run_time_rates
from deployer.running import output
from deployer.running.terminal import Terminal
from deployer.verify.program import verify_program


def package_case(a: argparse.Namespace, console: Terminal) -> int:
    """Write the library that the command line asks for."""
    name = check_name(a.name)
    target = targets.load(a.platform or library_rules().target)
    options = Options(target=target.name, budgets=requests.budgets_of(a, target) or None)

    def warn(warning: DeployerWarning) -> None:
        ending.tell(str(warning))

    case = pipeline.load_training(a.case, a.n_steps, a.n_accum, warn=warn)
    with console.status("plan") as status:
        made = material(case, name, options, a.predict, warn, status.update)
    files = library_files(made)
    with output.opened(a.output, files, a.force):
        output.write(a.output, files, a.force)
        output.discard(a.output, set(output.listed(a.output)) - files.keys())
    console.lines(f"{a.output}: library {name} in {len(files)} files; README.md says how it is used")
    console.event("end", {"name": name, "files": sorted(files), "output": str(a.output)})
    return 0


def material(
    case: Case,
    name: str,
    options: Options,
    predicted: str = "",
    warn: Warn = python_warning,
    progress: Progress = silent,
) -> Material:
    """What the library of a case is made of: training, prediction and update in one plan."""
    assert case.dataset is not None
    assert case.train is not None
    target = target_of(options)
    library_tools(target)
    program, rates = _rated(case)
    program = with_prediction(program, case.train, predicted, warn)
    verify_program(program)
    planned = replace(options, budgets=None)  # one memory has one plan, and the struct has no constants
    tiling, plan = pipeline.plan_program(program, pipeline.accumulate_of(case, planned), progress)
    schedule, title = tiling.lifetimes.schedule, case.directory.resolve().name
    layout = memory_layout(plan, schedule.program, target.levels[RESIDENT].budget)
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
