"""Commands of the CLI, implemented over the pipeline."""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from rich.table import Table

from deployer import judging, pipeline
from deployer.codegen import generate
from deployer.commands import ending, listings, reentry, requests
from deployer.commands.parser import given_settings
from deployer.core import target as targets
from deployer.core.artefact import digest
from deployer.core.errors import DeployerWarning, OptionProblem
from deployer.core.plan import Options, Plan
from deployer.core.safe_text import json_text, member_name
from deployer.frontend.runtime.case import is_runtime_case
from deployer.lr_schedules.windows import ACCUMULATIONS, PARTIAL_ACCUMULATION
from deployer.pipeline import Case
from deployer.planning.plan_choice import Progress
from deployer.reports.memory import memory_page
from deployer.running import output, report
from deployer.running.profile import profile_table
from deployer.running.run import Outcome
from deployer.running.terminal import Terminal
from deployer.running.watch import drift_svg
from deployer.training.samples import write_npz
from deployer.verify.tolerances import TOLERANCES


def dispatch(a: argparse.Namespace, console: Terminal) -> int:
    """Run the command the arguments name."""
    commands: dict[str, Callable[[argparse.Namespace, Terminal], int]] = {
        "train": run_case,
        "optimizer": run_case,
        "infer": run_case,
        "compile": compile_case,
        "emit": emit,
        "train-graph": train_graph,
        "fit": fit_model,
        "export": export_model,
        "quantize": quantize_model,
        "sweep": sweep,
        "fleet": fleet,
        "package": package,
        "fits": fits,
        "rack": rack,
        "hal-test": hal_test,
        "state": show_state,
        "calibrate": calibrate,
        "lm": language_model,
        "targets": listings.list_targets,
        "operators": listings.list_operators,
        "schema": listings.show_schema,
        "completion": listings.show_completion,
    }
    return commands[a.command](a, console)


def kind_of(a: argparse.Namespace) -> str:
    """The kind of case that a command works on: `training`, `optimizer` or `inference`."""
    if a.command == "compile":
        trains = a.test.name.endswith("_train") or any(a.test.glob("*_train")) or is_runtime_case(a.test)
        return "training" if trains else "inference"
    return {"infer": "inference", "optimizer": "optimizer"}.get(a.command, "training")


def load_case(a: argparse.Namespace) -> tuple[Case, list[DeployerWarning]]:
    """The case a command works on, and the warnings about its files, which are printed at once."""
    kind, warnings = kind_of(a), list[DeployerWarning]()

    def warn(warning: DeployerWarning) -> None:
        warnings.append(warning)
        ending.tell(str(warning))

    rate, lr_schedule = a.lr, requests.lr_schedule_of(a)
    axes = requests.axes_of(a)
    if kind == "inference":
        return pipeline.load_inference_case(a.test, warn, axes), warnings
    if kind == "optimizer":
        return pipeline.load_optimizer_case(a.test, rate, warn, axes), warnings
    flush = None if a.partial_accumulation is None else a.partial_accumulation == PARTIAL_ACCUMULATION[True]
    case = pipeline.load_training(
        a.test, a.n_steps, a.accumulate_grad_batches, rate, a.data_inputs, warn, lr_schedule, flush, axes
    )
    return case, warnings


def choices_of(a: argparse.Namespace) -> Options:
    """Compile options from the command line, but for those that depend on the target."""
    if a.opt_out and a.buffering != "training_double":
        raise OptionProblem("--opt-out has no effect here", hint="add --buffering training_double")
    allow_rewrites, disabled_rewrites = requests.rewrites_of(a)
    return Options(
        strategy=a.buffering,
        cores=a.cores,
        opt_out=tuple(sorted(a.opt_out)),
        allow_rewrites=allow_rewrites,
        fuse_update=a.fuse_update,
        cross_step_prefetch=not a.no_ahead,
        disabled_rewrites=disabled_rewrites,
        canonical_batch=a.canonical_batch,
    )


def options_of(a: argparse.Namespace, target_name: str = "") -> Options:
    """All options; `target_name` is the target of the artefact that the command starts from, used without `-p`.

    OptionProblem for levels that the target does not have.
    """
    target = targets.load(target_name if target_name and "platform" not in a.given else a.platform)
    budgets, outermost = requests.budgets_of(a, target), requests.outermost_of(a, target)
    return replace(choices_of(a), target=target.name, budgets=budgets or None, outermost=outermost)


