"""Training of a language model in its folder, by the loop of `deployer fit`."""

from collections.abc import Mapping
from dataclasses import replace

from onnx import numpy_helper

from deployer.core.errors import OptionProblem, Warn, python_warning
from deployer.core.files.reading import real_path
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.fitting.callback import Callbacks
from deployer.fitting.fit import Fitted, fit_task
from deployer.fitting.task import Task, TrainingRun
from deployer.frontend.model_file import load_model
from deployer.lm.adapters.low_rank import ADAPTERS, LowRank
from deployer.lm.folder import LanguageModel, write_weights
from deployer.lm.graph import model_bytes
from deployer.lm.model import TRAINABLE, forward_model, shapes
from deployer.lm.rows import IGNORED
from deployer.operators.loss.label_loss import IGNORED as IGNORED_LABEL
from deployer.running import output

RUN, START = "run", "start.onnx"
"""The folder of the run below the model's, and in it the model that the run began with."""


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
    callback: Callbacks = None,
    warn: Warn = python_warning,
) -> Fitted:
    """Train on samples of ids and labels; the run's files go to `run`, the trained weights to the model's files.

    With `adapters` these alone are trained, and added to the model's weights at the end. A run that resumes goes on
    with the model it began with. Where the run fails, the model's files stay as they are.
    """
    folder = model.folder / RUN
    start = folder / START
    if adapters is not None and task.trainable:
        raise OptionProblem("--trainable has no effect with --lora: adapters alone are trained", hint="leave one out")
    if not run.resume or not start.is_file():
        with output.opened(folder, (START,), force):
            output.write(folder, {START: _start(model, adapters, run.seed)}, force)
    settings = {**task.settings, IGNORED_LABEL.name: IGNORED}
    task = replace(task, trainable=ADAPTERS if adapters else task.trainable or TRAINABLE, settings=settings)
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
        tensors = load_model(start).graph.initializer
        before = {t.name: numpy_helper.to_array(t) for t in tensors if t.name in model.weights}
        trained = fitted.best if run.restore_best else fitted.weights
        write_weights(model, adapters.merged(before, trained) if adapters else {**before, **trained})
    return fitted


def _start(model: LanguageModel, adapters: LowRank | None, seed: int) -> bytes:
    """The file of the model that a run begins with."""
    if adapters is None:
        return model.model.read_bytes()
    weights = {**model.weights, **adapters.initial(shapes(model.architecture), seed)}
    return model_bytes(forward_model(model.architecture, weights, adapters))
