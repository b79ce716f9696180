"""Run: start the built program, let it talk, and read what it dumped."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deployer.errors import RunFailed
from deployer.ir import Program
from deployer.operator import Array
from deployer.plan import Plan
from deployer.stages.build import toolchain
from deployer.stages.tile import target_of

TIMEOUT = 600.0


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run printed and dumped: losses per pass (training), final weights or outputs by graph name, BENCH figures."""

    text: str
    losses: tuple[float, ...]
    arrays: dict[str, Array]
    bench: dict[str, str]
    errors: int


def run(plan: Plan, program: Program, directory: Path, passes: int, flags: Sequence[str] = ()) -> Outcome:
    """Run `directory/network` on `directory/input.bin`.

    Raises RunFailed with the program's last words where it hangs, traps, or the simulator finds a fault.
    """
    binary, source, sink = (directory / name for name in ("network", "input.bin", "output.bin"))
    sink.unlink(missing_ok=True)
    tools = toolchain(target_of(plan.options))
    words = [w.format(program=binary, input=source, output=sink, directory=directory) for w in tools.run]
    command = [*words, "--input", str(source), "--output", str(sink), *flags]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise RunFailed(f"{binary} did not end within {TIMEOUT:.0f} s") from error
    if result.returncode not in (0, 1) or "BENCH" not in result.stdout:
        words = (result.stderr or result.stdout).strip()[-3000:]
        raise RunFailed(f"{binary} ended with status {result.returncode}", [("said", words)])
    return _outcome(plan, program, sink.read_bytes(), passes, result.stdout)


def _outcome(plan: Plan, program: Program, dump: bytes, passes: int, text: str) -> Outcome:
    """Cut the dump: losses first in training, then each result in the plan's order."""
    training = bool(plan.weights)
    losses = np.frombuffer(dump[: 4 * passes], np.float32) if training else np.empty(0, np.float32)
    at = 4 * len(losses)
    arrays: dict[str, Array] = {}
    for name in plan.weights if training else plan.outputs:
        kind = program.tensors[name].type
        arrays[name] = np.frombuffer(dump[at : at + kind.bytes], kind.dtype).reshape(kind.shape)
        at += kind.bytes
    if at != len(dump):
        raise RunFailed(f"the program dumped {len(dump)} B, {at} B were expected")
    line = next(x for x in text.splitlines() if x.startswith("BENCH"))
    errors = re.search(r"^Errors: (\d+) out of", text, re.MULTILINE)
    return Outcome(
        text, tuple(float(v) for v in losses), arrays, dict(re.findall(r"(\w+)=(\S+)", line)), int(errors[1]) if errors else 0
    )
