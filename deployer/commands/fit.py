"""The `deployer fit` command: makes a task and a run of its options and shows the run's progress."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from deployer.commands import ending
from deployer.commands.parser import given_settings
from deployer.commands.requests import axes_of, budgets_of, expected_of
from deployer.core import target as targets
from deployer.core.errors import OptionProblem
from deployer.core.plan import Options
from deployer.fitting.callback import Callback
from deployer.fitting.checkpoint import CheckpointPlace
from deployer.fitting.data.sources import Source
from deployer.fitting.data.streams import AnySource
from deployer.fitting.fit import HISTORY, PAGE, TRAINED, Fitted, fit_task
from deployer.fitting.history import EpochRow
from deployer.fitting.progress import ProgressBar
from deployer.fitting.task import Task, TrainingRun
from deployer.running.report import printable
from deployer.running.terminal import Terminal
from deployer.training.groups import read_group
from deployer.training.order import Samples
from deployer.training.update_graph import Limits


class Lines(ProgressBar):
    """Shows a run as a line per epoch, and on a terminal a bar; before it what is taken of samples and model."""

    def on_data(self, place: str, samples: Samples) -> None:
        """Print what is taken of samples."""
        for line in samples.taken.lines(place, samples.classes) if samples.taken else ():
            self.console.print(line, soft_wrap=True)

    def on_tensors(self, lines: Sequence[str]) -> None:
        """Print them."""
        self.console.lines("\n".join(lines))


class JsonLines(Callback):
    """Prints an object of JSON per line."""

    def __init__(self, console: Terminal) -> None:
        self.console = console

    def on_data(self, place: str, samples: Samples) -> None:
        """Columns or arrays of the samples that are used."""
        taken = asdict(samples.taken) if samples.taken else {}
        self.console.event("data", {"source": place, **taken, "classes": samples.classes})

    def on_begin(self, passes: int, per_epoch: int, place: CheckpointPlace) -> None:
        """The run's size."""
        self.console.event("begin", {"passes": passes, "per_epoch": per_epoch, "made": place.passes})

    def on_segment(self, place: CheckpointPlace, loss: float, lr: float) -> None:
        """A stretch."""
        self.console.event("segment", {"passes": place.passes, "loss": loss, "rate": lr})

    def on_epoch_end(self, row: EpochRow) -> None:
        """An epoch."""
        self.console.event("epoch", asdict(row))

    def on_message(self, text: str) -> None:
        """A notice of the run."""
        self.console.event("message", {"text": text})


def run_fit(a: argparse.Namespace, console: Terminal) -> int:
    """Train over epochs; 1 where the verdict is failed."""
    options = options_of(a)
    with shown_run(a, console) as shown:
        fitted = fit_task(
            a.model,
            a.data,
            task_of(a),
            run_of(a, _validation(a)),
            folder=a.output,
            target_data=a.target,
            target_column=a.target_column,
            options=options,
            force=a.force,
            command=a.command_line,
            callback=shown,
            progress=False,
            warn=lambda warning: ending.tell(str(warning)),
        )
    tell(a, fitted, console)
    return int(fitted.verdict == "failed")


@contextmanager
def shown_run(
    a: argparse.Namespace, console: Terminal, lines: Callable[[Terminal], ProgressBar] = Lines
) -> Iterator[Callback]:
    """A callback that shows a run as the command line asks, by default of people in `lines`.

    On a terminal its bar ends with this context.
    """
    shown = Callback() if a.quiet else JsonLines(console) if a.json else lines(console)
    try:
        yield shown
    finally:
        if isinstance(shown, ProgressBar):
            shown.bar.stop()


def task_of(a: argparse.Namespace) -> Task:
    """The task of the command line."""
    return Task(
        loss=a.loss,
        optimizer=a.optimizer,
        lr=a.lr,
        trainable=a.trainable,
        settings=given_settings(a),
        class_weights=a.class_weights,
        groups=[read_group(text) for text in a.param_group],
        limits=Limits(a.max_grad_value, a.max_grad_norm),
        free_rates=a.any_rate,
        dropout=a.dropout == "on",
        axes=axes_of(a),
        expected=expected_of(a),
        initial=a.init,
        lr_scheduler=a.lr_scheduler,
        warmup_steps=a.warmup_steps,
        accumulate=a.accumulate,
    )


def run_of(a: argparse.Namespace, validation: AnySource | float | None) -> TrainingRun:
    """The run of the command line, with that validation set."""
    return TrainingRun(
        epochs=a.epochs,
        n_steps=a.n_steps,
        accumulate_grad_batches=a.accumulate_grad_batches,
        partial_accumulation=a.partial_accumulation,
        seed=a.seed,
        shuffle=not a.no_shuffle,
        drop_last=a.drop_last,
        class_balanced=a.class_balanced,
        validation=validation,
        validation_target=a.validation_target,
        patience=a.patience,
        monitor=a.monitor,
        restore_best=a.restore_best,
        metrics=a.metric,
        train_metrics=a.train_metrics,
        top=tuple(a.top),
        overfit=a.overfit,
        bound=a.bound,
        every=a.checkpoint_every,
        resume=a.resume,
        latent_replay=a.latent_replay,
        checks=a.check_passes,
    )


def options_of(a: argparse.Namespace) -> Options:
    """The compiler's options of the command line."""
    target = targets.load(a.platform) if a.platform else targets.native()
    return Options(
        target.name,
        budgets=budgets_of(a, target) or None,
        cores=a.cores,
        outermost=target.levels[-1].name,
        canonical_batch=a.canonical_batch,
    )


def _validation(a: argparse.Namespace) -> Source | float | None:
    """A share where the text is a number, else a path."""
    share = share_of(a.validation)
    return Path(a.validation) if share is None and a.validation is not None else share


def share_of(text: str | None) -> float | None:
    """The fraction that a text is; None for another text, OptionProblem for a number that is no fraction."""
    try:
        share = float(text or "none")
    except ValueError:
        return None
    if not 0 < share < 1:
        raise OptionProblem(
            f"--validation {text} is not a fraction", hint="a number between 0 and 1, or the path of a file"
        )
    return share


def tell(a: argparse.Namespace, fitted: Fitted, console: Terminal, more: Mapping[str, object] | None = None) -> None:
    """Print the verdict and where things are; `more` belongs to the last line of JSON."""
    record = {
        **(more or {}),
        "verdict": fitted.verdict,
        "faults": fitted.faults,
        "notes": fitted.notes,
        "output": str(a.output),
    }
    numbers = {"checks": printable(asdict(fitted.checks)), "passes": len(fitted.losses)}
    console.event("end", {**record, **numbers, "tensors": [asdict(t) for t in fitted.tensors]})
    for fault in fitted.faults if a.quiet else ():
        ending.tell(fault)
    for note in fitted.notes:
        console.print(f"note: {note}", soft_wrap=True)
    console.print(fitted.checked, soft_wrap=True)
    for fault in fitted.faults:
        console.print(f"FAULT {fault}", style="bold red", soft_wrap=True)
    places = ", ".join(str(a.output / name) for name in (TRAINED[0], HISTORY, PAGE))
    console.print(f"written: {places}", soft_wrap=True)
    console.print(fitted.verdict, style="bold green" if fitted.verdict == "passed" else "bold yellow")
