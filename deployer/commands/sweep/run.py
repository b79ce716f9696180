"""The `deployer sweep` command: runs another command with varied options, and tells what came of the runs."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table

from deployer.commands import ending
from deployer.commands.parser import parsed
from deployer.commands.sweep.options import BATCH, SWEPT
from deployer.core.errors import OptionProblem
from deployer.core.files.reading import real_path
from deployer.running import output
from deployer.running.terminal import Terminal
from deployer.sweeps.axes import SweptOption, swept_option
from deployer.sweeps.options import GOALS, OPTUNA
from deployer.sweeps.page import sweep_page
from deployer.sweeps.records import SweptResult, SweptRun
from deployer.sweeps.samplers import Goal, sampler_of
from deployer.sweeps.sweep import CRASHED, Sweep, workers
from deployer.sweeps.table import best_rows, table_text

TABLE, PAGE = "table.csv", "sweep.html"
SHOWN_BEST = 10
OUTPUTS = ("-o", "--output", "--dump", "--json", "--quiet", "--force")


def run_sweep(a: argparse.Namespace, console: Terminal) -> int:
    """Run all; 1 where a run failed or crashed, or none passed."""
    options = _options(a)
    goals: list[Goal] = [(column, way) for way in GOALS for column in vars(a)[way]]
    if a.at_once is not None and a.sampler != OPTUNA:
        raise OptionProblem("--at-once has no effect here", hint=f"add --sampler {OPTUNA}")
    if a.workers is not None and a.scheduler:
        hint = "one of them; a cluster has the workers that it was started with"
        raise OptionProblem("--workers and --scheduler exclude each other", hint=hint)
    sampler = sampler_of(a.sampler, options, goals, a.seed, a.runs, a.at_once or BATCH)
    sweep = Sweep(a.output, _checked(a.words))

    def check(runs: Sequence[SweptRun]) -> None:
        for run in runs:
            parsed([*run.words, "-o", str(a.output)])

    def ended(run: SweptRun, result: SweptResult, known: bool) -> None:
        console.event("run", {"run": run.number, "values": dict(run.values), **asdict(result), "known": known})
        values = ", ".join(f"{name} {value}" for name, value in run.values.items())
        shown = [f"{column} {result.numbers[column]:.5g}" for column, _ in goals if column in result.numbers]
        shown = shown or [f"{c} {n:.5g}" for c, n in list(result.numbers.items())[:1]]
        end = result.cause or ", ".join(shown)
        again = " (known)" if known else ""
        console.print(f"run {run.number}: {values}: {result.outcome}{again}{': ' if end else ''}{end}", soft_wrap=True)

    with output.opened(real_path(a.output), (TABLE, PAGE), a.force), workers(a.workers or 1, a.scheduler) as executor:
        sweep.run(sampler, executor, ended, check)
        known = {name for row in sweep.rows for name in row.result.numbers}
        absent = next((column for column, _ in goals if known and column not in known), None)
        facts = [
            ("Command", a.command_line),
            ("Runs", f"{len(sweep.rows)}: {_counted(sweep)}"),
            ("Goals", ", ".join(f"{way} {column}" for column, way in goals) or "none"),
        ]
        page = sweep_page(f"Sweep of deployer {sweep.words[0]}", facts, sweep.rows, goals)
        output.write(real_path(a.output), {TABLE: table_text(sweep.rows), PAGE: page}, a.force)
    if absent is not None:
        facts = [("columns", ", ".join(sorted(known)))]
        raise OptionProblem(f"no run has a number {absent!r}", facts, "a goal of these; runs that are there stay known")
    return _tell(a, sweep, goals, console)


def _options(a: argparse.Namespace) -> list[SweptOption]:
    options = [swept_option(text) for text in a.vary]
    double = next((o.name for i, o in enumerate(options) if o.name in {p.name for p in options[:i]}), None)
    if double is not None:
        raise OptionProblem(f"--vary {double} is given twice", hint="one --vary for each option, with all its values")
    return options


def _checked(words: Sequence[str]) -> Sequence[str]:
    """The words of the command; OptionProblem where it leaves no report, or says where it writes."""
    if words[0] not in SWEPT:
        raise OptionProblem(f"deployer {words[0]} is not swept", hint=f"one of {', '.join(SWEPT)}")
    own = next((w for w in words if w.partition("=")[0] in OUTPUTS), None)
    if own is not None:
        hint = "leave it out: each run has a folder below that of the sweep"
        raise OptionProblem(f"{own} belongs to the sweep", [("command", " ".join(words))], hint)
    return words


def _counted(sweep: Sweep) -> str:
    outcomes = [row.result.outcome for row in sweep.rows]
    return ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in dict.fromkeys(sorted(outcomes)))


def _tell(a: argparse.Namespace, sweep: Sweep, goals: Sequence[Goal], console: Terminal) -> int:
    """Print the best runs and where things are; the exit code."""
    best = best_rows(sweep.rows, goals) if goals else []
    if best:
        names = list(best[0].run.values)
        columns = list(dict.fromkeys(column for column, _ in goals))
        shown = Table("run", *names, *columns, "digest", box=None, header_style="bold")
        for row in best[:SHOWN_BEST]:
            numbers = [f"{row.result.numbers[column]:.6g}" for column in columns]
            shown.add_row(str(row.run.number), *(row.run.values[n] for n in names), *numbers, row.digest)
        console.print(f"best of {len(sweep.rows)} runs ({_counted(sweep)}):")
        console.print(shown)
    else:
        console.print(f"{len(sweep.rows)} runs: {_counted(sweep)}")
    console.print(f"written: {a.output / TABLE}, {a.output / PAGE}", soft_wrap=True)
    outcomes = {row.result.outcome for row in sweep.rows}
    failed = "passed" not in outcomes or bool(outcomes & {"failed", CRASHED})
    record = {"runs": len(sweep.rows), "outcomes": _counted(sweep), "best": [row.run.number for row in best]}
    console.event("end", {**record, "output": str(a.output)})
    for row in sweep.rows if a.quiet else ():
        if row.result.outcome in ("failed", CRASHED):
            ending.tell(f"run {row.run.number} {row.result.outcome}: {row.result.cause}")
    return int(failed)
