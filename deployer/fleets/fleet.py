"""A fleet in one call: a forward model and its data in; global weights, rounds and a report out."""

import contextlib
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from deployer import __version__
from deployer.core.errors import FileProblem, OptionProblem, ToolFailed, Warn
from deployer.core.operator import Array
from deployer.core.safe_text import json_text, member_name
from deployer.fitting.data.sources import read_samples
from deployer.fitting.fit import REPORT, TRAINED, samples_digest
from deployer.fitting.runs.run_files import CHECKPOINT, GRAPHS, RECORD, SAMPLES
from deployer.fitting.safetensors import safetensors_bytes
from deployer.fitting.task import Task
from deployer.fleets.compression import Compression
from deployer.fleets.device import FleetRules, imported
from deployer.fleets.engines import engine_of
from deployer.fleets.options import DIRICHLET, FEDADAM, FEDAVGM, FEDPROX, FILES, GRADIENTS, LOOP, NONE, SHARDS, THREADS
from deployer.fleets.preparation import (
    DATA,
    NAME,
    Measure,
    PreparedFleet,
    build_library,
    folder_samples,
    measure_of,
    passes_of,
    prepared,
    write_devices,
)
from deployer.fleets.results import FleetFacts, FleetReport, fleet_page, rounds_csv
from deployer.fleets.rounds import Federation, FleetOptions, Told
from deployer.fleets.splits import Parts, parts_of_files, split_parts
from deployer.fleets.strategies import FleetStrategy, ServerState
from deployer.planning.plan_choice import Progress, silent
from deployer.reports import facts
from deployer.reports.facts import RunFacts
from deployer.running import output
from deployer.running.report import printable
from deployer.training.order import Samples, split
from deployer.training.samples import npz_bytes
from deployer.training.tables import Request
from deployer.training.tensors.decisions import records

TABLE, PAGE = "rounds.csv", "fleet.html"
MEMORY_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes of a unit of the peak memory that the machine tells."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """A fleet: its strategy, devices and their samples, local work, and where it runs.

    `validation` is a share of the samples or a file of others. `epochs` over a device's samples make a round, with
    `per_update` passes per update; `split` chooses the samples of devices, with that `concentration` or so many
    `shards` each.
    """

    strategy: FleetStrategy = field(default_factory=FleetStrategy)
    options: FleetOptions
    devices: int = 0
    split: str = "iid"
    concentration: float = 0.5
    shards: int = 2
    validation: float | Path | None = None
    epochs: int = 1
    per_update: int = 1
    shuffle: bool = True
    compression: Compression = field(default_factory=Compression)
    backend: str = THREADS
    workers: int = 1
    resume: bool = False

    @property
    def is_gradients(self) -> bool:
        """Whether devices send gradients, not weights."""
        return self.strategy.name == GRADIENTS

    @property
    def device_passes(self) -> int:
        """Passes per update of the library; with a proximal term at least two, as gradients then outlive a pass."""
        if self.is_gradients:
            return max(self.options.per_round or self.devices, 2)
        return max(self.per_update, 2 if self.strategy.mu else 1)


@dataclass(frozen=True, eq=False)
class FleetRun:
    """The end of a fleet: global weights by the model's names, its report, and the fault that ended it, if any."""

    weights: dict[str, Array]
    report: FleetReport
    fault: ToolFailed | None = None