def run_case(a: argparse.Namespace, console: Terminal) -> int:
    """Compile, build, run and compare a case."""
    timings: dict[str, float] = {}
    requests.check_flags(a, kind_of(a), _simulator_flags(a))
    with ExitStack() as held:
        with _timed(console, timings) as progress:
            case, warnings = load_case(a)
            requests.check_case(a, case, choices_of(a))
            options = None if a.skipgen else options_of(a)
            directory = a.output or Path("out") / case.directory.name / a.platform
            held.enter_context(output.opened(directory, _file_names(a), a.force))
            plan = _compiled(a, options, case, directory, progress) if options else _existing(a, case, directory)
            progress("build")
            pipeline.build_case(plan, directory, a.sanitize)
            outcome = None
            if not a.skipsim:
                progress("run")
                outcome = pipeline.execute(case, plan, directory, _simulator_flags(a))
        _extras(a, case, plan, directory, console, outcome is not None)
        if outcome is None:
            console.print(f"built {directory / 'network'}, not run")
            console.event("end", {**_compiled_record(plan), "output": str(directory)})
            return 0
        return _judge(a, case, warnings, plan, outcome, directory, console, timings)


def _file_names(a: argparse.Namespace) -> set[str]:
    """The names of the files that a command writes for every plan."""
    names = {"memory.html"} if a.plotMemAlloc else set()
    names |= {"profile.json"} if a.profileTiling else set()
    names |= set() if a.skipgen else set(pipeline.ARTEFACTS)
    if a.command != "compile":
        names |= set(pipeline.RESULTS[: 1 if a.skipsim else None])
    return names


def _simulator_flags(a: argparse.Namespace) -> list[str]:
    """The options of the simulator on the command line, as words."""
    options = {"--dma-order": a.dma_order, "--core-order": a.core_order, "--seed": a.seed, "--guards": a.guards}
    return [word for flag, value in options.items() if value is not None for word in (flag, str(value))]


def _compiled(a: argparse.Namespace, options: Options, case: Case, directory: Path, progress: Progress) -> Plan:
    tiling, plan = pipeline.plan_case(case, options, progress, a.tolerance, a.check_passes, a.jobs)
    progress("generate")
    pipeline.write_case(case, tiling, plan, directory, a.force)
    return plan


def _existing(a: argparse.Namespace, case: Case, directory: Path) -> Plan:
    plan = reentry.existing(case, directory, pipeline.running_of(case, a.tolerance, a.check_passes))
    reentry.check_agreement(a.given, options_of(a, plan.options.target), plan.options, directory / "plan.json")
    return plan


def _extras(
    a: argparse.Namespace, case: Case, plan: Plan, directory: Path, console: Terminal, measured: bool = False
) -> None:
    if a.verbose:
        console.print(report.step_table(plan))
    if a.plotMemAlloc:
        output.write(directory, {"memory.html": memory_page(plan)})
        console.print(f"memory map: {directory / 'memory.html'}")
    if a.profileTiling:
        rows = pipeline.profile(case, plan, directory, measured)
        output.write(directory, {"profile.json": json_text([asdict(r) for r in rows])})
        console.print(profile_table(rows))
        console.print(f"per tile: {directory / 'profile.json'}", soft_wrap=True)


