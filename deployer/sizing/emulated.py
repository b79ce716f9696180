"""Example of a library on a core's emulator: its output, and instructions of a pass, an update and a prediction.

Instructions are counted by the emulator's virtual time, where each takes a nanosecond; they are no cycles. The clock of
the machine has ticks of some tens of nanoseconds, so counts are exact to that.
"""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployer.core.errors import MachineTooSlow, MachineTooSmall, RunFailed, ToolFailed, ToolMissing
from deployer.firmware.sources import library_rules
from deployer.sizing.boards import CORES, Core, Emulator, emulators
from deployer.sizing.cache import compiler_digest, key_of, remembered
from deployer.sizing.objects import Files, Objects, run_tool, version_of

CALLS = ("_train_step", "_update", "_predict")
SECONDS = 300
TRAPPED = 70
"""The exit status of a program that ran into a fault of the processor (targets/cores/start.c)."""
_OVERFLOW = re.compile(r"region `\w+' overflowed by \d+ bytes")
"""The linker's message for a program that is larger than a memory of the machine."""
_MEASURED = re.compile(r"^measured (\w+) (\d+) ticks (\d+) stack\n", re.M)


@dataclass(frozen=True)
class EmulatedRun:
    """Run of the example: its output, instructions of the first call of each kind, and its stack in bytes.

    `instructions` are of a training pass, an update, a prediction; 0 where the library has none. `stack` is what these
    calls had written at most, the program's own frames besides.
    """

    printed: str
    instructions: tuple[int, int, int]
    stack: int


def can_run(core: Core) -> bool:
    """Whether the core has an emulator, and that is installed."""
    return bool(core.emulator) and shutil.which(emulators()[core.emulator].run[0]) is not None


def need_emulator(core: Core) -> Emulator:
    """The emulator of the core; ToolMissing where it is not installed, or the core has none."""
    if not core.emulator:
        raise ToolMissing(f"core {core.name} has no emulator")
    emulator = emulators()[core.emulator]
    if not can_run(core):
        raise ToolMissing(f"core {core.name} needs {emulator.run[0]}", hint=emulator.run_hint)
    return emulator


def run_example(files: Files, name: str, built: Objects, once: bool = False) -> EmulatedRun:
    """Run the example of a compiled library; `once` makes no call of a kind twice, so that its output has no meaning.

    ToolMissing without emulator, MachineTooSmall where the machine has no room, MachineTooSlow where it does not end
    in time, RunFailed where the program fails.
    """
    core = built.core
    emulator = version_of(need_emulator(core).run[0])
    content = [f"{path}\n{text!r}" for path, text in sorted(files.items())]

    def make() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            return _run(files, name, built, Path(folder), once)

    known = remembered(key_of([compiler_digest(), built.version, emulator, repr(core), repr(once), *content]), make)
    first, second, third = known["instructions"]
    return EmulatedRun(known["printed"], (first, second, third), known["stack"])


def link_words(core: Core) -> list[str]:
    """The flags that lay a program into the memories of the core's machine; ToolMissing as `need_emulator` has it."""
    names = ("code_origin", "code_bytes", "data_origin", "data_bytes")
    places = dict(zip(names, (*core.code, *core.data), strict=True))
    return [word.format(cores=CORES, **places) for word in need_emulator(core).link]


def compile_words(core: Core) -> list[str]:
    """The compiler with the flags of programs, warnings aside."""
    rules = library_rules()
    return [core.compiler, f"-std=c{rules.standard}", rules.optimize, "-ffunction-sections", *rules.flags, *core.flags]


def run_program(core: Core, program: Path) -> str:
    """Run a program on the core's machine and return its output.

    Raise RunFailed if it does not end well, MachineTooSlow if it does not end in time.
    """
    words = [word.format(machine=core.machine, program=program) for word in need_emulator(core).run]
    try:
        run = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise MachineTooSlow(f"the program did not end on {core.machine}", [("waited", f"{SECONDS} s")]) from error
    if run.returncode > 0 and run.returncode != TRAPPED and not run.stdout.strip():
        cause = f"{words[0]} ended with {run.returncode} and did not run the program"
        hint = f"one that has the machine {core.machine}: {need_emulator(core).run_hint}"
        raise ToolFailed(cause, [("said", run.stderr[-2000:])], hint)
    if run.returncode:
        raise RunFailed(f"the program ended with {run.returncode}", [("said", (run.stdout + run.stderr)[-2000:])])
    return run.stdout


def _run(files: Files, name: str, built: Objects, folder: Path, once: bool) -> dict[str, Any]:
    for path, text in files.items():
        if path.startswith(("examples/", "include/")):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(str(text))
    wrapped = [f"-Wl,--wrap={name}{call}" for call in CALLS]
    own = ["-include", f"include/{name}.h", f"-DLIBRARY={name}", f"-DONCE={once:d}", "-Iinclude", f"-I{CORES}"]
    sources = ["examples/main.c", *(str(CORES / file) for file in ("start.c", "measure.c"))]
    words = [*compile_words(built.core), *own, *sources, *map(str, built.paths), *wrapped, *link_words(built.core)]
    try:
        run_tool([*words, "-o", "program.elf"], folder)
    except ToolFailed as problem:
        if not _OVERFLOW.search(dict(problem.facts).get("said", "")):
            raise
        raise MachineTooSmall(f"the program does not fit {built.core.machine}", problem.facts) from problem
    printed = run_program(built.core, folder / "program.elf")
    rows = {call: (int(ticks), int(stack)) for call, ticks, stack in _MEASURED.findall(printed)}
    counts = [round(rows[call][0] * built.core.tick) if call in rows else 0 for call in CALLS]
    depth = max((stack for _, stack in rows.values()), default=0)
    return {"printed": _MEASURED.sub("", printed), "instructions": counts, "stack": depth}
