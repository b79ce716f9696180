"""Run: start the built program, supervise it, and read its output file."""

import math
import mmap
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from deployer.core.errors import DeployerError, OptionProblem, RunFailed, ToolFailed, ToolMissing
from deployer.core.files.reading import real_path
from deployer.core.ir import DTYPES, Program
from deployer.core.operator import Array
from deployer.core.plan import Plan, target_of
from deployer.core.target import Toolchain
from deployer.running import output
from deployer.running.build import toolchain
from deployer.running.child import child_process, end
from deployer.verify.checked import moments, state_homes

TIME_LIMIT, LIMIT_VARIABLE = 600.0, "DEPLOYER_TIME_LIMIT"
"""Seconds that a program may run, and the environment variable that says otherwise; 0 is no limit."""
LOSS_BYTES = DTYPES["float32"]
UNFIT = 4
"""The exit status of a program on a machine whose arithmetic is not what kernels need."""
RESULTS = "output.bin"
"""The file that a program dumps: losses and final weights, or outputs."""
PROFILE = "profile.bin"
ACCUMULATED, FLUSH = "--accumulated", "--flush"
"""Options of a simulator whose run goes on in the middle of an update, or ends with one of fewer passes."""
OUTSIDE = {
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM),
    *(signal.SIGILL, signal.SIGXCPU, signal.SIGXFSZ),
}
"""Signals that come from a person, a limit or the machine, not from what the program does."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Output of a run: losses per pass (training), final weights or outputs by name, BENCH figures.

    A pass whose loss is infinite or NaN is the last one, so there may be fewer passes than the plan has. `accumulators`
    is the final content of those gradient accumulators that outlive a pass. `states` has, before each pass for which
    the plan asks for it, the weights and accumulators that the program changes.
    """

    text: str
    losses: tuple[float, ...]
    arrays: dict[str, Array]
    bench: dict[str, str]
    errors: int
    accumulators: dict[str, Array] = field(default_factory=dict)
    states: dict[int, dict[str, Array]] = field(default_factory=dict)

    @property
    def divergence(self) -> tuple[str, ...]:
        """The fault of a run that ended because its loss became infinite or NaN, with the pass; empty for others."""
        wild = [k for k, loss in enumerate(self.losses) if not math.isfinite(loss)]
        return tuple(f"the run diverged in pass {k} and ended there: its loss is {self.losses[k]}" for k in wild[:1])


def run_program(
    plan: Plan, program: Program, directory: Path, passes: int, flags: Sequence[str] = (), name: str = "network"
) -> Outcome:
    """Run `directory/<name>` on `directory/input.bin`; `flags` are options of the simulator.

    It runs in a scratch folder, from which `output.bin` and a profile are taken once it has ended well. Raises
    OptionProblem for flags the machine does not take, ToolMissing without its simulator, ToolFailed where the machine
    or somebody ended it, RunFailed with the program's last words where it hangs, traps, or the simulator finds a fault.
    """
    with output.scratch(directory) as folder:
        (folder / "input.bin").symlink_to(real_path(directory / "input.bin"))
        text = _ended_well(plan, directory / name, folder, flags, _Dump(plan, passes).size(program))
        files = {file: folder / file for file in (RESULTS, PROFILE) if (folder / file).is_file()}
        dump = files[RESULTS].read_bytes()
        output.take(directory, files)
    return _outcome(plan, program, dump, passes, text)


def run_segment(
    plan: Plan, directory: Path, content: bytes, accumulated: int, flush: int = 0, flags: Sequence[str] = ()
) -> tuple[bytes, dict[str, str]]:
    """Run the built program of a segment on this input: what it dumped, and its BENCH figures; errors as above.

    `flags` are options of the simulator.

    `accumulated` is how many passes were made since the last update, `flush` how many are in one that ends the segment,
    if it is smaller than others: a simulator that follows the plan has to know.
    """
    heeded = ACCUMULATED in toolchain(target_of(plan.options)).run_flags
    with output.scratch(directory) as folder:
        (folder / "input.bin").write_bytes(content)
        followed = (ACCUMULATED, str(accumulated), FLUSH, str(flush)) if heeded else ()
        text = _ended_well(plan, directory / "network", folder, (*followed, *flags), len(content))
        return (folder / RESULTS).read_bytes(), bench_figures(text)


