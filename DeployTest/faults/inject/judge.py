"""Detector of each fault: the simulator by name, the verdict over losses and weights, a crash, or nobody."""

import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deployer import judging
from deployer.core.errors import RunFailed
from deployer.running import report
from deployer.running.run import _outcome

from .fault import Fault
from .program import Program

NAMED, VERDICT, CRASHED, NOTHING, UNSEEN = "named", "verdict", "crashed", "changes nothing", "UNSEEN"
RESULTS = (NAMED, VERDICT, CRASHED, NOTHING, UNSEEN)
LIMIT = 20.0
"""Seconds after which a program hangs: a right one takes a fortieth of that on a busy machine."""


@dataclass(frozen=True)
class Mode:
    """Guards and the order of simulated transfers."""

    guards: str
    order: str

    @property
    def label(self) -> str:
        """A column's head."""
        return f"{self.guards} {self.order}"

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of the simulator."""
        guards = ("--guards", self.guards) if self.guards else ()
        return (*guards, "--dma-order", self.order, "--seed", "7")


MODES = (
    Mode("fast", "early"),
    Mode("fast", "late"),
    Mode("fast", "random"),
    Mode("off", "early"),
    Mode("full", "early"),
)


@dataclass(frozen=True)
class Judgement:
    """The outcome of a fault in a mode, and the program's output that shows it."""

    result: str
    said: str

    @property
    def steps(self) -> set[int]:
        """The steps that the simulator named: where it was, and which was due or came instead."""
        return {int(number) for number in re.findall(r"\b(?:step |hal_step\()(\d+) '", self.said)}


def right_output(program: Program, mode: Mode) -> bytes:
    """All bits that the right program dumps."""
    return _right_run(program, mode)[1]


@cache
def _right_run(program: Program, mode: Mode) -> tuple[int, bytes]:
    """The exit status of the right program, 1 where a loss is beyond the tolerance by a turned unit, and its bits."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output.bin"
        done = program.run("", mode.flags, output)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{program.name} without a fault ended with {done.returncode}: {done.stderr}")
        return done.returncode, output.read_bytes()


def judge(program: Program, fault: Fault | None, mode: Mode) -> Judgement:
    """Run the program with the fault, or as it is, and say who noticed."""
    code, right = _right_run(program, mode)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output.bin"
        try:
            done = program.run(fault.text if fault else "", mode.flags, output, limit=LIMIT)
        except subprocess.TimeoutExpired:
            return Judgement(CRASHED, f"did not end within {LIMIT:.0f} s")
        last = (done.stderr.strip().splitlines() or [""])[-1]
        if "inject: " in done.stderr:
            raise RuntimeError(f"{program.name}, fault {fault}: {last}")
        if done.returncode in (2, 3) and last.startswith("hal: "):
            return Judgement(NAMED, last)
        if done.returncode not in (0, 1):
            return Judgement(CRASHED, f"status {done.returncode} {last}")
        dump = output.read_bytes()
    if dump == right:
        same = done.returncode == code
        return Judgement(NOTHING, "") if same else Judgement(VERDICT, f"exit {done.returncode}")
    faults = verdict(program, dump, done.stdout)
    return Judgement(VERDICT, faults[0]) if faults else Judgement(UNSEEN, changes(right, dump))


def verdict(program: Program, dump: bytes, stdout: str) -> tuple[str, ...]:
    """Return the faults that `deployer train` finds in the results."""
    case = program.case
    try:
        outcome = _outcome(program.plan, case.program, dump, case.passes, stdout)
    except RunFailed as failure:
        return (str(failure),)
    tolerance = program.plan.running.tolerance
    judge = judging.judge_of(case, program.plan, outcome, tolerance)
    return report.make_report(program.plan, outcome, program.expected, tolerance, judge=judge).faults


def changes(right: bytes, dump: bytes) -> str:
    """Count the differing words, for the list of unseen faults."""
    words = sum(right[i : i + 4] != dump[i : i + 4] for i in range(0, min(len(right), len(dump)), 4))
    return f"{words} of {len(right) // 4} words differ"


def judge_all(
    program: Program, faults: Iterable[Fault], modes: tuple[Mode, ...], jobs: int
) -> Iterator[tuple[Fault, Mode, Judgement]]:
    """Every fault in every mode; the right program as well, which must pass with the same bits in all of them."""
    outputs = {right_output(program, mode) for mode in modes}
    if len(outputs) != 1:
        raise RuntimeError(f"{program.name} without a fault has other bits in another mode")
    for mode in modes:
        baseline = judge(program, None, mode)
        if baseline.result != NOTHING or verdict(program, right_output(program, mode), "BENCH"):
            raise RuntimeError(f"{program.name} without a fault in mode {mode.label}: {baseline}")
    tasks = [(fault, mode) for fault in faults for mode in modes]
    with ThreadPoolExecutor(jobs) as pool:
        for (fault, mode), judgement in zip(tasks, pool.map(lambda t: judge(program, *t), tasks), strict=True):
            yield fault, mode, judgement
