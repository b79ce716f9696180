"""Build: the target's toolchain over generated files, kernels and HAL; objects that never change are kept."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deployer.errors import BuildFailed, InternalError, OptionProblem, PlacementInfeasible, ToolMissing
from deployer.plan import Plan
from deployer.stages.tile import target_of
from deployer.target import TARGETS_DIR, Target, Toolchain

COMMON = TARGETS_DIR / "common"


@dataclass(frozen=True)
class Job:
    """One object file to make."""

    source: Path
    object: Path


def run(plan: Plan, directory: Path, sanitize: bool = False, profile: int = 0) -> Path:
    """Compile what `generate` wrote into `directory`; the program's path.

    `profile` 1 makes the program record when steps begin, 2 each wait and kernel too, where the target's HAL can.

    Kernels, runtime and HAL are compiled once per content, flags and compiler into the user's cache folder.
    Raises ToolMissing without a compiler, BuildFailed with the compiler's own words.
    """
    tools = toolchain(target_of(plan.options))
    words = [*compiler(tools), *tools.flags, *(tools.sanitize if sanitize else ())]
    words += [f"-DHAL_PROFILE={profile}"] if profile else []
    folders = [directory, COMMON / "include", *(TARGETS_DIR / s for s in tools.sources)]
    words += [f"-I{folder}" for folder in folders]
    generated = [Job(p, p.with_suffix(".o")) for p in sorted(directory.glob("*.c"))]
    headers = sorted({h for folder in folders[1:] for h in folder.rglob("*.h")})
    lasting = [Job(p, _kept(p, words, directory, headers)) for p in lasting_sources(plan, tools)]
    jobs = [*generated, *(job for job in lasting if not job.object.is_file())]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda job: _compile(job, words), jobs):
            pass
    program = directory / program_name(profile)
    objects = [str(job.object) for job in (*generated, *lasting)]
    _link(plan, tools, [*words, *objects], program)
    return program


def _link(plan: Plan, tools: Toolchain, words: list[str], program: Path) -> None:
    """Link; where the program does not fit beside the plan, say by how much."""
    target, peak = target_of(plan.options), plan.levels[1].peak
    try:
        _call([*words, *link_words(tools, words[0], peak), "-o", str(program)], f"linking {program}")
    except BuildFailed as fault:
        layout = program.with_suffix(".map")
        alone = link_words(tools, words[0], 0)
        if peak == 0 or not any("{l2_bytes}" in word for word in tools.link):
            raise
        _call([*words, *alone, f"-Wl,-Map={layout}", "-o", str(program)], f"linking {program}")
        program.unlink()
        begin, end = (_symbol(layout.read_text(), name) for name in ("program_begin", "bss_end"))
        level, room = target.levels[1], target.levels[1].bytes - (end - begin)
        if peak <= room:
            raise
        facts = [("program", f"{end - begin} B"), ("plan", f"{peak} B"), (level.name, f"{level.bytes} B")]
        hint = (
            f"--{level.name.lower()} {room}, with --defaultMemLevel {target.levels[2].name} where the plan needs more"
        )
        cause = f"program and plan together do not fit {level.name} of target {target.name!r}"
        raise PlacementInfeasible(cause, facts, hint) from fault


def _symbol(layout: str, name: str) -> int:
    """A symbol's address in a linker's map."""
    found = re.search(rf"^ *0x([0-9a-f]+) +{name} = ", layout, re.MULTILINE)
    if found is None:
        raise InternalError(f"the linker's map has no symbol {name}")
    return int(found[1], 16)


def program_name(profile: int) -> str:
    """File name of a program."""
    return f"network-profile{profile}" if profile else "network"


def link_words(tools: Toolchain, command: str, l2_bytes: int) -> list[str]:
    """The linker's words with their placeholders filled in; `l2_bytes` of L2 are the plan's."""
    library = ""
    if tools.libgcc:
        query = [command, *tools.libgcc, "-print-libgcc-file-name"]
        library = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    return [word.format(targets=TARGETS_DIR, libgcc=library, l2_bytes=l2_bytes) for word in tools.link]


def toolchain(target: Target) -> Toolchain:
    """The target's toolchain; OptionProblem where it describes a machine that only others simulate."""
    if target.toolchain is None:
        raise OptionProblem(f"target {target.name!r} has no toolchain", hint="-p host simulates its memories and clock")
    return target.toolchain


def compiler(tools: Toolchain) -> list[str]:
    """The compiler's command words: the environment's choice or the target's; ToolMissing where neither exists."""
    words = shlex.split(os.environ.get(tools.compiler_env, "")) or list(tools.compiler)
    if shutil.which(words[0]) is None:
        raise ToolMissing(
            f"compiler {words[0]!r} is not installed",
            hint=f"install it, or set {tools.compiler_env} to another",
        )
    return words


def lasting_sources(plan: Plan, tools: Toolchain) -> list[Path]:
    """The plan's kernels (a target's own before the common one), runtime and HAL."""
    found = []
    overrides = [TARGETS_DIR / s / "kernels" for s in tools.sources]
    for symbol in sorted({s.kernel.symbol for s in plan.steps}):
        places = [folder / f"{symbol}.c" for folder in (*overrides, COMMON / "kernels")]
        existing = [p for p in places if p.is_file()]
        if not existing:
            raise BuildFailed(f"kernel {symbol} has no C file", [("looked for", ", ".join(map(str, places)))])
        found.append(existing[0])
    found += sorted((COMMON / "runtime").glob("*.c"))
    for source in tools.sources:
        found += sorted(p for p in (TARGETS_DIR / source).iterdir() if p.suffix in (".c", ".S"))
    return found


def _kept(source: Path, words: list[str], directory: Path, headers: list[Path]) -> Path:
    """Where the object of a file that no plan changes is kept: named by all it is made from."""
    text = hashlib.sha256(source.read_bytes())
    for header in headers:
        text.update(header.read_bytes())
    own = directory / f"{source.stem}.h"
    if own.is_file():
        text.update(own.read_bytes())
    flags = [w for w in words if not w.startswith("-I")]
    text.update("\0".join([*flags, _version(flags[0])]).encode())
    root = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "deployer" / "objects"
    root.mkdir(parents=True, exist_ok=True)
    return root / f"{source.stem}-{text.hexdigest()[:24]}.o"


@cache
def _version(command: str) -> str:
    return subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout


def _compile(job: Job, words: list[str]) -> None:
    """Compile one file; the object appears whole or not at all."""
    partial = job.object.with_suffix(f".{os.getpid()}.part.o")
    _call([*words, "-c", str(job.source), "-o", str(partial)], f"compiling {job.source}")
    partial.replace(job.object)


def _call(command: list[str], what: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, errors="backslashreplace", check=False)
    if result.returncode != 0:
        facts = [("command", shlex.join(command)), ("compiler", result.stderr.strip()[-3000:])]
        raise BuildFailed(f"{what} failed", facts)