def run_fleet(
    model: Path,
    data: Path,
    task: Task,
    fleet: Fleet,
    folder: Path,
    *,
    force: bool = False,
    command: str = "",
    told: Told,
    progress: Progress = silent,
    warn: Warn,
) -> FleetRun:
    """Train a fleet; files go to `folder`. Raises what reading, planning, building and engines raise.

    A round without enough replies is no exception, but the `fault` of the run: its files are those of the round before.
    """
    progress("model")
    problem = task.problem(model, fleet.options.seed, warn)
    samples, held_out, parts = _samples(problem, data, fleet, warn)
    fleet = replace(fleet, devices=len(parts))
    _check(fleet)
    engine = engine_of(fleet.backend, fleet.workers)
    origin = _origin(model, task, fleet, samples, held_out, parts)
    if fleet.resume and not (folder / CHECKPOINT).is_file():
        raise FileProblem(f"{folder / CHECKPOINT} does not exist", hint="start without --resume")
    files = (*GRAPHS, RECORD, SAMPLES, CHECKPOINT, *TRAINED, TABLE, PAGE, REPORT)
    with output.opened(folder, files, force):
        made = prepared(task, problem, samples, fleet.per_update, origin, folder, force)
        library = build_library(made, fleet.device_passes, folder, force, progress, warn)
        measure = None if held_out is None else measure_of(made, task, model, held_out, folder, force, progress)
        with _data_file(folder, samples, parts) as path:
            rules = _rules(made, fleet, library, path, samples.batch)
            federation = _federation(made, task, fleet, rules, parts, origin)
            if fleet.resume:
                federation.resume(folder / CHECKPOINT)
            else:
                output.discard(folder, (CHECKPOINT, *TRAINED))
            progress("rounds")
            fault = _played(engine.play, rules, fleet, federation, folder, force, measure, told)
        about = _about(made, task, fleet, model, data, samples, command)
        report = _report(fleet, federation, fault, about, parts, held_out)
        weights = {old: federation.server.weights[new] for new, old in made.original.items()}
        _write(folder, weights, report, force, bool(federation.rows))
    return FleetRun(weights, report, fault)


def _samples(problem: Any, data: Path, fleet: Fleet, warn: Warn) -> tuple[Samples, Samples | None, Parts]:
    """Samples of devices, those of validation, and the parts of devices."""
    graph, target = problem.graph, next(iter(problem.graph.loss.targets), "")
    if fleet.split == FILES:
        samples, counts = folder_samples(data, problem, warn)
        if fleet.devices not in (0, len(counts)):
            facts = [("files", str(len(counts))), ("--devices", str(fleet.devices))]
            raise OptionProblem(
                f"{data} has another number of files than there are devices", facts, "leave out --devices"
            )
        if isinstance(fleet.validation, float):
            hint = "a file of samples that no device has, or no --validation"
            raise OptionProblem("--split files leaves no share for --validation", hint=hint)
        parts: Parts | None = parts_of_files(counts)
    else:
        if not fleet.devices:
            raise OptionProblem(f"--split {fleet.split} needs --devices", hint="--devices N, or --split files")
        samples, parts = read_samples(data, graph.sampled, str(data), None, Request(), warn, graph.loss.targets), None
    held_out = None
    if isinstance(fleet.validation, float):
        samples, held_out = split(samples, fleet.validation, fleet.options.seed)
    elif fleet.validation is not None:
        path, request = fleet.validation, replace(Request(), classes=samples.classes, like=samples.taken)
        held_out = read_samples(path, graph.sampled, str(path), None, request, warn, graph.loss.targets)
    if parts is None:
        labels = samples.arrays[target or next(iter(samples.arrays))]
        parts = split_parts(fleet.split, labels, fleet.devices, fleet.concentration, fleet.shards, fleet.options.seed)
    return samples, held_out, parts


