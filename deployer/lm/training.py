"""Training of a language model in its folder, by the loop of `deployer fit`."""

from collections.abc import Mapping
from dataclasses import replace

from deployer.core.errors import Warn, python_warning
from deployer.core.files.reading import real_path
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.fitting.callback import Callbacks
from deployer.fitting.fit import Fitted, fit_task
from deployer.fitting.task import Task, TrainingRun
from deployer.lm.folder import LanguageModel, write_weights
from deployer.lm.model import TRAINABLE
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
    callback: Callbacks = None,
    warn: Warn = python_warning,
) -> Fitted:
    """Train on samples of ids and labels; the run's files go to `run`, the trained weights to the model's files.

    A run that resumes goes on with the model it began with. Where the run fails, the model's files stay as they are.
    """
    folder = model.folder / RUN
    start = folder / START
    if not run.resume or not start.is_file():
        with output.opened(folder, (START,), force):
            output.write(folder, {START: model.model.read_bytes()}, force)
    settings = {**task.settings, IGNORED_LABEL.name: IGNORED}
    task = replace(task, trainable=task.trainable or TRAINABLE, settings=settings)
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
        write_weights(model, {**model.weights, **(fitted.best if run.restore_best else fitted.weights)})
    return fitted
