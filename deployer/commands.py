"""What each command of the CLI does, over the pipeline."""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from deployer import artefact, pipeline
from deployer import target as targets
from deployer.errors import FileProblem, OptionProblem
from deployer.memory_map import memory_map
from deployer.operator import Operator, registry
from deployer.pipeline import Case
from deployer.plan import Options, Plan
from deployer.profile import profile_table
from deployer.stages import generate, report
from deployer.stages.run import Outcome


def dispatch(a: argparse.Namespace, console: Console) -> int:
    """Run the command the arguments name."""
    commands: dict[str, Callable[[argparse.Namespace, Console], int]] = {
        "train": run_case,
        "optimizer": run_case,
        "infer": run_case,
        "compile": compile_case,
        "emit": emit,
        "train-graph": train_graph,
        "calibrate": calibrate,
        "targets": list_targets,
        "operators": list_operators,
    }
    return commands[a.command](a, console)


def load_case(a: argparse.Namespace) -> Case:
    """The case a command works on."""
    if a.command == "infer":
        return pipeline.load_inference_case(a.test)
    if a.command == "compile" and not list(a.test.glob("*_train")) and not a.test.name.endswith("_train"):
        return pipeline.load_inference_case(a.test)
    if a.command == "optimizer":
        return pipeline.load_optimizer_case(a.test, a.learning_rate)
    return pipeline.load_training(a.test, a.n_steps, a.n_accum, a.learning_rate, a.data_inputs)


def options_of(a: argparse.Namespace) -> Options:
    """Compile options from the command line."""
    if a.opt_out and a.buffering != "training_double":
        raise OptionProblem("--opt-out has no effect here", hint="add --buffering training_double")
    if a.fused and a.no_fusion:
        raise OptionProblem("--fused is a fusion, and --no-fusion forbids those", hint="leave one of them out")
    budgets = {level: value for level, value in (("L1", a.l1), ("L2", a.l2)) if value is not None}
    return Options(
        a.platform,
        a.buffering,
        budgets or None,
        a.cores,
        opt_out=tuple(sorted(a.opt_out)),
        fuse=not a.no_fusion,
        tolerance=a.tolerance,
        outermost=a.defaultMemLevel,
        fused=a.fused,
    )


def run_case(a: argparse.Namespace, console: Console) -> int:
    """Compile, build, run and compare a case."""
    timings: dict[str, float] = {}
    _check_guards(a)
    with _timed(console, timings) as progress:
        case = load_case(a)
        directory = a.output or Path("out") / case.directory.name / a.platform
        plan = _existing(case, directory) if a.skipgen else _compiled(a, case, directory, progress)
        progress("build")
        pipeline.build_case(plan, directory, a.sanitize)
        outcome = None
        if not a.skipsim:
            progress("run")
            outcome = pipeline.execute(case, plan, directory, _simulator_flags(a))
    _extras(a, case, plan, directory, console, outcome is not None)
    if outcome is None:
        console.print(f"built {directory / 'network'}, not run")
        return 0
    return _judge(a, case, plan, outcome, directory, console, timings)


def _check_guards(a: argparse.Namespace) -> None:
    """OptionProblem where stray writes are to be looked for in memories that are not simulated."""
    if a.guards is not None and not targets.load(a.platform).guard_bytes:
        simulated = " or ".join(f"-p {name}" for name in targets.names() if targets.load(name).guard_bytes)
        raise OptionProblem(f"target {a.platform!r} takes no --guards", hint=f"leave it out, or use {simulated}")


def _simulator_flags(a: argparse.Namespace) -> list[str]:
    """The simulator's options that were given."""
    given = {"--dma-order": a.dma_order, "--core-order": a.core_order, "--seed": a.seed, "--guards": a.guards}
    return [word for flag, value in given.items() if value is not None for word in (flag, str(value))]


def _compiled(a: argparse.Namespace, case: Case, directory: Path, progress: pipeline.Progress) -> Plan:
    options = pipeline.accumulate_of(case, options_of(a))
    tiling, plan = pipeline.plan_program(case.program, options, progress)
    progress("generate")
    pipeline.write_case(case, tiling, plan, directory)
    return plan


def _existing(case: Case, directory: Path) -> Plan:
    plan, tiling = directory / "plan.json", directory / "tiling.json"
    for path in (plan, tiling):
        if not path.is_file():
            raise FileProblem(f"{path} does not exist", hint="run once without --skipgen")
    pipeline.check_origin(case, pipeline.tiling_from(tiling), tiling)
    return artefact.load(Plan, plan)


def _extras(
    a: argparse.Namespace, case: Case, plan: Plan, directory: Path, console: Console, measured: bool = False
) -> None:
    if a.verbose:
        console.print(report.step_table(plan))
    if a.plotMemAlloc:
        (directory / "memory.html").write_text(memory_map(plan))
        console.print(f"memory map: {directory / 'memory.html'}")
    if a.profileTiling:
        rows = pipeline.profile(case, plan, directory, measured)
        (directory / "profile.json").write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
        console.print(profile_table(rows))
        console.print(f"per tile: {directory / 'profile.json'}", soft_wrap=True)