def _check(fleet: Fleet) -> None:
    """Raise OptionProblem for options that have no effect, or no meaning, with others."""
    options, name = fleet.options, fleet.strategy.name
    asked = min(options.per_round or fleet.devices, fleet.devices)
    if options.per_round > fleet.devices:
        facts = [("devices", str(fleet.devices))]
        raise OptionProblem(f"--per-round {options.per_round} is more than there are devices", facts, "fewer")
    if options.min_replies > asked:
        facts = [("asked in a round", str(asked))]
        raise OptionProblem(f"--min-replies {options.min_replies} is more than a round asks", facts, "fewer")
    if fleet.is_gradients:
        given = {"--epochs": fleet.epochs > 1, "--accumulate-grad-batches": fleet.per_update > 1}
        given["--compress"] = fleet.compression.name != NONE
        for option in (option for option, is_given in given.items() if is_given):
            cause = f"{option} has no effect with --strategy gradients, where each device makes one pass"
            raise OptionProblem(cause, hint="leave it out")
    if bool(fleet.strategy.mu) != (name == FEDPROX):
        cause = f"--mu has no effect with --strategy {name}" if fleet.strategy.mu else "--strategy fedprox needs --mu"
        raise OptionProblem(cause, hint="--strategy fedprox --mu 0.01, for example")
    if fleet.backend == LOOP and (fleet.workers > 1 or options.deadline is not None):
        option = "--workers" if fleet.workers > 1 else "--deadline"
        cause = f"{option} has no effect with --backend loop, whose devices work one after another"
        raise OptionProblem(cause, hint="leave it out, or --backend threads")


def _origin(
    model: Path, task: Task, fleet: Fleet, samples: Samples, held_out: Samples | None, parts: Parts
) -> dict[str, str]:
    """All that determines the bits of a fleet's rounds; how they are distributed and how many there are does not."""
    options = fleet.options
    local = {name: getattr(fleet, name) for name in ("epochs", "per_update", "shuffle")}
    given = {"seed": options.seed, "per_round": options.per_round, "lr_schedule": task.lr_scheduler or ""}
    given |= {"warmup": task.warmup_steps, "rounds": options.rounds if task.lr_schedule else 0}
    rule = asdict(replace(task, groups=(), expected=(), lr_scheduler="", warmup_steps=""))
    numbers = sha256(b"".join(part.tobytes() + b";" for part in parts)).hexdigest()[:16]
    return {
        "model": sha256(model.read_bytes()).hexdigest()[:16],
        "data": samples_digest(samples),
        "validation": samples_digest(held_out) if held_out else "none",
        "split": f"{fleet.split} {numbers}",
        "rule": json_text(rule | {"groups": [repr(group) for group in task.groups]}),
        "strategy": json_text(asdict(fleet.strategy)),
        "compression": json_text(asdict(fleet.compression)),
        "order": json_text(local | given),
    }


@contextlib.contextmanager
def _data_file(folder: Path, samples: Samples, parts: Parts) -> Iterator[Path]:
    with output.scratch(folder) as scratch:
        write_devices(scratch / DATA, samples, parts)
        yield scratch / DATA


def _rules(made: PreparedFleet, fleet: Fleet, library: Path, data: Path, batch: int) -> FleetRules:
    return FleetRules(
        str(library.absolute()),
        NAME,
        str(data.absolute()),
        batch,
        fleet.options.seed,
        fleet.shuffle,
        fleet.epochs,
        fleet.per_update,
        fleet.strategy.mu,
        fleet.is_gradients,
        tuple(made.gradients.items()),
        fleet.compression,
        fleet.backend not in (THREADS, LOOP),
    )


def _federation(
    made: PreparedFleet, task: Task, fleet: Fleet, rules: FleetRules, parts: Parts, origin: Mapping[str, str]
) -> Federation:
    rounds, rate = fleet.options.rounds, made.problem.learning_rate
    groups, shown = list[Any](), [rate] * rounds
    schedule = task.lr_schedule
    if schedule is not None:
        groups = list(made.problem.rated(made.program, schedule, rounds)[1].tolist())
        shown = schedule.rates([rate], rounds, rate)[:, 0].tolist()
    module = imported(Path(rules.library), rules.name)
    plain = [name for name in made.weights if name not in made.gradients]
    return Federation(
        fleet.options,
        fleet.strategy,
        fleet.compression,
        passes_of(rules, parts),
        groups,
        shown,
        plain,
        ServerState(dict(made.weights)),
        module,
        origin,
    )


