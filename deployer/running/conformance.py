"""Conformance check of a target's HAL against `hal.h`: a test program, and the faults that it reports."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deployer.codegen.generate import rendered
from deployer.core.errors import BuildFailed, OptionProblem, ToolMissing
from deployer.core.safe_text import CText, c_comment, identifier
from deployer.core.target import Target, Toolchain
from deployer.running.build import COMMON, compiler, flags_of, link_words, toolchain
from deployer.running.run import available, command_line

FOLDER = COMMON / "conformance"
AREA = 1024
"""Bytes of the input, of which byte i is 13 i + 29, exclusive or i / 32; the output is the same."""
ROOM = 65536
"""Bytes that the program may use of each memory."""
SECONDS = 300
ENDED = "conformance ended"
_CHECK = re.compile(r"^check ([\w -]+)$", re.M)
_FAULT = re.compile(r"^fault ([\w -]+): (.+)$", re.M)


@dataclass(frozen=True)
class HalFault:
    """Fault of a HAL: its description, and the check that found it."""

    check: str
    text: str


@dataclass(frozen=True)
class Conformance:
    """The checks that were begun, and all faults."""

    checks: tuple[str, ...]
    faults: tuple[HalFault, ...]


@dataclass(frozen=True)
class _MemoryView:
    name: CText
    bytes: int


@dataclass(frozen=True)
class _TargetView:
    title: CText
    cores: int
    alignment: int
    memories: tuple[_MemoryView, ...]


def pattern() -> bytes:
    """The input file, and what the output has to be."""
    return bytes((i * 13 + 29 ^ i >> 5) & 0xFF for i in range(AREA))


def check_hal(target: Target, folder: Path, sources: Sequence[Path] = ()) -> Conformance:
    """Build and run the conformance program of a target in a folder.

    `sources` are the folders of its HAL, by default those of its toolchain. OptionProblem for the simulator, which has
    no memories but a plan's; ToolMissing without compiler or machine; BuildFailed where the HAL is not complete.
    """
    tools = toolchain(target)
    if "--guards" in tools.run_flags:
        cause = f"the HAL of target {target.name!r} is the simulator, which compares each transfer with a plan's"
        raise OptionProblem(cause, hint="a target whose programs run on a machine, or its emulator")
    _build(target, tools, folder, sources or tuple(FOLDER.parents[1] / name for name in tools.sources))
    (folder / "input.bin").write_bytes(pattern())
    status, printed = _run(target, tools, folder)
    return _judged(status, printed, folder)


def _build(target: Target, tools: Toolchain, folder: Path, own: Sequence[Path]) -> None:
    used = target.levels
    memories = tuple(_MemoryView(identifier(level.name.lower()), level.bytes) for level in used)
    view = _TargetView(c_comment(target.name), target.cores, target.alignment, memories)
    (folder / "memories.c").write_text(rendered("conformance.c", view))
    command = compiler(tools)
    found = [path for place in own for path in sorted(place.iterdir()) if path.suffix in (".c", ".S")]
    files = [folder / "memories.c", FOLDER / "conformance.c", *sorted((COMMON / "runtime").glob("*.c")), *found]
    includes = [f"-I{place}" for place in (*own, COMMON / "include", FOLDER)]
    words = [*command, *flags_of(tools), *includes, *map(str, files)]
    words += link_words(tools, command[0], target, {level.name: ROOM for level in used})
    run = subprocess.run([*words, "-o", str(folder / "network")], capture_output=True, text=True, check=False)
    if run.returncode:
        facts = [("compiler", run.stderr.strip()[-3000:])]
        raise BuildFailed(f"the conformance program of target {target.name!r} is not built", facts)


def _run(target: Target, tools: Toolchain, folder: Path) -> tuple[int | None, str]:
    """The exit status, None where the program did not end, and what it printed."""
    if not available(tools):
        raise ToolMissing(f"{tools.run[0]} is not installed", hint=tools.run_hint)
    words = command_line(target.name, tools, folder, ())
    try:
        run = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder, timeout=SECONDS)
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode(errors="replace") if isinstance(late.stdout, bytes) else ""
    return run.returncode, run.stdout + "".join(f"\n{line}" for line in run.stderr.splitlines())


def _judged(status: int | None, printed: str, folder: Path) -> Conformance:
    checks = tuple(_CHECK.findall(printed))
    faults = [HalFault(check, text) for check, text in dict.fromkeys(_FAULT.findall(printed))]
    last = checks[-1] if checks else "begin"
    if ENDED not in printed:
        ended = "did not end" if status is None else f"ended with status {status}"
        said = [line for line in printed.splitlines() if line and not line.startswith(("check ", "fault "))]
        text = f"the program {ended} in this check: {' / '.join(said[-2:]) or 'it said nothing'}"
        return Conformance(checks, (*faults, HalFault(last, text)))
    if status:
        faults.append(HalFault("exit", f"hal_exit(0) ended with status {status}"))
    path = folder / "output.bin"
    written = path.read_bytes() if path.is_file() else b""
    wrong = sum(a != b for a, b in zip(written, pattern(), strict=False)) + abs(len(written) - AREA)
    if wrong:
        faults.append(HalFault("files", f"hal_write wrote {len(written)} B of {AREA}, {wrong} of them other ones"))
    return Conformance(checks, tuple(faults))