def _ended_well(plan: Plan, program: Path, folder: Path, flags: Sequence[str], size: int) -> str:
    """Run a program in a folder that has its input, and see that it ended well and dumped something; its own lines.

    `size` is about what it dumps, in bytes.
    """
    target = target_of(plan.options)
    tools = toolchain(target)
    (folder / program.name).symlink_to(real_path(program))
    status, stdout, errors = supervised(command_line(target.name, tools, folder, flags, program.name), folder, plan)
    if status not in (0, 1) or "BENCH" not in own_lines(stdout):
        if status == -signal.SIGSEGV and not (stdout or errors) and _lacks_memory(plan):
            sizes = [(level.name, f"{level.peak} B") for level in plan.levels]
            raise ToolFailed(
                f"{program} was not started: the machine has no memory for it", sizes, "a smaller --batch-size"
            )
        full = shutil.disk_usage(folder).free < size
        words = _last_words(plan, stdout, errors)
        silent = None if full else not_run(tools, status, own_lines(stdout), words)
        raise silent or _broken(f"{program}", status, full, words, tools)
    if not (folder / RESULTS).is_file():
        raise RunFailed(f"{program} dumped nothing", _last_words(plan, stdout, errors))
    return own_lines(stdout)


def _lacks_memory(plan: Plan) -> bool:
    """Whether the machine refuses the bytes of a plan: it then ends a program that has them as it is loaded."""
    try:
        mmap.mmap(-1, sum(level.peak for level in plan.levels)).close()
    except OSError:
        return True
    return False


def not_run(tools: Toolchain, status: int, own: str, facts: Sequence[tuple[str, str]]) -> ToolFailed | None:
    """The error of a simulator that ended before the program said a word, as it does where it lacks the machine.

    A program that fails says so itself, also in a trap; `own` are its lines.
    """
    if tools.run[0].startswith("{") or status < 0 or own.strip():
        return None
    simulator = tools.run[0]
    cause = f"{simulator} ended with status {status} and did not run the program"
    hint = f"a {simulator} that has the machine of {' '.join(tools.run[1:3])}: {tools.run_hint}; --skipsim builds only"
    return ToolFailed(cause, facts, hint)


def bench_figures(text: str) -> dict[str, str]:
    """The figures of the BENCH line by name."""
    line = next(x for x in text.splitlines() if x.startswith("BENCH"))
    return dict(re.findall(r"(\w+)=(\S+)", line))


def _broken(place: str, status: int, full: bool, facts: list[tuple[str, str]], tools: Toolchain) -> DeployerError:
    """The error of a program that did not end well: of the machine, of its user, or of the compiler."""
    if full:
        return ToolFailed(f"{place} ended with status {status}: the disk is full", facts, "free some space")
    if status == UNFIT:
        cause = f"{place} does not compute on this machine as kernels need, so its results would be others"
        return ToolFailed(
            cause, facts, f"another compiler in {tools.compiler_env}, no flags of fast math, or another machine"
        )
    if -status in OUTSIDE:
        hint = "run it again with enough memory, time, disk space and the instructions it needs"
        return ToolFailed(f"{place} was ended by signal {-status} ({signal.strsignal(-status)})", facts, hint)
    ended = f"by signal {-status} ({signal.strsignal(-status)})" if status < 0 else f"with status {status}"
    return RunFailed(f"{place} ended {ended}", facts)


def own_lines(text: str) -> str:
    """The lines that the program itself printed, without those of the simulator."""
    return "\n".join(x for x in text.splitlines() if x.startswith(("[loss", "BENCH", "Errors", "hal:")))


def _last_words(plan: Plan, stdout: str, errors: str) -> list[tuple[str, str]]:
    """The name of the step the program was in, and its last lines."""
    facts = []
    steps = re.findall(r"^hal: step (\d+)", f"{stdout}\n{errors}", re.MULTILINE)
    if steps and int(steps[-1]) < len(plan.steps):
        step = plan.steps[int(steps[-1])]
        facts.append(("step", f"{step.index} {step.name!r} ({step.op})"))
    words = [x for x in (*stdout.splitlines()[-12:], *errors.splitlines()[-12:]) if x.strip()]
    return [*facts, ("said", "\n".join(words) or "nothing")]


def command_line(
    target: str, tools: Toolchain, directory: Path, flags: Sequence[str], name: str = "network"
) -> list[str]:
    """The command that starts a built program."""
    check_flags(target, tools, flags)
    folder = real_path(directory)
    places = {
        "program": folder / name,
        "input": folder / "input.bin",
        "output": folder / "output.bin",
        "directory": folder,
        "semihosting": "".join(f",arg={word}" for word in flags),
    }
    words: list[str] = []
    for word in tools.run[1:]:
        words += list(flags) if word == "{flags}" else [word.format(**places)]
    return [_executable(tools, tools.run[0].format(**places)), *words]


def check_flags(target: str, tools: Toolchain, flags: Sequence[str]) -> None:
    """Raise OptionProblem for words that begin with two dashes and are no options of the target's simulator."""
    refused = [word for word in flags if word.startswith("--") and word not in tools.run_flags]
    if refused:
        options = ", ".join(tools.run_flags)
        hint = f"leave {'it' if len(refused) == 1 else 'them'} out; it takes {options or 'none of the kind'}"
        raise OptionProblem(f"target {target!r} takes no {' '.join(refused)}", hint=hint)