def _played(
    play: Callable[..., None],
    rules: FleetRules,
    fleet: Fleet,
    federation: Federation,
    folder: Path,
    force: bool,
    measure: Measure | None,
    told: Told,
) -> ToolFailed | None:
    """Play all rounds; the error that ended them early. It is raised where no round has ended."""
    if len(federation.rows) >= fleet.options.rounds:
        return None
    before = len(federation.rows)
    try:
        play(rules, fleet.devices, lambda ask: federation.run(ask, folder, force, measure, told))
    except ToolFailed as error:
        return error
    if len(federation.rows) < fleet.options.rounds:
        facts = [("made", str(len(federation.rows) - before)), ("wanted", str(fleet.options.rounds - before))]
        return ToolFailed("the engine has ended without an error, before the last round", facts, "--resume")
    return None


def _about(
    made: PreparedFleet, task: Task, fleet: Fleet, model: Path, data: Path, samples: Samples, command: str
) -> RunFacts:
    schedule = task.lr_schedule
    return RunFacts(
        model=model.name,
        dataset=f"{data}: {samples.count} samples",
        loss=task.loss or facts.loss_name(made.program),
        optimizer=facts.optimizer_names(made.program),
        learning_rates=tuple(dict.fromkeys(rule.rate for rule in made.problem.rules.values())),
        lr_schedule=schedule.schedule.name if schedule else "",
        batch=samples.batch,
        accumulation=fleet.per_update,
        parameters=facts.parameter_count(records(made.problem.tensors)),
        version=__version__,
        command=command,
    )


def _report(
    fleet: Fleet,
    federation: Federation,
    fault: ToolFailed | None,
    about: RunFacts,
    parts: Parts,
    held_out: Samples | None,
) -> FleetReport:
    numbers = [f"{name} {value:g}" for name, value in _numbers(fleet.strategy).items()]
    strategy = ", ".join([fleet.strategy.name, *numbers])
    more = {DIRICHLET: f", concentration {fleet.concentration:g}", SHARDS: f", {fleet.shards} each"}
    split = fleet.split + more.get(fleet.split, "")
    sizes = tuple(len(part) for part in parts)
    compression = fleet.compression.name + (
        f", share {fleet.compression.share:g}" if fleet.compression.share < 1 else ""
    )
    described = FleetFacts(
        strategy,
        split,
        compression,
        f"{fleet.backend}, {fleet.workers} at a time",
        fleet.devices,
        sizes,
        held_out.count if held_out else 0,
        int(federation.module.STRUCT_BYTES),
    )
    rows, made = tuple(federation.rows), tuple(federation.records)
    measured = [row for row in rows if "loss" in row.metrics]
    best = min(measured, key=lambda row: row.metrics["loss"]).epoch if measured else 0
    own, children = (
        resource.getrusage(who).ru_maxrss * MEMORY_UNIT for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return FleetReport(
        "failed" if fault else "passed",
        fault.cause if fault else "",
        about,
        described,
        federation.digest,
        best,
        rows,
        made,
        sum(record.bytes_down for record in made),
        sum(record.bytes_up for record in made),
        tuple(federation.seconds),
        own,
        children,
    )


def _numbers(strategy: FleetStrategy) -> dict[str, float]:
    """The numbers of a strategy that it uses."""
    used = {FEDAVGM: ("server_lr", "beta1"), FEDPROX: ("mu",), FEDADAM: ("server_lr", "beta1", "beta2", "epsilon")}
    return {name: getattr(strategy, name) for name in used.get(strategy.name, ())}


def _write(folder: Path, weights: Mapping[str, Array], report: FleetReport, force: bool, trained: bool) -> None:
    files: dict[str, str | bytes] = {
        TABLE: rounds_csv(report.epochs, report.rounds),
        PAGE: fleet_page(report),
        REPORT: json_text(printable(asdict(report)), allow_nan=False),
    }
    if trained:
        named = {member_name(name): array for name, array in weights.items()}
        files |= {TRAINED[0]: npz_bytes(named), TRAINED[1]: safetensors_bytes(weights)}
    output.write(folder, files, force)
