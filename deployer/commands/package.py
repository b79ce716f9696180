"""`deployer package`: a training case or a run as a library of C, in a folder."""

import argparse
from pathlib import Path

from deployer import pipeline
from deployer.commands import ending, requests
from deployer.core import target as targets
from deployer.core.errors import DeployerWarning, OptionProblem, Warn
from deployer.core.plan import Options
from deployer.firmware.bill import check_name
from deployer.firmware.prediction import Predictor
from deployer.firmware.sources import library_rules
from deployer.fitting.runs.run_files import is_run, read_run
from deployer.pipeline import Case
from deployer.running.terminal import Terminal
from deployer.sizing.boards import core_of
from deployer.sizing.library_folder import write_library
from deployer.sizing.needs import material

RUN = "run"
"""The folder of a run in the folder of `deployer.torch.train`."""


def package_case(a: argparse.Namespace, console: Terminal) -> int:
    """Write the library that the command line asks for."""
    name = check_name(a.name)
    core = core_of(a.core) if a.core else None
    target = targets.load(a.platform or library_rules().target)
    options = Options(target=target.name, budgets=requests.budgets_of(a, target) or None)

    def warn(warning: DeployerWarning) -> None:
        ending.tell(str(warning))

    case, predicted = _source(a, warn)
    with console.status("plan") as status:
        made = material(case, name, options, predicted, warn, status.update)
    library = write_library(made, a.output, core, a.compile, a.force, console.status)
    console.lines(str(library))
    files = list(library.files)
    console.event("end", {"name": name, "files": files, "output": str(a.output), "compiler": library.compiler or None})
    return 0


def _source(a: argparse.Namespace, warn: Warn) -> tuple[Case, str | Predictor]:
    """The case, and what predicts: a value of its training graph, or a forward pass of its own."""
    if a.case.is_file():
        hint = f"`deployer fit {a.case} --data DATA -o run`, then `deployer package run`; or `deployer train-graph`"
        raise OptionProblem(f"{a.case} is a file, and a library is made from a training case or a run", hint=hint)
    folder: Path = next((path for path in (a.case, a.case / RUN) if is_run(path)), a.case)
    of_run = {"--weights": a.weights, "--reset-optimizer": a.reset_optimizer, "--predict-batch": a.predict_batch}
    of_case = {"--n-steps": a.n_steps, "--accumulate-grad-batches": a.accumulate_grad_batches}
    idle = [option for option, value in (of_case if is_run(folder) else of_run).items() if value]
    if idle:
        kind, hint = ("run", "a training case") if is_run(folder) else ("training case", "the folder of a run")
        raise OptionProblem(
            f"{idle[0]} has no effect on a {kind}", [("folder", str(a.case))], f"leave it out, or {hint}"
        )
    if not is_run(folder):
        return pipeline.load_training(a.case, a.n_steps, a.accumulate_grad_batches, warn=warn), a.predict
    run = read_run(folder, a.weights, not a.reset_optimizer)
    own = None if a.predict else run.predictor(a.predict_batch)
    if a.predict and a.predict_batch:
        raise OptionProblem("--predict and --predict-batch exclude each other", hint="one of them")
    return run.case, own or a.predict