def _judge(
    a: argparse.Namespace,
    case: Case,
    warnings: Sequence[DeployerWarning],
    plan: Plan,
    outcome: Outcome,
    directory: Path,
    console: Terminal,
    timings: dict[str, float],
) -> int:
    relative = TOLERANCES.relative if a.command == "infer" else 0.0
    result, judge = judging.judged(case, plan, outcome, a.tolerance, relative)
    if judge and result.checks.failed is not None:
        first, text = judging.divergence(case, plan, judge, directory, result.checks.failed)
        result = replace(result, divergence=first, diverged=text)
    if result.verdict == "explained":
        units = judging.with_values(case, plan, result.checks.explained, directory)
        result = replace(result, checks=replace(result.checks, explained=units))
        warning = DeployerWarning(
            f"near-tie decisions that rounding flipped explain values beyond the tolerance: {len(units)}",
            [("unit", str(unit)) for unit in units],
            "--strict makes it a failure",
        )
        ending.tell(str(warning))
        warnings = [*warnings, warning]
    result = replace(result, about=judging.run_facts(case, plan, result, a.command_line))
    result = replace(result, figures=judging.figures(case, plan))
    files = {"report.json": report.as_json(result, warnings), "report.html": report.as_page(result, plan)}
    if result.drift:
        files["drift.svg"] = drift_svg(result.drift, len(result.losses), a.tolerance)
    output.write(directory, files)
    if a.dump:
        arrays = {member_name(name): array for name, array in outcome.arrays.items()}
        if outcome.losses:
            arrays["loss"] = np.array(outcome.losses, np.float32)
        write_npz(a.dump, arrays)
    console.lines(outcome.text.rstrip())
    report.show(result, plan, console)
    console.event("end", {**_compiled_record(plan), **report.result_record(result), "output": str(directory)})
    for fault in result.faults[: report.MOST_FAULTS] if a.quiet else ():
        ending.tell(f"FAULT {fault}")
    times = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in timings.items())
    console.print(f"C and plan: {directory}  ({times})", soft_wrap=True)
    return 1 if not result.passed or (a.strict and result.verdict == "explained") else 0


@contextmanager
def _timed(console: Terminal, timings: dict[str, float]) -> Iterator[Progress]:
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


def compile_case(a: argparse.Namespace, console: Terminal) -> int:
    """Compile a case to C, from its files or from a dumped tiling."""
    requests.check_flags(a, kind_of(a), _simulator_flags(a))
    case, _ = load_case(a)
    requests.check_case(a, case, choices_of(a))
    options = None if a.from_file else options_of(a)
    directory = a.output or Path("out") / case.directory.name / a.platform
    with output.opened(directory, _file_names(a), a.force):
        with _timed(console, {}) as progress:
            if options is None:
                tiling = pipeline.tiling_from(a.from_file)
                pipeline.check_origin(case, tiling, a.from_file)
                origin = tiling.lifetimes.schedule.options
                reentry.check_agreement(a.given, options_of(a, origin.target), origin, a.from_file)
                running = pipeline.running_of(case, a.tolerance, a.check_passes)
                plan = pipeline.place_edited(tiling, running, progress)
                pipeline.write_case(case, tiling, plan, directory, a.force)
            else:
                plan = _compiled(a, options, case, directory, progress)
        _extras(a, case, plan, directory, console)
    console.print(f"C and plan: {directory}")
    console.event("end", {**_compiled_record(plan), "output": str(directory)})
    return 0


def _compiled_record(plan: Plan) -> dict[str, object]:
    """A plan in short, for lines of JSON: its digest, bytes of each level, predicted cycles of each graph."""
    levels = {x.name: {"peak": x.peak, "budget": x.budget, "bound": x.bound} for x in plan.levels}
    return {"plan": digest(plan), "levels": levels, "predicted": {graph: plan.cycles(graph) for graph in plan.graphs}}


def emit(a: argparse.Namespace, console: Terminal) -> int:
    """Print a plan's C again."""
    files = generate.generate_files(reentry.plan_from(a.plan))
    with output.opened(a.output):
        pipeline.write_files(files, a.output, a.force)
    console.print(f"C: {a.output}")
    console.event("end", {"files": sorted(files), "output": str(a.output)})
    return 0


def train_graph(a: argparse.Namespace, console: Terminal) -> int:
    """Make a training case from a forward model."""
    from deployer.training.groups import read_group
    from deployer.training.train_graph import DRAWN, build_train_graph
    from deployer.training.update_graph import Limits

    if a.data is not None and a.samples is not None:
        raise OptionProblem("--samples has no effect here", hint="--data gives the samples; leave one of them out")
    summary = build_train_graph(
        a.model,
        a.loss,
        a.optimizer,
        a.lr,
        a.trainable,
        a.output,
        samples=DRAWN if a.samples is None else a.samples,
        n_accum=a.accumulate_grad_batches,
        n_batches=a.n_steps,
        seed=a.seed,
        data=a.data,
        target_column=a.target_column,
        force=a.force,
        settings=given_settings(a),
        class_weights=a.class_weights,
        groups=[read_group(text) for text in a.param_group],
        limits=Limits(a.max_grad_value, a.max_grad_norm),
        lr_schedule=requests.lr_schedule_of(a),
        free_rates=a.any_rate,
        mean=a.accumulate == ACCUMULATIONS[1],
        flush=a.partial_accumulation == PARTIAL_ACCUMULATION[True],
        dropout=a.dropout == "on",
        statistics=a.running_stats,
        axes=requests.axes_of(a),
        expected=requests.expected_of(a),
        initial=a.init,
        warn=lambda warning: ending.tell(str(warning)),
    )
    console.lines(str(summary))
    console.event("end", {k: str(v) if isinstance(v, Path) else v for k, v in asdict(summary).items()})
    return 0


