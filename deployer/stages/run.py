"""Run: start the built program, let it talk, and read what it dumped."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from deployer.errors import OptionProblem, RunFailed, ToolMissing
from deployer.ir import Program
from deployer.operator import Array
from deployer.plan import Plan
from deployer.stages.build import toolchain
from deployer.stages.tile import target_of
from deployer.target import Toolchain

TIMEOUT = 600.0


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run printed and dumped: losses per pass (training), final weights or outputs by name, BENCH figures.

    `accumulators` is the final content of those gradient accumulators that outlive a pass.
    """

    text: str
    losses: tuple[float, ...]
    arrays: dict[str, Array]
    bench: dict[str, str]
    errors: int
    accumulators: dict[str, Array] = field(default_factory=dict)


def run(
    plan: Plan, program: Program, directory: Path, passes: int, flags: Sequence[str] = (), name: str = "network"
) -> Outcome:
    """Run `directory/<name>` on `directory/input.bin`; `flags` are options of the simulator.

    Raises OptionProblem for flags the machine does not take, ToolMissing without its simulator, RunFailed with the
    program's last words where it hangs, traps, or the simulator finds a fault.
    """
    sink = directory / "output.bin"
    sink.unlink(missing_ok=True)
    target = target_of(plan.options)
    command = command_line(target.name, toolchain(target), directory, flags, name)
    status, said, errors = _supervised(command, directory, plan)
    if status not in (0, 1) or "BENCH" not in said:
        raise RunFailed(f"{directory / 'network'} ended with status {status}", _last_words(plan, said, errors))
    return _outcome(plan, program, sink.read_bytes(), passes, own_lines(said))


def own_lines(said: str) -> str:
    """What the program itself printed, without the simulator's remarks."""
    return "\n".join(x for x in said.splitlines() if x.startswith(("[loss", "BENCH", "Errors", "hal:")))


def _last_words(plan: Plan, said: str, errors: str) -> list[tuple[str, str]]:
    """The name of the step the program was in, and its last lines."""
    facts = []
    steps = re.findall(r"^hal: step (\d+)", f"{said}\n{errors}", re.MULTILINE)
    if steps and int(steps[-1]) < len(plan.steps):
        step = plan.steps[int(steps[-1])]
        facts.append(("step", f"{step.index} {step.name!r} ({step.op})"))
    words = [x for x in (*said.splitlines()[-12:], *errors.splitlines()[-12:]) if x.strip()]
    return [*facts, ("said", "\n".join(words) or "nothing")]


def command_line(
    target: str, tools: Toolchain, directory: Path, flags: Sequence[str], name: str = "network"
) -> list[str]:
    """The command that starts a built program."""
    text = " ".join(tools.run)
    if flags and "{flags}" not in text and "{semihosting}" not in text:
        raise OptionProblem(
            f"target {target!r} takes no {' '.join(flags)}",
            hint="these are options of simulated transfers; leave them out",
        )
    folder = directory.resolve()
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
    return [_found(tools, tools.run[0].format(**places)), *words]


def available(tools: Toolchain) -> bool:
    """Whether the target's simulator is installed, or none is needed."""
    return tools.run[0].startswith("{") or _search(tools, tools.run[0]) is not None


def _search(tools: Toolchain, word: str) -> str | None:
    installed = os.environ.get(tools.run_env, "") if tools.run_env else ""
    return shutil.which(word, path=f"{installed}/bin") if installed else shutil.which(word)


def _found(tools: Toolchain, word: str) -> str:
    if word.startswith("/"):
        return word
    found = _search(tools, word)
    if found is None:
        raise ToolMissing(f"{word} is not installed", hint=f"{tools.run_hint}, or --skipsim to build only")
    return found


def _supervised(command: list[str], directory: Path, plan: Plan) -> tuple[int, str, str]:
    """Exit status and what was said; a program that hangs ends with all it started, and with its last words."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=directory,
        start_new_session=True,
    )
    try:
        said, errors = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired as expired:
        os.killpg(process.pid, signal.SIGKILL)
        said, errors = process.communicate()
        facts = _last_words(plan, said, errors)
        raise RunFailed(f"{directory / 'network'} did not end within {TIMEOUT:.0f} s", facts) from expired
    return process.returncode, said, errors


def _outcome(plan: Plan, program: Program, dump: bytes, passes: int, text: str) -> Outcome:
    """Cut the dump: losses first in training, then each result in the plan's order, then the accumulators."""
    training = "train" in plan.graphs
    losses = np.frombuffer(dump[: 4 * passes], np.float32) if training else np.empty(0, np.float32)
    at = 4 * len(losses)
    arrays: dict[str, Array] = {}
    results = plan.weights if training else plan.outputs
    kept = tuple(home.storage for home in plan.kept)
    for name in (*results, *kept):
        kind = program.tensors[name].type
        arrays[name] = np.frombuffer(dump[at : at + kind.bytes], kind.dtype).reshape(kind.shape)
        at += kind.bytes
    if at != len(dump):
        raise RunFailed(f"the program dumped {len(dump)} B, {at} B were expected")
    line = next(x for x in text.splitlines() if x.startswith("BENCH"))
    errors = re.search(r"^Errors: (\d+) out of", text, re.MULTILINE)
    return Outcome(
        text,
        tuple(float(v) for v in losses),
        {name: arrays[name] for name in results},
        dict(re.findall(r"(\w+)=(\S+)", line)),
        int(errors[1]) if errors else 0,
        {name: arrays[name] for name in kept},
    )
