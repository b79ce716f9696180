"""`deployer package`: a training case, a run or a model as a library of C, in a folder."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from deployer import pipeline
from deployer.commands import ending, requests
from deployer.core import target as targets
from deployer.core.errors import DeployerWarning, OptionProblem, Warn
from deployer.core.files.reading import real_path
from deployer.core.plan import Options
from deployer.firmware.bill import check_name
from deployer.firmware.bindings.python_module import check_module
from deployer.firmware.library import Material
from deployer.firmware.model_library import ModelMaterial
from deployer.firmware.prediction import Predictor
from deployer.firmware.sources import library_rules
from deployer.fitting.runs.run_files import is_run, read_run
from deployer.frontend import parse
from deployer.pipeline import Case
from deployer.running.terminal import Terminal
from deployer.sizing.boards import core_of
from deployer.sizing.library_folder import Library, write_library
from deployer.sizing.needs import material, model_material
from deployer.training.step_problem import read_record

RUN, MODEL_SUFFIX = "run", ".onnx"
"""The folder of a run in the folder of `deployer.torch.train`; how the name of a model's file ends."""


def package_case(a: argparse.Namespace, console: Terminal) -> int:
    """Write the library that the command line asks for."""
    name = check_name(a.name)
    if a.python:
        check_module(name, bool(a.latent_replay))
    core = core_of(a.core) if a.core else None
    target = targets.load(a.platform or library_rules().target)
    budgets = requests.budgets_of(a, target) or None
    options = Options(target=target.name, budgets=budgets, canonical_batch=a.canonical_batch)

    def warn(warning: DeployerWarning) -> None:
        ending.tell(str(warning))

    with console.status("plan") as status:
        if a.case.is_file() or a.case.suffix == MODEL_SUFFIX:
            if a.canonical_batch:
                hint = "leave it out, or give a training case"
                raise OptionProblem("--canonical-batch has no effect without gradients", hint=hint)
            made: Material | ModelMaterial = model_material(
                _model(a, warn), name, options, status.update, inputs=a.inputs
            )
        else:
            case, predicted = _source(a, warn)
            made = material(
                case, name, options, predicted, warn, status.update, requests.replay_of(a), requests.form_of(a)
            )
    library = write_library(made, a.output, core, a.compile, a.force, console.status, a.python)
    tell_library(library, a.output, console)
    return 0


def tell_library(library: Library, output: Path, console: Terminal) -> None:
    """Show what was written."""
    console.lines(str(library))
    facts = {"name": library.name, "files": list(library.files), "output": str(output)}
    console.event("end", {**facts, "compiler": library.compiler or None})


def _of_run(a: argparse.Namespace) -> dict[str, object]:
    """Values of the options for a run."""
    return {"--weights": a.weights, "--reset-optimizer": a.reset_optimizer, "--predict-batch": a.predict_batch}


def _of_case(a: argparse.Namespace) -> dict[str, object]:
    """Values of the options for a training case."""
    return {"--n-steps": a.n_steps, "--accumulate-grad-batches": a.accumulate_grad_batches}


def _refuse(a: argparse.Namespace, kind: str, other: str, options: Mapping[str, object]) -> None:
    """Raise OptionProblem for the first of the options that was given."""
    idle = [option for option, value in options.items() if value]
    if idle:
        facts = [("given", str(a.case))]
        raise OptionProblem(f"{idle[0]} has no effect on a {kind}", facts, f"leave it out, or {other}")


def _model(a: argparse.Namespace, warn: Warn) -> Case:
    """The case of a model's file, which is not trained."""
    requests.replay_of(a)
    unread = {"--predict": a.predict, "--predict-after-update": a.predict_after_update}
    unread |= {"--latent-replay": a.latent_replay} | _of_run(a) | _of_case(a)
    _refuse(a, "model, which only predicts", "a training case", unread)
    folder = real_path(a.case).parent
    if a.case.name == "network.onnx" and (parse.optimizer_dir(folder) / "network.onnx").is_file():
        raise OptionProblem(f"{a.case} is the graph of a training case", hint=f"deployer package {folder}")
    if read_record(a.case) is not None:
        hint = f"`deployer train-graph {a.case} --loss model --data DATA -o case`, then `deployer package case`"
        raise OptionProblem(f"{a.case} holds a training step, and a library that predicts needs the model", hint=hint)
    return pipeline.load_inference_case(a.case, warn=warn, axes=requests.axes_of(a))


def _source(a: argparse.Namespace, warn: Warn) -> tuple[Case, str | Predictor]:
    """The case, and what predicts: a value of its training graph, or a forward pass of its own."""
    folder: Path = next((path for path in (a.case, a.case / RUN) if is_run(path)), a.case)
    of_model = {"--batch-size": a.batch_size, "--axis": a.axis}
    if is_run(folder):
        _refuse(a, "run", "a training case", _of_case(a) | of_model)
    else:
        _refuse(a, "training case", "the folder of a run", _of_run(a) | of_model)
    if not is_run(folder):
        return pipeline.load_training(a.case, a.n_steps, a.accumulate_grad_batches, warn=warn), a.predict
    run = read_run(folder, a.weights, not a.reset_optimizer)
    own = None if a.predict else run.predictor(a.predict_batch)
    if a.predict and a.predict_batch:
        raise OptionProblem("--predict and --predict-batch exclude each other", hint="one of them")
    return run.case, own or a.predict
