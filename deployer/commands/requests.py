"""Checks of the command line before anything runs: options without effect, sizes beyond limits, output places."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from deployer.commands.run_options import EVERY_REWRITE
from deployer.core import target as targets
from deployer.core.errors import FileProblem, OptionProblem
from deployer.core.files.reading import real_path
from deployer.core.ir import Program
from deployer.core.level import ALIASES
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.core.target import Target
from deployer.firmware.common import LibraryForm
from deployer.firmware.replay import BALANCED, ReplayOptions
from deployer.frontend.parse import optimizer_dir
from deployer.frontend.prepare import Axes
from deployer.frontend.runtime import case as runtime_case
from deployer.fusions import update
from deployer.lr_schedules.lr_schedule import CONSTANT, LrSchedule, check_rate, read_schedule
from deployer.pipeline import Case
from deployer.planning import fuse
from deployer.running import output
from deployer.running.run import check_flags as check_run_flags

if TYPE_CHECKING:
    from deployer.training.tensors.selection import Expected

ARRAYS = (".npz", ".safetensors")
"""Suffixes of files of arrays."""
ALWAYS_FINE = 1e-5
"""The default tolerance, which cases of smaller values are held to as well."""
CASE_FILES = ("network.onnx", "inputs.npz", "outputs.npz")
UPDATING = ("n_steps", "accumulate_grad_batches", "partial_accumulation", "lr_scheduler", "warmup_steps")
"""Arguments that describe a run of several updates."""
UNREAD = {
    "inference": (*UPDATING, "data_inputs", "lr", "check_passes", "strict", "any_rate"),
    "optimizer": (*UPDATING, "data_inputs", "check_passes", "strict"),
}
"""Arguments that describe training, and so nothing of another kind of case."""
ARCHIVE = b"PK"
"""The first bytes of an npz archive."""


def replay_of(a: argparse.Namespace) -> ReplayOptions | None:
    """The latent replay that the options ask for, if any; OptionProblem for options of one where there is none."""
    if a.latent_replay:
        return ReplayOptions(a.latent_replay, a.replay_policy or BALANCED, a.replay_seed or 0)
    for option, given in (("--replay-policy", a.replay_policy), ("--replay-seed", a.replay_seed is not None)):
        if given:
            raise OptionProblem(f"{option} has no effect here", hint="add --latent-replay SLOTS")
    return None


def form_of(a: argparse.Namespace) -> LibraryForm:
    """Demands on the caller by the command line."""
    return LibraryForm(a.inputs, a.predict_after_update)


def check_flags(a: argparse.Namespace, kind: str, simulated: Sequence[str]) -> None:
    """OptionProblem for flags that the command, the kind of case or the target would not heed.

    `kind` is a key of `UNREAD` or `training`; `simulated` are the simulator's flags.
    """
    for name in UNREAD.get(kind, ()):
        if name in a.given:
            flag = f"--{name.replace('_', '-')}"
            raise OptionProblem(f"{flag} has no effect on an {kind} case", hint=f"leave {flag} out")
    if a.seed is not None and "random" not in (a.dma_order, a.core_order):
        raise OptionProblem("--seed has no effect here", hint="add --dma-order random or --core-order random")
    if "any_rate" in a.given and not {"lr", "lr_scheduler", "warmup_steps"} & a.given:
        raise OptionProblem("--any-rate has no effect here", hint="leave it out: no rate is given")
    if "jobs" in a.given and (a.skipgen or vars(a).get("from_file")):
        raise OptionProblem("--jobs has no effect here", hint="leave it out: nothing is tiled")
    unheeded = [word for word in simulated if word.startswith("--")] + ["--dump"] * bool(a.dump)
    unheeded += ["--strict"] * a.strict
    if a.command == "compile":
        unheeded += [f"--{name}" for name in ("sanitize", "skipgen", "skipsim") if getattr(a, name)]
    if unheeded and (a.command == "compile" or a.skipsim):
        mode = "compile" if a.command == "compile" else "--skipsim"
        raise OptionProblem(f"{unheeded[0]} has no effect here", hint=f"leave it out: with {mode} nothing runs")
    tools = targets.load(a.platform).toolchain
    if tools is not None:
        check_run_flags(a.platform, tools, simulated)


def lr_schedule_of(a: argparse.Namespace) -> LrSchedule | None:
    """The rates of updates as the command line has them; None where it leaves them as they are.

    OptionProblem for a rate beyond the guard.
    """
    rate = vars(a).get("lr")
    if rate is not None:
        check_rate(rate, "--lr", a.any_rate, zero=True)
    if a.lr_scheduler or a.warmup_steps:
        return read_schedule(a.lr_scheduler or CONSTANT, a.warmup_steps, a.any_rate)
    return None


def expected_of(a: argparse.Namespace) -> "Expected":
    """The parameters of --parameters: names, or arrays by name; none without it."""
    from deployer.fitting.export import read_weights
    from deployer.training.tensors.exported import read_names

    if not a.parameters:
        return ()
    return read_weights(a.parameters) if a.parameters.suffix.lower() in ARRAYS else read_names(a.parameters)


def axes_of(a: argparse.Namespace) -> Axes:
    """The lengths of axes on the command line; OptionProblem where one has two."""
    lengths: dict[str, int] = {}
    for name, length in a.axis:
        if lengths.setdefault(name, length) != length:
            cause = f"axis {name!r} has the lengths {lengths[name]} and {length}"
            raise OptionProblem(cause, hint="leave one of them out")
    return Axes(a.batch_size, lengths)


def budgets_of(a: argparse.Namespace, target: Target) -> dict[str, int]:
    """Bytes by level as `--budget` and its aliases limit them; OptionProblem where a level is unknown or has two."""
    for alias in ALIASES[len(target.levels) :]:
        if getattr(a, alias) is not None:
            levels = ", ".join(level.name for level in target.levels)
            hint = f"{target.budget_flag(target.levels[-1])} in its place"
            raise OptionProblem(f"--{alias} limits no level of target {target.name!r}", [("levels", levels)], hint)
    aliases = [(level.name, getattr(a, alias)) for level, alias in zip(target.levels, ALIASES, strict=False)]
    return level_budgets([*((name, size) for name, size in aliases if size is not None), *a.budget], target)


def level_budgets(given: Iterable[tuple[str, int]], target: Target) -> dict[str, int]:
    """Bytes by level as pairs of both limit them; OptionProblem where a level is unknown or has two budgets."""
    budgets: dict[str, int] = {}
    for name, size in given:
        target.level(name)
        if budgets.setdefault(name, size) != size:
            raise OptionProblem(
                f"level {name} has the budgets {budgets[name]} B and {size} B", hint="leave one of them out"
            )
    return budgets


def outermost_of(a: argparse.Namespace, target: Target) -> str:
    """The outermost level in which tensors may lie; OptionProblem where the target has no such level."""
    level: str = target.usual.name if a.defaultMemLevel is None else a.defaultMemLevel
    return target.within(level)[-1].name


def check_case(a: argparse.Namespace, case: Case, options: Options) -> None:
    """Raise OptionProblem where the tolerance, an opt-out or the path of the dump makes no sense for this case."""
    losses = case.dataset.expected_losses if case.dataset else ()
    check_tolerance(a.tolerance, [np.array(losses), *case.expected.values()])
    if options.canonical_batch and case.dataset is None:
        hint = "leave it out, or give a training case to `deployer train`"
        raise OptionProblem("--canonical-batch has no effect without gradients", hint=hint)
    check_opt_out(options, case.program)
    if a.dump:
        check_dump(a.dump, case.directory, a.force)


def check_tolerance(tolerance: float, expected: Iterable[Array]) -> None:
    """OptionProblem where a program that computes nothing but zeros would pass."""
    largest = max((float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in expected), default=0.0)
    bound = max(largest, ALWAYS_FINE)
    if tolerance >= bound > ALWAYS_FINE or tolerance > bound:
        raise OptionProblem(
            f"--tolerance {tolerance:g} cannot fail",
            [("largest value", f"{largest:.6g} of all expected losses and tensors: a program of zeros would pass")],
            f"--tolerance below {bound:.6g}",
        )


def check_opt_out(options: Options, program: Program) -> None:
    """Raise OptionProblem for a name of --opt-out that is no step and no operator of the fused program."""
    if not options.opt_out:
        return
    nodes = fuse.fuse_program(program, options).nodes
    names = {name for node in nodes for name in (node.op, node.name)}
    for name in options.opt_out:
        if name not in names:
            operators = ", ".join(sorted({node.op for node in nodes}))
            hint = "one of these, the name of a node, or --no-fusion where it became part of another"
            raise OptionProblem(
                f"--opt-out {name!r} names no step and no operator of the program", [("operators", operators)], hint
            )


def rewrites_of(a: argparse.Namespace) -> tuple[bool, tuple[str, ...]]:
    """Whether there are rewrites, and the names of those that are left out; OptionProblem for a name that none has."""
    everything, names = EVERY_REWRITE in a.no_fusion, {*a.no_fusion} - {EVERY_REWRITE}
    fuse.check_names(sorted(names))
    if a.fuse_update and (everything or fuse.name_of(update) in names):
        raise OptionProblem("--fused and --no-fusion exclude each other", hint="leave one of them out")
    return not everything, () if everything else tuple(sorted(names))


def check_dump(dump: Path, case: Path, force: bool) -> None:
    """See that the dump can be written, and over nothing else than an archive that is no part of the case."""
    if dump.is_dir():
        raise OptionProblem(f"--dump {dump} is a folder", hint=f"--dump {dump / 'out.npz'}")
    if dump.exists() and not dump.is_file():
        raise OptionProblem(f"--dump {dump} is not a regular file", hint="the name of a file")
    place = real_path(dump)
    if runtime_case.is_runtime_case(case):
        own = place.parent == real_path(case) and runtime_case.is_read(place.name)
    else:
        own = place.parent in (real_path(case), optimizer_dir(case)) and place.name in CASE_FILES
    if own:
        raise OptionProblem(f"--dump {dump} is part of the case", hint="another name")
    if dump.is_file() and not force:
        with dump.open("rb") as file:
            if file.read(len(ARCHIVE)) != ARCHIVE:
                raise OptionProblem(f"--dump {dump} exists and is not an npz archive", hint="another name, or --force")
    try:
        output.check_writable(dump)
    except OSError as error:
        raise FileProblem(f"--dump {dump}: {error.strerror}", hint="correct the path or its permissions") from error
