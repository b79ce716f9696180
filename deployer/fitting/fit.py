"""Training over epochs in one call: a forward model and its data in; trained weights, history and report out."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from deployer import __version__
from deployer.core.errors import FileProblem, OptionProblem, Warn, python_warning
from deployer.core.ir import Program, TensorRecord
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.core.safe_text import json_text, member_name
from deployer.core.target import native
from deployer.fitting.callback import Callback, Callbacks, callback_group
from deployer.fitting.checkpoint import CheckpointPlace, checkpoint_bytes, read_checkpoint
from deployer.fitting.data.sources import Feed, read_samples
from deployer.fitting.data.streams import AnySource, BatchSource, SampleStream, StreamFeed, stream_of, watch
from deployer.fitting.engine import FitEvaluator, State, Trainer, evaluated_program
from deployer.fitting.history import LOSS, EpochRow, FitReport, History, ReplayRecord, exploded, history_csv, history_of
from deployer.fitting.loop import DIVERGED, REACHED, Horizon, TrainingLoop
from deployer.fitting.metrics import MODES, Measurements, Metrics, metrics_of
from deployer.fitting.runs.latents import LatentReplay, latent_features
from deployer.fitting.runs.run_callbacks import with_callbacks
from deployer.fitting.runs.run_files import (
    BEST,
    CHECKPOINT,
    GRAPHS,
    RECORD,
    SAMPLES,
    RunRecord,
    example_passes,
    record_files,
    run_files,
)
from deployer.fitting.safetensors import safetensors_bytes
from deployer.fitting.segments import Rates, build_segment, rates_of
from deployer.fitting.task import Task, TrainingRun
from deployer.fitting.verdicts import FitChecks, SampledPasses
from deployer.frontend import parse
from deployer.frontend.data_numbers import check_classes, check_counts, check_total
from deployer.lr_schedules.windows import Updates
from deployer.planning import fuse
from deployer.planning.frozen_part import FrozenPart, split_frozen
from deployer.reports import facts
from deployer.reports.confusion import Confusion
from deployer.reports.facts import RunFacts
from deployer.reports.run_page import RunPage, figures_of
from deployer.running import output
from deployer.running.report import printable
from deployer.training.order import Order, Samples, balanced, numbered, split
from deployer.training.problem import Problem
from deployer.training.samples import npz_bytes
from deployer.training.step_problem import read_record
from deployer.training.tables import Request, Taken, check_column
from deployer.training.tensors.decisions import records, told
from deployer.training.tensors.edits import NO_EDITS
from deployer.training.tensors.selection import Expected

if TYPE_CHECKING:
    from deployer.fitting.progress import ProgressBar

FEATURES = "features"
"""The folder of the program that computes latents."""
FEED, WHOLE = "feed", "whole"
"""Names of the data that passes take, and of those of the whole program where passes take latents."""
HISTORY, PAGE, REPORT = "history.csv", "report.html", "report.json"
TRAINED = ("trained.npz", "trained.safetensors")


@dataclass(frozen=True, eq=False, repr=False)
class Fitted:
    """A run at its end: a row per epoch, the loss of each pass, the trained weights by the model's names, the verdict.

    `best` are the weights after `best_epoch`, the epoch with the best monitored metric. `faults` says what is wrong,
    `checked` which passes were repeated in float64, `notes` what else a reader should know. `ended` is why the run
    ended before its last pass, if it did: "diverged", "patience", "reached". `buffers` and `best_buffers` are running
    statistics beside `weights` and `best`, `classes` the names of the labels from 0 on, where the samples have some.
    `data` says what of the samples was taken for inputs and target, `validation` the same of others that are validated.
    `tensors` says of each float tensor of the model whether it is trained, frozen, a constant or a state, and why.
    `checks` has the numbers that `checked` is of. `about` says what was trained on what; `per_epoch` is the number of
    passes of an epoch, `confusion` that of the final weights on the validation samples, `files` what a
    library that goes on from the run is made from, `replay` what was kept of frozen layers, if it was.
    """

    rows: tuple[EpochRow, ...]
    losses: tuple[float, ...]
    weights: dict[str, Array]
    best: dict[str, Array]
    verdict: str
    checked: str
    faults: tuple[str, ...]
    notes: tuple[str, ...]
    ended: str = ""
    best_epoch: int = 0
    buffers: dict[str, Array] = field(default_factory=dict)
    best_buffers: dict[str, Array] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    data: Taken | None = None
    validation: Taken | None = None
    tensors: tuple[TensorRecord, ...] = ()
    checks: FitChecks = field(default_factory=FitChecks)
    about: RunFacts = field(default_factory=RunFacts)
    per_epoch: int = 0
    confusion: Confusion | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    replay: ReplayRecord | None = None

    @property
    def history(self) -> History:
        """A list for each column of `history.csv`, with a number for each epoch."""
        return history_of(self.rows)

    @property
    def val_losses(self) -> list[float]:
        """The loss of the validation samples after each epoch."""
        return [row.metrics[LOSS] for row in self.rows if LOSS in row.metrics]

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics after the last epoch: of the validation samples, without them of the training samples."""
        return dict(self.rows[-1].metrics or self.rows[-1].train_metrics) if self.rows else {}

    @property
    def page(self) -> RunPage:
        """The content of the run's page, but for what its plan says."""
        lines, checks = (self.checked, *self.faults, *self.notes), self.checks.rows
        return RunPage(
            self.about, self.verdict, lines, self.losses, self.per_epoch, (), self.rows, checks, self.confusion
        )

    def __repr__(self) -> str:
        """The run in one line, without its arrays."""
        last = f", {self.rows[-1].text}" if self.rows else ""
        is_other = self.rows and self.rows[-1].metrics and self.best_epoch not in (0, self.rows[-1].epoch)
        best = f", best epoch {self.best_epoch}" if is_other else ""
        ended = f", ended: {self.ended}" if self.ended else ""
        return f"<{type(self).__name__}: {self.verdict}, {len(self.losses)} passes{last}{best}{ended}>"

    def _repr_html_(self) -> str:
        """Curves and tables for a notebook."""
        return self.page.fragment()