def _judge(
    a: argparse.Namespace,
    case: Case,
    plan: Plan,
    outcome: Outcome,
    directory: Path,
    console: Console,
    timings: dict[str, float],
) -> int:
    losses = case.dataset.expected_losses if case.dataset else ()
    relative = report.RELATIVE if a.command == "infer" else 0.0
    result = report.run(plan, outcome, losses, case.expected, case.note, a.tolerance, relative)
    report.write_json(result, directory / "report.json")
    if a.dump:
        arrays = dict(outcome.arrays)
        if outcome.losses:
            arrays["loss"] = np.array(outcome.losses, np.float32)
        a.dump.parent.mkdir(parents=True, exist_ok=True)
        np.savez(a.dump, allow_pickle=False, **arrays)
    console.print(outcome.text.rstrip(), markup=False, soft_wrap=True)
    report.show(result, plan, console)
    spent = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in timings.items())
    console.print(f"C and plan: {directory}  ({spent})", soft_wrap=True)
    return 0 if result.passed else 1


@contextmanager
def _timed(console: Console, timings: dict[str, float]) -> Iterator[pipeline.Progress]:
    """Show the running stage on a terminal and note how long each took."""
    stage, since = "load", time.perf_counter()

    def close() -> None:
        timings[stage] = timings.get(stage, 0.0) + time.perf_counter() - since

    with console.status(stage) as status:

        def progress(message: str) -> None:
            nonlocal stage, since
            close()
            stage, since = message.split(",")[0], time.perf_counter()
            status.update(message)

        yield progress
        close()


def compile_case(a: argparse.Namespace, console: Console) -> int:
    """Compile a case to C, from its files or from a dumped tiling."""
    case = load_case(a)
    directory = a.output or Path("out") / case.directory.name / a.platform
    if a.from_file is not None:
        tiling = pipeline.tiling_from(a.from_file)
        pipeline.check_origin(case, tiling, a.from_file)
        plan = pipeline.place_edited(tiling)
        pipeline.write_case(case, tiling, plan, directory)
    else:
        plan = _compiled(a, case, directory, pipeline.silent)
    _extras(a, case, plan, directory, console)
    console.print(f"C and plan: {directory}")
    return 0


def emit(a: argparse.Namespace, console: Console) -> int:
    """Print a plan's C again."""
    pipeline.write_files(generate.run(artefact.load(Plan, a.plan)), a.output)
    console.print(f"C: {a.output}")
    return 0


def train_graph(a: argparse.Namespace, console: Console) -> int:
    """Make a training case from a forward model."""
    from deployer.train_graph import build_train_graph

    made = build_train_graph(
        a.model,
        a.loss,
        a.optimizer,
        a.lr,
        a.trainable,
        a.output,
        samples=a.samples,
        n_accum=a.n_accum,
        n_batches=a.n_steps,
        seed=a.seed,
        data=a.data,
    )
    console.print(str(made), soft_wrap=True)
    return 0


def calibrate(a: argparse.Namespace, console: Console) -> int:
    """Measure a target and write its costs."""
    from deployer import calibrate as calibration

    with console.status("calibrate") as status:
        found = calibration.run(a.platform, a.simulator or a.platform, status.update)
    table = Table("kernel", "calls", "call", "mac", "element", "median", "worst", box=None, header_style="bold")
    for fit in found.fits:
        rates = (f"{fit.cost.mac_milli / 1000:.2f}", f"{fit.cost.element_milli / 1000:.2f}")
        shares = (f"{100 * fit.median:.0f} %", f"{100 * fit.worst:.0f} %")
        table.add_row(fit.symbol, str(fit.points), str(fit.cost.call), *rates, *shares)
    console.print(table)
    t = found.target
    console.print(
        f"dispatch {t.dispatch}, step {t.step}, tile {t.tile}, contention {t.contention}, {t.small}, {t.hops[0]}",
        soft_wrap=True,
    )
    console.print(f"written: {targets.costs_file(a.platform)}", soft_wrap=True)
    return 0


def list_targets(a: argparse.Namespace, console: Console) -> int:
    """Targets with cores and memories."""
    table = Table("target", "cores", "clock", "levels (budget of bytes)", "description", box=None, header_style="bold")
    for name in targets.names():
        t = targets.load(name)
        levels = ", ".join(f"{x.name} {x.budget} of {x.bytes}" for x in t.levels)
        table.add_row(name, str(t.cores), t.clock, levels, t.description)
    console.print(table)
    return 0


def list_operators(a: argparse.Namespace, console: Console) -> int:
    """Operators: how each runs, and whether it has a gradient."""
    table = Table("operator", "runs as", "gradient", box=None, header_style="bold")
    for name, operator in registry().items():
        kind = operator.kernel.symbol if operator.kernel else "view" if operator.view else "lowered or folded"
        has = type(operator).gradient is not Operator.gradient
        table.add_row(name, kind, "yes" if has else f"no: {operator.no_gradient}")
    console.print(table)
    return 0