def fit_model(a: argparse.Namespace, console: Terminal) -> int:
    """Train a forward model over epochs."""
    from deployer.commands.fit import run_fit

    return run_fit(a, console)


def export_model(a: argparse.Namespace, console: Terminal) -> int:
    """Write a forward model with other weights."""
    from deployer.fitting.export import export_weights

    written = export_weights(a.model, a.weights, a.output, a.force)
    console.event("end", {"tensors": list(written), "output": str(a.output)})
    console.lines(f"{a.output}: {len(written)} tensor{'s' if len(written) > 1 else ''} from {a.weights}")
    return 0


def quantize_model(a: argparse.Namespace, console: Terminal) -> int:
    """Write a model with a frozen part of 8 bits."""
    from deployer.commands.quantization.run import run_quantize

    return run_quantize(a, console)


def sweep(a: argparse.Namespace, console: Terminal) -> int:
    """Run a command with varied options."""
    from deployer.commands.sweep.run import run_sweep

    return run_sweep(a, console)


def fleet(a: argparse.Namespace, console: Terminal) -> int:
    """Train on many simulated devices."""
    from deployer.commands.fleet.run import run_fleet_command

    return run_fleet_command(a, console)


def package(a: argparse.Namespace, console: Terminal) -> int:
    """Make a training case a library."""
    from deployer.commands.package import package_case

    return package_case(a, console)


def show_state(a: argparse.Namespace, console: Terminal) -> int:
    """Show, export or import the image of a library's state."""
    from deployer.commands.states.conversion import run_state

    return run_state(a, console)


def fits(a: argparse.Namespace, console: Terminal) -> int:
    """Say where a model's training fits."""
    from deployer.commands.hardware.fits import show_fits

    return show_fits(a, console)


def rack(a: argparse.Namespace, console: Terminal) -> int:
    """Train a rack of devices."""
    from deployer.commands.hardware.rack import run_rack

    return run_rack(a, console)


def hal_test(a: argparse.Namespace, console: Terminal) -> int:
    """Try a target's HAL."""
    from deployer.commands.hardware.hal_test import try_hal

    return try_hal(a, console)


def language_model(a: argparse.Namespace, console: Terminal) -> int:
    """Make, train, evaluate or run a language model."""
    from deployer.commands.lm.run import ACTIONS

    return ACTIONS[a.action](a, console)


def calibrate(a: argparse.Namespace, console: Terminal) -> int:
    """Measure a target and write its costs."""
    from deployer.calibration import calibrate as calibration

    with console.status("calibrate") as status:
        result = calibration.calibrate_target(a.platform, a.simulator or a.platform, pipeline.profiled, status.update)
    table = Table("kernel", "calls", "call", "mac", "element", "median", "worst", box=None, header_style="bold")
    for fit in result.fits:
        rates = (f"{fit.cost.mac_milli / 1000:.2f}", f"{fit.cost.element_milli / 1000:.2f}")
        shares = (f"{100 * fit.median:.0f} %", f"{100 * fit.worst:.0f} %")
        table.add_row(fit.symbol, str(fit.points), str(fit.cost.call), *rates, *shares)
    console.print(table)
    t = result.target
    hops = ", ".join(f"{level.name}: {hop}" for level, hop in zip(t.levels, t.hops, strict=False))
    console.print(
        f"dispatch {t.dispatch}, step {t.step}, tile {t.tile}, DMA issue {t.dma_issue}, contention {t.contention}, "
        f"{hops}",
        soft_wrap=True,
    )
    console.print(f"written: {targets.costs_file(a.platform)}", soft_wrap=True)
    rows = [
        {"kernel": fit.symbol, "calls": fit.points, "median": fit.median, "worst": fit.worst} for fit in result.fits
    ]
    console.event("end", {"kernels": rows, "output": str(targets.costs_file(a.platform))})
    return 0