def _progress_bar() -> "ProgressBar | None":
    """A bar, whose library is loaded where one is asked for."""
    from deployer.fitting.progress import progress_bar

    return progress_bar()


Begun = Callable[[Problem, Program], Mapping[str, Array]]
"""What the states of a program hold before the first pass, by storage, beside the weights."""
Inspection = Callable[[Problem, Program, Feed, Array], None]
"""Check of a problem, its program, the data of its passes and the rates, before C is generated; it may raise."""


def fit_task(
    model: Path | str,
    data: AnySource,
    task: Task,
    run: TrainingRun,
    *,
    folder: Path | str,
    target_data: Path | None = None,
    target_column: str = "",
    classes: Sequence[str] = (),
    options: Options | None = None,
    evaluated: Path | None = None,
    force: bool = False,
    callback: Callbacks = None,
    progress: bool = True,
    inspect: Inspection | None = None,
    begun: Begun | None = None,
    remarks: Sequence[str] = (),
    title: str = "",
    command: str = "",
    warn: Warn = python_warning,
) -> Fitted:
    """Train a forward model over epochs by its generated program; files go to `folder`.

    `data` is a source of samples as `read_samples` has it, `target_data` the file of targets beside a single array,
    `target_column` the heading of the target in tables, where it is not one of the usual ones; `classes` names the
    labels from 0 on, by default as a folder of images does.
    `options` are the compiler's, by default those of this machine at full speed; the bits are the same for all.
    `evaluated` is the model that validation runs, with initializers of the same names, by default the model itself; it
    always runs on this machine. `callback` is one or several of `Callback`; `progress` shows a bar on a terminal and in
    a notebook. `inspect` is called before C is made, `begun` says what an optimizer keeps at first. `remarks` go to the
    report as notes, `title` is the model's name there, by default its file's, and `command` the command line. Raises
    what reading, planning and running raise.
    Values that are wrong, and a run that diverges, are no exceptions: `verdict` and `faults` say so.
    """
    path, directory, run = Path(model), Path(folder), with_callbacks(run, callback)
    options, posed = options or Options(native().name), task.problem(path, run.seed, warn)
    named = RunFacts(title or path.name, _source_name(data), command=command)
    case = _Case(task, run, path, posed, options, evaluated or path, named)
    bar = _progress_bar() if progress else None
    callback = callback_group(callback, bar)
    check_column(target_column, data, run.validation)
    samples, held_out = case.split_samples(data, target_data, Request(target_column, tuple(classes)), callback, warn)
    files = (*GRAPHS, RECORD, SAMPLES, CHECKPOINT, BEST, *TRAINED, HISTORY, PAGE, REPORT)
    if run.resume and not (directory / CHECKPOINT).is_file():
        raise FileProblem(f"{directory / CHECKPOINT} does not exist", hint="start without --resume")
    case.check_monitored(samples, held_out)
    origin = case.origin(samples, held_out)
    evaluation = case.evaluation() if held_out or case.measures_training(samples) else None
    if run.resume:  # before anything is written: a file that does not fit changes nothing
        read_checkpoint(directory / CHECKPOINT, origin)
    with output.opened(directory, files, force):
        fitting = _Fit(
            case,
            directory,
            samples,
            held_out,
            evaluation,
            origin,
            force,
            callback,
            inspect,
            begun,
            tuple(remarks),
            warn,
        )
        try:
            return fitting.run()
        finally:
            if bar is not None:
                bar.bar.stop()