def available(tools: Toolchain) -> bool:
    """Whether the target's simulator is installed, or none is needed."""
    return tools.run[0].startswith("{") or _search(tools, tools.run[0]) is not None


def _search(tools: Toolchain, word: str) -> str | None:
    installed = os.environ.get(tools.run_env, "") if tools.run_env else ""
    return shutil.which(word, path=f"{installed}/bin") if installed else shutil.which(word)


def _executable(tools: Toolchain, word: str) -> str:
    if word.startswith("/"):
        return word
    path = _search(tools, word)
    if path is None:
        raise ToolMissing(f"{word} is not installed", hint=f"{tools.run_hint}, or --skipsim to build only")
    return path


def time_limit() -> float | None:
    """Seconds that a program may run, None for ever; OptionProblem where the environment holds no such number."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    try:
        seconds = float(text) if text else TIME_LIMIT
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= threading.TIMEOUT_MAX:
        facts = [("between", f"0 and {threading.TIMEOUT_MAX:.0f}")]
        raise OptionProblem(f"{LIMIT_VARIABLE} is {text!r}, not a number of seconds", facts, "0 for no limit")
    return seconds or None


def supervised(command: list[str], directory: Path, plan: Plan) -> tuple[int, str, str]:
    """Run a command in a folder: exit status, stdout and stderr. It and its child processes end at the time limit."""
    limit = time_limit()
    with child_process(command, directory, subprocess.PIPE) as process:
        try:
            stdout, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired as expired:
            end(process)
            stdout, errors = process.communicate()
            raise _too_long(plan, own_lines(stdout), _last_words(plan, stdout, errors)) from expired
    return process.returncode, stdout, errors


def _too_long(plan: Plan, stdout: str, facts: list[tuple[str, str]]) -> DeployerError:
    """The error of a run beyond the time limit: RunFailed if no pass was completed, else ToolFailed."""
    cause = f"the program did not end within {time_limit() or 0:.0f} s"
    longer = f"{LIMIT_VARIABLE}=7200 in the environment for two hours, 0 for no limit"
    ended = stdout.count("[loss ")
    if ended == 0:
        return RunFailed(cause, facts, f"{longer}, if it is slow and does not hang")
    made = f"{cause}, in which it made {ended} of {plan.running.passes} passes"
    return ToolFailed(made, facts, f"fewer --n-steps, or {longer}")


class _Dump:
    """Layout of the dump after so many passes: states at some moments, losses, then results and accumulators.

    Losses and states there are in training alone.
    """

    def __init__(self, plan: Plan, made: int) -> None:
        training = "train" in plan.graphs
        self.moments = [moment for moment in moments(plan.running) if moment < made] if training else []
        self.state = [home.storage for home in state_homes(plan)] if training else []
        self.losses = made if training else 0
        self.results = plan.weights if training else plan.outputs
        self.accumulators = tuple(home.storage for home in plan.accumulators)

    def size(self, program: Program) -> int:
        """The bytes of all of it."""
        tensors = (*self.state * len(self.moments), *self.results, *self.accumulators)
        return LOSS_BYTES * self.losses + sum(program.tensors[name].type.bytes for name in tensors)


def _outcome(plan: Plan, program: Program, dump: bytes, passes: int, text: str) -> Outcome:
    """Cut the dump into its parts."""
    errors = re.search(r"^Errors: (\d+) out of (\d+)", text, re.MULTILINE)
    made = min(int(errors[2]), passes) if errors else passes
    layout = _Dump(plan, made)
    expected = layout.size(program)
    if expected != len(dump):
        raise RunFailed(f"the program dumped {len(dump)} B, {expected} B were expected")
    at = 0

    def taken(name: str) -> Array:
        nonlocal at
        kind = program.tensors[name].type
        at += kind.bytes
        return np.frombuffer(dump, kind.dtype, kind.size, at - kind.bytes).reshape(kind.shape)

    states = {moment: {name: taken(name) for name in layout.state} for moment in layout.moments}
    losses = np.frombuffer(dump, np.float32, layout.losses, at)
    if made < passes and np.isfinite(losses[-1:]).all():
        raise RunFailed(f"the program ended after {made} of {passes} passes, though its loss is finite")
    at += losses.nbytes
    arrays = {name: taken(name) for name in (*layout.results, *layout.accumulators)}
    return Outcome(
        text,
        tuple(float(v) for v in losses),
        {name: arrays[name] for name in layout.results},
        bench_figures(text),
        int(errors[1]) if errors else 0,
        {name: arrays[name] for name in layout.accumulators},
        states,
    )
