"""The `deployer fleet` command: makes a fleet of its options, and shows its rounds."""

import argparse
from dataclasses import asdict
from pathlib import Path

from deployer.commands import ending
from deployer.commands.fit import share_of, task_of
from deployer.core.errors import OptionProblem
from deployer.core.files.reading import real_path
from deployer.fitting.fit import TRAINED
from deployer.fitting.history import EpochRow
from deployer.fleets.compression import Compression
from deployer.fleets.fleet import PAGE, TABLE, Fleet, run_fleet
from deployer.fleets.options import DIRICHLET, FEDADAM, FEDAVGM, FEDPROX, SHARDS, TOP_K
from deployer.fleets.rounds import DrawnFaults, FleetOptions, RoundRecord
from deployer.fleets.strategies import FleetStrategy
from deployer.lr_schedules.windows import ACCUMULATIONS
from deployer.reports.html import byte_text
from deployer.running.report import printable
from deployer.running.terminal import Terminal

DEFAULTS: dict[str, dict[str, float]] = {
    "concentration": {DIRICHLET: 0.5},
    "shards": {SHARDS: 2},
    "top_share": {TOP_K: 0.01},
    "mu": {FEDPROX: 0.0},
    "server_lr": {FEDAVGM: 1.0, FEDADAM: 0.01},
    "server_beta1": {FEDAVGM: 0.9, FEDADAM: 0.9},
    "server_beta2": {FEDADAM: 0.99},
    "server_epsilon": {FEDADAM: 0.001},
}
"""Numbers of a split, a compression or a strategy, by the choices that have them."""


POSITIVE = ("concentration", "top_share", "server_epsilon")
"""Numbers that may not be 0."""


def run_fleet_command(a: argparse.Namespace, console: Terminal) -> int:
    """Train the fleet. A round that lacks replies is an error, raised when all files are written."""
    fleet = fleet_of(a)
    task = task_of(argparse.Namespace(**vars(a), accumulate=ACCUMULATIONS[0]))

    def told(row: EpochRow, record: RoundRecord) -> None:
        console.event("round", printable(asdict(record) | {"loss": row.loss, "metrics": row.metrics}))
        shown = "".join(f"  {name} {value:.4g}" for name, value in row.named_metrics.items()).replace("_", " ")
        line = f"round {row.epoch}: loss {row.loss:.5g}{shown}  {record.text}, {byte_text(record.bytes_up)} sent"
        console.print(line, soft_wrap=True)

    with console.status("model") as status:
        run = run_fleet(
            a.model,
            a.data,
            task,
            fleet,
            real_path(a.output),
            force=a.force,
            command=a.command_line,
            told=told,
            progress=status.update,
            warn=lambda warning: ending.tell(str(warning)),
        )
    report = run.report
    if run.fault:
        raise run.fault
    record = {"verdict": report.verdict, "rounds": len(report.epochs), "digest": report.digest}
    record |= {"bytes_down": report.bytes_down, "bytes_up": report.bytes_up, "output": str(a.output)}
    last = dict(report.epochs[-1].metrics) if report.epochs else {}
    console.event("end", printable({**record, "metrics": last}))
    console.print(f"digest {report.digest}, {byte_text(report.bytes_up)} sent by devices", soft_wrap=True)
    places = ", ".join(str(a.output / name) for name in (TRAINED[0], TABLE, PAGE))
    console.print(f"written: {places}", soft_wrap=True)
    console.print(report.verdict, style="bold green")
    return 0


def fleet_of(a: argparse.Namespace) -> Fleet:
    """The fleet of the command line; OptionProblem for numbers without meaning, or without effect."""
    chosen = {a.split, a.compress, a.strategy}
    numbers = dict[str, float]()
    for name, owners in DEFAULTS.items():
        own = [value for choice, value in owners.items() if choice in chosen]
        given, flag = vars(a)[name], f"--{name.replace('_', '-')}"
        if given is not None and not own:
            raise OptionProblem(f"{flag} has no effect here", hint=f"leave it out: it belongs to {', '.join(owners)}")
        if given is not None and not (given > 0 or (given == 0 and name not in POSITIVE)):
            raise OptionProblem(f"{flag} {given:g} is not positive", hint="a positive number")
        numbers[name] = float(given if given is not None else own[0] if own else 0.0)
    if numbers["top_share"] > 1:
        raise OptionProblem(f"--top-share {numbers['top_share']:g} is more than all", hint="a share up to 1")
    shares = {"--late": a.late, "--failing": a.failing, "--killed": a.killed}
    for flag, share in shares.items():
        if not 0 <= share <= 1 or sum(shares.values()) > 1:
            raise OptionProblem(f"{flag} {share:g} is no share", hint="shares from 0 to 1, at most 1 in all")
    if a.deadline is not None and a.deadline <= 0:
        raise OptionProblem(f"--deadline {a.deadline:g} is not positive", hint="seconds above 0, or leave it out")
    strategy = FleetStrategy(
        a.strategy,
        numbers["server_lr"],
        numbers["server_beta1"],
        numbers["server_beta2"],
        numbers["server_epsilon"],
        numbers["mu"],
    )
    share = share_of(a.validation)
    faults = DrawnFaults(a.late, a.failing, a.killed)
    options = FleetOptions(a.rounds, a.per_round, a.min_replies, a.deadline, a.seed, faults)
    return Fleet(
        strategy=strategy,
        options=options,
        devices=a.devices or 0,
        split=a.split,
        concentration=numbers["concentration"],
        shards=int(numbers["shards"]),
        validation=Path(a.validation) if share is None and a.validation is not None else share,
        epochs=a.epochs,
        per_update=a.accumulate_grad_batches,
        shuffle=not a.no_shuffle,
        compression=Compression(a.compress, numbers["top_share"] or 1.0),
        backend=a.backend,
        workers=a.workers,
        resume=a.resume,
    )