@dataclass(frozen=True, eq=False)
class _Case:
    """A training problem with its samples, before anything is compiled."""

    task: Task
    run: TrainingRun
    model: Path
    problem: Problem
    options: Options
    evaluated: Path
    named: RunFacts = field(default_factory=RunFacts)

    @property
    def metrics(self) -> Metrics:
        return metrics_of(self.problem.graph, self.run.metric_choice)

    def split_samples(
        self, source: AnySource, target: Path | None, request: Request, callback: Callback, warn: Warn
    ) -> tuple[Samples, Samples | None]:
        """Read the samples and split them into training and validation samples."""
        run, types, targets = self.run, self.problem.graph.sampled, self.problem.graph.loss.targets
        place = str(source) if isinstance(source, Path | str) else "data"
        if isinstance(source, BatchSource):
            given = {"resume": run.resume, "overfit": run.overfit is not None, "class_balanced": run.class_balanced}
            _check_streamed({**given, "latent_replay": run.latent_replay})
            samples: Samples = replace(stream_of(source, types, targets), classes=request.classes)
        else:
            samples = read_samples(source, types, place, target, request, warn, targets)
            callback.on_data(place, samples)
        if run.overfit is not None:
            few = samples.subset(np.arange(min(run.overfit, samples.count)))
            return few, few
        if run.validation is None:
            return samples, None
        if isinstance(run.validation, float | int):
            return split(samples, float(run.validation), run.seed)
        if isinstance(run.validation, BatchSource):
            _check_streamed({"latent_replay": run.latent_replay})
            return samples, stream_of(run.validation, types, targets)
        place = str(run.validation) if isinstance(run.validation, Path | str) else "the validation set"
        request = replace(request, classes=samples.classes, like=samples.taken)
        held_out = read_samples(run.validation, types, place, run.validation_target, request, warn, targets)
        callback.on_data(place, held_out)
        return samples, held_out

    def measures_training(self, samples: Samples) -> bool:
        """Whether the training samples are measured."""
        return self.run.measures_training(not isinstance(samples, SampleStream))

    def check_monitored(self, samples: Samples, held_out: Samples | None) -> None:
        """Raise OptionProblem for a metric that nothing measures."""
        metrics, run = self.metrics, self.run
        metrics.check()
        measured, choice = held_out is not None or self.measures_training(samples), metrics.choice
        asked = [] if measured else [*choice.names, *choice.functions]
        monitored = run.monitored
        if monitored not in metrics.names or (run.monitor != LOSS and held_out is None) or asked:
            is_known = monitored in metrics.names
            hint = "validation samples" if is_known else "one of these"
            hint += ", or train_metrics" if asked and is_known else ""
            cause = f"nothing measures {asked[0] if asked and is_known else run.monitor!r}"
            raise OptionProblem(cause, [("metrics", ", ".join(metrics.names))], hint)
        better = MODES[metrics.is_rising(monitored, run.monitor_mode)]
        watched = self.task.lr_schedule.watches if self.task.lr_schedule else ""
        if watched and watched != better:
            cause = f"the scheduler's mode is {watched!r}, and {better!r} of the monitored {monitored!r} is better"
            raise OptionProblem(cause, hint=f"mode={better!r}, or another monitor")

    def order(self, samples: Samples) -> Order:
        run = self.run
        if isinstance(samples, SampleStream):  # in whole batches, in the order of the source
            return Order(samples.origin.passes * samples.batch, samples.batch, shuffled=False)
        order = Order(samples.count, samples.batch, run.seed, run.shuffle, run.drop_last)
        if not run.class_balanced:
            return order
        return balanced(order, samples.arrays[next(iter(self.problem.graph.loss.targets))], run.shuffle)

    def passes(self, samples: Samples) -> int:
        """Passes of the whole run."""
        return self.run.n_steps or self.run.epochs * self.order(samples).passes

    def updates(self, samples: Samples) -> Updates:
        """The updates of the whole run."""
        return Updates(self.passes(samples), self.run.accumulate_grad_batches, self.run.flush)

    def rates(self, samples: Samples) -> Rates:
        """The rates of all updates."""
        updates, each = self.updates(samples), self.order(samples).passes
        schedule = self.task.lr_schedule
        if schedule is not None:
            last = [updates.window(update * updates.each).stop - 1 for update in range(updates.count)]
            schedule = schedule.over(lambda update: last[update] // each, -(-updates.passes // each))
        return rates_of(self.problem, schedule, updates)

    def feed(self, samples: Samples, program: Program) -> Feed:
        """Return the input data of the run's passes."""
        graph = self.problem.graph
        share = next((graph.data[name] for name in graph.share), None)
        if isinstance(samples, SampleStream):
            return StreamFeed(samples, self.order(samples), self.updates(samples), program, share)
        order, updates = self.order(samples), self.updates(samples)
        if self.options.canonical_batch:
            order = numbered(order, updates)
        return Feed(samples, order, updates, program, share)

    def origin(self, samples: Samples, held_out: Samples | None) -> dict[str, str]:
        """Return all that determines the bits of a run, by name: digests and relevant options."""
        task, run = self.task, self.run
        rule = asdict(replace(task, groups=(), lr_scheduler="", warmup_steps="", expected=()))
        rule["groups"] = [repr(group) for group in task.groups]
        rule["expected"] = expected_origin(task.expected)
        names = ("accumulate_grad_batches", "seed", "shuffle", "drop_last", "class_balanced", "overfit")
        given = {name: getattr(run, name) for name in names}
        models = {"model": self.model, "evaluated": self.evaluated}
        found = {name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for name, path in models.items()}
        found |= {"data": samples_digest(samples), "validation": samples_digest(held_out) if held_out else "none"}
        found |= {"rates": self.rates(samples).origin, "monitor": f"{run.monitored} {run.monitor_mode}".rstrip()}
        found["partial_accumulation"] = self.updates(samples).origin
        found |= {"canonical_batch": "on, by numbers of samples"} if self.options.canonical_batch else {}
        return found | {"rule": json_text(rule), "order": json_text(given)}

    def about(self, program: Program, samples: Samples, held_out: Samples | None) -> RunFacts:
        """Model, data and settings of the run."""
        task, rules = self.task, self.problem.rules.values()
        notes = [f"{self.named.dataset}: {samples.count} samples"]
        notes += [f"validation: {held_out.count} samples"] if held_out else []
        schedule = task.lr_schedule
        return replace(
            self.named,
            dataset=", ".join(notes),
            loss=task.loss or facts.loss_name(program),
            optimizer=facts.optimizer_names(program),
            learning_rates=tuple(dict.fromkeys(rule.rate for rule in rules)),
            lr_schedule=schedule.schedule.name if schedule else "",
            batch=samples.batch,
            accumulation=self.run.accumulate_grad_batches,
            parameters=facts.parameter_count(records(self.problem.tensors)),
            target=self.options.target,
            version=__version__,
        )

    def split(self, train: Path, optimizer: Path) -> FrozenPart | None:
        """The program of both graphs in two, if latents are to be replayed."""
        if not self.run.latent_replay:
            return None
        return split_frozen(self.problem.program(train, optimizer), self.problem.graph.inputs)

    def evaluation(self) -> Program:
        """The program of the model that validation runs."""
        if self.evaluated == self.model and read_record(self.model) is not None:
            cause = f"{self.model} holds a training step, and validation needs the model as it is in use"
            raise OptionProblem(cause, hint="validation by deployer.torch.train, which captures that as well; or none")
        edits = self.problem.edits if self.evaluated == self.model else NO_EDITS
        graph = parse.read_graphs(self.evaluated, None, self.task.axes, edits.apply).main
        return evaluated_program(graph, tuple(self.problem.graph.original.values()))


def _check_streamed(given: Mapping[str, bool]) -> None:
    """Raise OptionProblem for an option that is given and needs all samples at once."""
    for name in (name for name, value in given.items() if value):
        raise OptionProblem(f"{name} needs the samples of all batches at once", hint="in_memory=True")


def _source_name(data: AnySource) -> str:
    if isinstance(data, BatchSource):
        return data.name
    return str(data) if isinstance(data, Path | str) else "arrays in memory"


def expected_origin(expected: Expected) -> list[str] | str:
    """The names of parameters, or a digest where there are numbers as well."""
    if not isinstance(expected, Mapping):
        return list(expected)
    total = hashlib.sha256()
    for name, array in sorted(expected.items()):
        total.update(f"{name} {array.dtype} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def samples_digest(samples: Samples) -> str:
    """Digest of all arrays of samples, and of the names of their classes."""
    total = hashlib.sha256()
    if isinstance(samples, SampleStream):
        total.update(f"a stream of {samples.origin.passes} batches".encode())
    for name, array in samples.arrays.items():
        total.update(f"{name} {array.dtype} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    total.update(json_text(samples.classes).encode() if samples.classes else b"")
    return total.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class _Fit:
    """A run in its folder."""

    case: _Case
    directory: Path
    samples: Samples
    held_out: Samples | None
    evaluation: Program | None
    origin: dict[str, str]
    force: bool
    callback: Callback
    inspect: Inspection | None = None
    begun: Begun | None = None
    remarks: tuple[str, ...] = ()
    warn: Warn = python_warning
    _kept: dict[str, Feed] = field(default_factory=dict)
    _replays: list[LatentReplay] = field(default_factory=list)

    def run(self) -> Fitted:
        case, run = self.case, self.case.run
        trainer = self._trainer()
        feed = self.feed(trainer.program)
        measure = self._measure()
        start = self._start(trainer)
        whole = self._kept.get(WHOLE, feed)
        judge = SampledPasses(whole.program, feed.updates, trainer.rates)
        rates, horizon = case.rates(self.samples), self._horizon(feed)
        self.callback.on_tensors(told(records(case.problem.tensors)))
        self.callback.on_begin(feed.updates.passes, feed.order.passes, start)
        if run.patience:
            self.callback.on_message(horizon.announced(self.held_out is not None))

        def follow(place: CheckpointPlace, values: Sequence[float]) -> None:
            rates.follow(trainer.rates, trainer.bases, values, place.passes)

        def check(index: int, before: State, after: State, loss: float, sample: Sequence[Array]) -> None:
            """Check a pass of the whole program, also where it had latents."""
            given = sample if whole is feed else whole.passes(index, index + 1)[0]
            judge.check(index, before, after, loss, given)

        callback = self.callback
        loop = TrainingLoop(
            trainer, feed, horizon, measure, self._keep, check, rates.of_pass, callback, follow, self.warn
        )
        begin = time.perf_counter()
        end = loop.run(start)
        for replay in self._replays:
            made = end.passes - start.passes
            self.callback.on_message(replay.times(time.perf_counter() - begin, made, feed.order.passes))
        confusion = None if end.ended == DIVERGED else measure(end.state)[0].confusion
        return self._finish(end, trainer, judge, feed, confusion)

    def _horizon(self, feed: Feed) -> Horizon:
        run = self.case.run
        rising = self.case.metrics.is_rising(run.monitored, run.monitor_mode)
        bound = run.bound if run.overfit is not None else None
        passes = feed.updates.passes
        return Horizon(passes, run.checks, run.patience, bound, run.every, run.monitored, rising, run.min_delta)

    def feed(self, program: Program) -> Feed:
        """The input data of the run's passes; a stream is read once for all that ask."""
        if FEED not in self._kept:
            self._kept[FEED] = self.case.feed(self.samples, program)
        return replace(self._kept[FEED], program=program)

    def _trainer(self) -> Trainer:
        self.callback.on_stage("graphs")
        with output.scratch(self.directory) as folder:
            paths = [folder / name for name in GRAPHS]
            self.case.problem.write(*paths)
            part = self.case.split(*paths)
            output.write(self.directory, {path.name: path.read_bytes() for path in paths}, self.force)
        program = self.case.problem.program(*(self.directory / name for name in GRAPHS))
        for samples, name in ((self.samples, "data"), (self.held_out, "the validation set")):
            if samples:
                check_classes(program, samples.arrays, f"{name}:", samples.place, from_front=True)
        feed = self.feed(program)
        watch(self.samples, program)
        watch(self.held_out, program)
        if not isinstance(self.samples, SampleStream):
            check_counts(program, map(feed.bare, range(feed.updates.passes)), "data: the batch of pass")
        if self.held_out and not isinstance(self.held_out, SampleStream):
            batches = ((*batch, *feed.whole) for batch in self.held_out.in_order())
            check_total(program, batches, "data: the validation set")
        output.write(self.directory, self._example(program, feed), self.force)
        options = replace(self.case.options, accumulate=self.case.run.accumulate_grad_batches)
        folder = self.directory / "code"
        whole, (program, rates, bases) = program, self.case.rates(self.samples).rated(program)
        if self.inspect is not None:
            self.inspect(self.case.problem, program, feed, rates)
        if part is not None:
            self._kept[WHOLE] = replace(feed, program=program)
            program = self._replayed(part, len(whole.graphs[0].nodes))
            program, rates, bases = self.case.rates(self.samples).rated(program)
        plan = build_segment(program, options, folder, self.force, self.callback.on_stage)
        return Trainer(program, plan, folder, rates, bases)

    def _replayed(self, part: FrozenPart, steps: int) -> Program:
        """The head of a program of so many steps, for which the feed has latents from now on."""
        names, folder = {name: name for name in self.samples.types}, self.directory / FEATURES
        features = latent_features(part, names, folder, self.force, self.callback.on_stage)
        replay = LatentReplay(features, steps)
        self.callback.on_stage("features")
        self._kept[FEED] = self.case.feed(replay.replayed(self.samples, features), part.head)
        self._replays.append(replay)
        return part.head

    def _example(self, program: Program, feed: Feed) -> dict[str, bytes]:
        """Files of the run that a library needs besides graphs and state."""
        graph, accumulate = self.case.problem.graph, self.case.run.accumulate_grad_batches
        share = len(program.data) if graph.share else 0
        validated = self.held_out is not None
        record = RunRecord(accumulate, len(program.data), share, dict(graph.original), validated)
        return record_files(record, example_passes(feed.updates.passes, accumulate, feed.bare))

    def _measure(self) -> Callable[[Mapping[str, Array]], tuple[Measurements, Measurements]]:
        """A function that gives the metrics of validation and of training samples, empty for those not measured."""
        program, weights = self.evaluation, self.case.problem.graph.original
        if program is None:
            return lambda state: (Measurements(), Measurements())
        folder = self.directory / "validation"
        sets = (self.held_out, self.samples if self.case.measures_training(self.samples) else None)
        for replay in self._replays:
            names = dict(zip(program.data, self.case.problem.graph.inputs, strict=True))
            features = replay.other(program, names, folder / FEATURES, self.force, self.callback.on_stage)
            program, (first, second) = features.part.head, sets
            sets = first and replay.replayed(first, features), second and replay.replayed(second, features)
        plan = build_segment(program, Options(native().name), folder, self.force, self.callback.on_stage)
        evaluator, metrics = FitEvaluator(program, plan, folder), self.case.metrics

        last: list[tuple[Mapping[str, Array], tuple[Measurements, Measurements]]] = []

        def measure(state: Mapping[str, Array]) -> tuple[Measurements, Measurements]:
            if not last or last[0][0] is not state:
                values = {original: state[name] for name, original in weights.items()}
                found = [
                    metrics.of(s, lambda each: evaluator.outputs(values, each)) if s else Measurements() for s in sets
                ]
                last[:] = [(state, (found[0], found[1]))]
            return last[0][1]

        return measure

    def _start(self, trainer: Trainer) -> CheckpointPlace:
        problem = self.case.problem
        kept = self.begun(problem, trainer.program) if self.begun else {}
        initial = trainer.initial({**problem.graph.weights, **kept})
        if self.case.run.resume:
            return read_checkpoint(self.directory / CHECKPOINT, self.origin, initial)
        output.discard(self.directory, (CHECKPOINT, BEST))
        return CheckpointPlace(state=initial)

    def _keep(self, place: CheckpointPlace, is_best: bool) -> None:
        """Write a checkpoint, first as the best one if it is: whoever finds the checkpoint finds the best one, too."""
        content = checkpoint_bytes(place, self.origin)
        files = {**({BEST: content} if is_best else {}), CHECKPOINT: content}
        output.write(self.directory, files, self.force, lasting=True)
        weights, running = self._weights(place.state)
        self.callback.on_checkpoint(weights | running, is_best)

    def _weights(self, state: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
        """Parameters, and running statistics, by the model's names."""
        graph = self.case.problem.graph
        weights, running = ({old: state[new] for new, old in names.items()} for names in (graph.trained, graph.states))
        return weights, running

    def _finish(
        self, end: CheckpointPlace, trainer: Trainer, judge: SampledPasses, feed: Feed, confusion: Confusion | None
    ) -> Fitted:
        run = self.case.run
        faults = list(judge.faults)
        if end.ended == DIVERGED:
            faults.append(f"the run diverged in pass {end.passes - 1}: its loss is {end.losses[-1]}")
        elif run.overfit is not None and end.ended != REACHED:
            reached = f"{end.best:.4g}" if end.best is not None else "unknown"
            faults.append(f"the loss on {self.samples.count} samples is not below {run.bound:g}: {reached} at best")
        drawn = ", ".join(self.case.problem.drawn)
        initial = f"initial weights drawn by {self.case.task.initial} from seed {run.seed}: {drawn}" if drawn else ""
        notes = [note for note in (*self.remarks, initial, feed.order.note, feed.updates.note(end.passes)) if note]
        notes += [replay.record.text for replay in self._replays]
        notes += [note for note in self._ending(end, feed) if note]
        verdict = "failed" if faults else judge.verdict
        (weights, running), (best, best_running) = self._weights(end.state), self._weights(self._best(end))
        if run.restore_best:
            weights, running = best, best_running
        losses, said, classes = tuple(map(float, end.losses)), (tuple(faults), tuple(notes)), self.samples.classes
        tensors = records(self.case.problem.tensors)
        about = self.case.about(trainer.program, self.samples, self.held_out)
        result = Fitted(
            end.rows,
            losses,
            weights,
            best,
            verdict,
            judge.text,
            *said,
            end.ended,
            end.best_epoch,
            running,
            best_running,
            classes,
            *self._taken(),
            tensors,
            judge.record(end.passes),
            about,
            feed.order.passes,
            confusion,
            replay=next((replay.record for replay in self._replays), None),
        )
        figures = figures_of(trainer.plan, fuse.fuse_program(trainer.program, trainer.plan.options))
        report = FitReport(
            verdict,
            result.checks,
            *said,
            end.passes,
            end.ended,
            end.best_epoch,
            end.rows,
            classes,
            *self._taken(),
            tensors,
            losses,
            about,
            confusion,
            figures,
            result.replay,
        )
        record = printable(asdict(report))
        weights = weights | running
        named = {member_name(name): array for name, array in weights.items()}
        files: dict[str, str | bytes] = {
            HISTORY: history_csv(end.rows),
            PAGE: result.page.html(trainer.plan, figures),
            REPORT: json_text(record, allow_nan=False),
        }
        if end.ended == DIVERGED:  # no weights to speak of, and none of an earlier run
            output.discard(self.directory, TRAINED)
        else:
            files |= {TRAINED[0]: npz_bytes(named), TRAINED[1]: safetensors_bytes(weights)}
        output.write(self.directory, files, self.force)
        result = replace(result, files=run_files(self.directory))
        self.callback.on_end(result)
        return result

    def _ending(self, end: CheckpointPlace, feed: Feed) -> tuple[str, ...]:
        """Notes on a loss that exploded, early stopping and the weights that were restored."""
        horizon, restored = self._horizon(feed), ""
        if self.case.run.restore_best and end.best is not None and end.ended != DIVERGED:
            what = f"{horizon.watched(self.held_out is not None)}, {end.best:.4g}"
            restored = f"the trained weights are those of epoch {end.best_epoch}, with the best {what}"
        return exploded(end.losses), horizon.stopped(end), restored

    def _taken(self) -> tuple[Taken | None, Taken | None]:
        """Columns used of the samples' source, and of the validation samples' source where that is another one."""
        data, validation = self.samples.taken, self.held_out.taken if self.held_out else None
        return data, None if validation is data else validation

    def _best(self, end: CheckpointPlace) -> Mapping[str, Array]:
        path = self.directory / BEST
        return read_checkpoint(path, self.origin).state if path.is_file() else end.state
