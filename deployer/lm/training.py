"""Training of a language model in its folder, by the loop of `deployer fit`."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from onnx import helper, numpy_helper

from deployer.core.errors import OptionProblem, Warn, python_warning
from deployer.core.files.reading import damage, parse_json, real_path
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.core.safe_text import json_line
from deployer.fitting.callback import Callbacks
from deployer.fitting.fit import Fitted, fit_task
from deployer.fitting.task import Task, TrainingRun
from deployer.frontend.model_file import load_model
from deployer.lm.adapters.files import SavedAdapter, write_adapter
from deployer.lm.adapters.low_rank import ADAPTERS, LowRank
from deployer.lm.folder import LanguageModel, write_weights
from deployer.lm.graph import model_bytes
from deployer.lm.model import TRAINABLE, forward_model, shapes
from deployer.lm.rows import IGNORED
from deployer.operators.loss.label_loss import IGNORED as IGNORED_LABEL
from deployer.running import output

RUN, START = "run", "start.onnx"
"""The folder of the run below the model's, and in it the model that the run began with."""
PURPOSE = "adapters"
"""The name in that file of what says which adapters are trained."""


def train_model(
    model: LanguageModel,
    samples: Mapping[str, Array],
    task: Task,
    run: TrainingRun,
    *,
    options: Options,
    title: str = "",
    command: str = "",
    force: bool = False,
    adapters: LowRank | None = None,
    kept: Path | None = None,
    callback: Callbacks = None,
    warn: Warn = python_warning,
) -> Fitted:
    """Train on samples of ids and labels; the run's files go to `run`, the trained weights to the model's files.

    With `adapters` these alone are trained, and added to the model's weights at the end; where they are `kept` in a
    folder of their own, the model's weights stay. A run that resumes goes on with the model it began with, and
    OptionProblem is raised where it had other adapters. Where the run fails, the model's files stay as they are.
    """
    folder = model.folder / RUN
    start = folder / START
    if adapters is not None and task.trainable:
        raise OptionProblem("--trainable has no effect with --lora: adapters alone are trained", hint="leave one out")
    if not run.resume or not start.is_file():
        with output.opened(folder, (START,), force):
            output.write(folder, {START: _start(model, adapters, run.seed, kept)}, force)
    elif read_start(folder).purpose != _purpose(adapters, kept):
        facts = [("began with", read_start(folder).purpose or "none"), ("now", _purpose(adapters, kept) or "none")]
        raise OptionProblem(f"{folder} is a run of other adapters", facts, "the options it began with, or no --resume")
    settings = {**task.settings, IGNORED_LABEL.name: IGNORED}
    task = replace(task, trainable=ADAPTERS if adapters else _parameters(model, task.trainable), settings=settings)
    fitted = fit_task(
        start,
        dict(samples),
        task,
        run,
        folder=folder,
        options=options,
        force=force,
        title=f"{real_path(model.folder).name}, {title}",
        command=command,
        callback=callback,
        progress=False,
        warn=warn,
    )
    if fitted.verdict != "failed":
        before = {name: array for name, array in read_start(folder).weights.items() if name in model.weights}
        trained = fitted.best if run.restore_best else fitted.weights
        if adapters and kept:
            write_adapter(kept, SavedAdapter(adapters, trained), shapes(model.architecture), force)
        else:
            write_weights(model, adapters.merged(before, trained) if adapters else {**before, **trained})
    return fitted


def _parameters(model: LanguageModel, pattern: str) -> str:
    """The expression of all parameters in whose names a pattern is found; constants of the model are none."""
    try:
        found = [name for name in shapes(model.architecture) if re.search(pattern, name)]
    except re.error as error:
        hint = r"such as norm, or layers\.5\."
        raise OptionProblem(f"--trainable {pattern!r} is not a regular expression: {error}", hint=hint) from None
    if not found:
        facts = [("parameters", ", ".join(shapes(model.architecture)))]
        hint = "an expression that is found in one of these names"
        raise OptionProblem(f"--trainable {pattern!r} matches no parameter", facts, hint)
    return f"^(?:{'|'.join(map(re.escape, found))})$" if pattern else TRAINABLE


@dataclass(frozen=True, eq=False)
class RunStart:
    """The begin of a run: weights and constants by name, adapters, and the words that say what it is of."""

    weights: Mapping[str, Array]
    adapters: LowRank | None
    purpose: str


def read_start(folder: Path) -> RunStart:
    """The begin of the run of a folder; FileProblem where its file is missing or damaged."""
    model = load_model(folder / START)
    purpose = next((p.value for p in model.metadata_props if p.key == PURPOSE), "")
    with damage(f"{folder / START} is no model that a run began with", "`deployer lm train` writes it"):
        fields = parse_json(purpose)["adapters"] if purpose else None
        adapters = LowRank(**fields) if fields else None
    return RunStart({t.name: numpy_helper.to_array(t) for t in model.graph.initializer}, adapters, purpose)


def _start(model: LanguageModel, adapters: LowRank | None, seed: int, kept: Path | None) -> bytes:
    """The file of the model that a run begins with."""
    if adapters is None:
        return model.model.read_bytes()
    weights = {**model.weights, **adapters.initial(shapes(model.architecture), seed)}
    made = forward_model(model.architecture, weights, adapters)
    helper.set_model_props(made, {PURPOSE: _purpose(adapters, kept)})
    return model_bytes(made)


def _purpose(adapters: LowRank | None, kept: Path | None) -> str:
    """The adapters of a run, and what becomes of them, in words that are compared."""
    return json_line({"adapters": asdict(adapters), "kept": kept is not None}) if adapters else ""
