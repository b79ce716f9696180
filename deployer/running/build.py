"""Build: the target's toolchain over generated files, kernels and HAL; objects that never change are kept."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from deployer.codegen import generate
from deployer.core.errors import (
    BuildFailed,
    FileProblem,
    InternalError,
    OptionProblem,
    PlacementInfeasible,
    ToolFailed,
    ToolMissing,
)
from deployer.core.level import Level
from deployer.core.plan import Plan, target_of
from deployer.core.target import TARGETS_DIR, Target, Toolchain
from deployer.running import objects, output
from deployer.running.kernels import COMMON, kernel_source, source_folders
from deployer.running.objects import Recipe

T = TypeVar("T")
U = TypeVar("U")
SPENT = ("No space left on device", "Disk quota exceeded", "File size limit exceeded", "Cannot allocate memory")
"""What a tool says where the machine, not its input, ends it; so in the C locale."""
BROKEN = ("internal compiler error", "signal terminated program", "terminated with signal")
"""What gcc says where a program that it started was killed, or has a fault."""


@dataclass(frozen=True)
class Words:
    """A compiler's command: its own words, which `chosen`, a variable of the environment, may have named; and flags."""

    command: tuple[str, ...]
    chosen: str
    flags: tuple[str, ...]
    includes: tuple[str, ...]

    def all(self, *more: str) -> list[str]:
        """The whole command."""
        return [*self.command, *self.flags, *self.includes, *more]


def build_program(
    plan: Plan, directory: Path, sanitize: bool = False, profile: int = 0, sources: Sequence[str] | None = None
) -> Path:
    """Compile what `generate` wrote into `directory`, or the C files named there by `sources`; the program's path.

    `profile` 1 makes the program record when steps begin, 2 each wait and kernel too, where the target's HAL can.

    Kernels, runtime and HAL are compiled once per content, flags and compiler into the user's cache folder. Objects and
    program grow elsewhere, and appear once all is well. Raises ToolMissing without a compiler, ToolFailed where it
    breaks down or cannot compile what never changes, BuildFailed with its own words where it refuses generated C.
    """
    target = target_of(plan.options)
    tools = toolchain(target)
    folders = (COMMON / "include", *source_folders(tools))
    _check_headers(directory, folders)
    flags = [
        *flags_of(tools),
        *(tools.sanitize if sanitize else ()),
        *([f"-DHAL_PROFILE={profile}"] if profile else []),
    ]
    includes = [*(f"-I{folder}" for folder in folders), "-idirafter", str(directory)]
    chosen = tools.compiler_env if os.environ.get(tools.compiler_env) else ""
    words = Words(tuple(compiler(tools)), chosen, tuple(flags), tuple(includes))
    generated = [_present(directory / name) for name in (generate.sources(plan) if sources is None else sources)]
    with output.scratch(directory) as place:
        lasting = _lasting(plan, tools, Recipe(words.command, words.flags, folders, directory), words, place)
        made = [place / f"{source.stem}.o" for source in generated]
        _parallel(lambda pair: _compile(pair[0], pair[1], words), list(zip(generated, made, strict=True)))
        program = place / program_name(profile)
        _link(plan, tools, words.all(*map(str, (*made, *lasting))), program)
        output.take(directory, {file.name: file for file in (*made, program)})
    return directory / program.name


def _check_headers(directory: Path, folders: Sequence[Path]) -> None:
    """OptionProblem where a file beside the generated C would be included in the place of one of ours."""
    names = {header.name for folder in folders for header in folder.rglob("*.h")}
    found = sorted(path.name for path in directory.glob("*.h") if path.name in names)
    if found:
        cause = f"{directory} holds {', '.join(found)}, which generated C would include instead of the deployer's own"
        raise OptionProblem(cause, hint="move it away, or another -o")


def _present(source: Path) -> Path:
    if not source.is_file():
        raise FileProblem(f"{source} does not exist", hint="run once without --skipgen")
    return source


def _lasting(plan: Plan, tools: Toolchain, recipe: Recipe, words: Words, place: Path) -> list[Path]:
    """Objects of the plan's kernels, of runtime and HAL; those that are missing or damaged are made."""
    cache = objects.folder()

    def object_of(numbered: tuple[int, Path]) -> Path:
        number, source = numbered
        key = recipe.key(source)
        found = objects.find(cache, source, key)
        if found is None:
            made = place / f"lasting-{number}.o"
            _compile(source, made, words, lasting=True)
            found = objects.keep(cache, source, key, made)
        return found

    return _parallel(object_of, list(enumerate(lasting_sources(plan, tools))))


def _parallel(call: Callable[[T], U], jobs: Sequence[T]) -> list[U]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(call, jobs))


def _link(plan: Plan, tools: Toolchain, words: list[str], program: Path) -> None:
    """Link; where the program does not fit beside the plan, say by how much."""
    target, peaks = target_of(plan.options), {level.name: level.peak for level in plan.levels}
    try:
        _call([*words, *link_words(tools, words[0], target, peaks), "-o", str(program)], f"linking {program}", program)
    except BuildFailed as fault:
        layout = program.with_suffix(".map")
        alone = link_words(tools, words[0], target, {})
        shared = [x for x in target.levels if any(f"{{{_placeholder(x)}}}" in word for word in tools.link)]
        if not any(peaks.get(level.name) for level in shared):
            raise
        _call([*words, *alone, f"-Wl,-Map={layout}", "-o", str(program)], f"linking {program}", program)
        program.unlink()
        begin, end = (_symbol(layout.read_text(), name) for name in ("program_begin", "bss_end"))
        level = shared[0]
        peak, room = peaks[level.name], level.bytes - (end - begin)
        if peak <= room:
            raise
        facts = [("program", f"{end - begin} B"), ("plan", f"{peak} B"), (level.name, f"{level.bytes} B")]
        further = target.outer_level(level)
        more = f", with --defaultMemLevel {further.name} where the plan needs more" if further else ""
        cause = f"program and plan together do not fit {level.name} of target {target.name!r}"
        raise PlacementInfeasible(cause, facts, f"{target.budget_flag(level, room)}{more}") from fault


def _symbol(layout: str, name: str) -> int:
    """A symbol's address in a linker's map."""
    found = re.search(rf"^ *0x([0-9a-f]+) +{name} = ", layout, re.MULTILINE)
    if found is None:
        raise InternalError(f"the linker's map has no symbol {name}")
    return int(found[1], 16)


def program_name(profile: int) -> str:
    """File name of a program."""
    return f"network-profile{profile}" if profile else "network"


def _placeholder(level: Level) -> str:
    """What the words of a linker call the bytes that the plan takes of a level."""
    return f"{level.name.lower()}_bytes"


def link_words(tools: Toolchain, command: str, target: Target, used: Mapping[str, int]) -> list[str]:
    """The linker's words with their placeholders filled in; `used` are the plan's bytes by level, 0 where not there."""
    library = ""
    if tools.libgcc:
        query = [command, *tools.libgcc, "-print-libgcc-file-name"]
        library = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    sizes = {_placeholder(level): used.get(level.name, 0) for level in target.levels}
    return [word.format(targets=TARGETS_DIR, libgcc=library, **sizes) for word in tools.link]


def toolchain(target: Target) -> Toolchain:
    """The target's toolchain; OptionProblem where it describes a machine that only others simulate."""
    if target.toolchain is None:
        raise OptionProblem(f"target {target.name!r} has no toolchain", hint="-p host simulates its memories and clock")
    return target.toolchain


def compiler(tools: Toolchain) -> list[str]:
    """The compiler's command words: the environment's choice or the target's; ToolMissing where neither exists."""
    given = os.environ.get(tools.compiler_env, "")
    try:
        words = shlex.split(given) or list(tools.compiler)
    except ValueError as error:
        raise OptionProblem(f"{tools.compiler_env}={given} is no command: {error}", hint="close the quote") from error
    if shutil.which(words[0]) is None:
        raise ToolMissing(
            f"compiler {words[0]!r} is not installed",
            hint=f"install it, or set {tools.compiler_env} to another",
        )
    return words


def flags_of(tools: Toolchain) -> tuple[str, ...]:
    """The toolchain's flags, with those of the optional ones that its compiler takes."""
    command = tuple(compiler(tools))
    known = objects.identity(command) if tools.optional else ()
    return (*tools.flags, *(flag for flag in tools.optional if _takes((*command, *tools.flags, flag), known)))


@cache
def _takes(command: tuple[str, ...], identity: tuple[str, ...]) -> bool:
    """Whether a compiler, known by its identity, compiles an empty file without a warning under these words."""
    try:
        _ran([*command, "-x", "c", "-c", os.devnull, "-o", os.devnull], f"asking {command[0]!r} for {command[-1]}")
    except BuildFailed:
        return False
    return True


def lasting_sources(plan: Plan, tools: Toolchain) -> list[Path]:
    """The plan's kernels (a target's own before the common one), runtime and HAL."""
    found = [kernel_source(symbol, tools) for symbol in sorted({s.kernel.symbol for s in plan.steps})]
    found += sorted((COMMON / "runtime").glob("*.c"))
    for folder in source_folders(tools):
        found += sorted(p for p in folder.iterdir() if p.suffix in (".c", ".S"))
    return found


def _compile(source: Path, made: Path, words: Words, lasting: bool = False) -> None:
    """Compile one file; ToolFailed where a compiler of the user's choice cannot even compile what never changes."""
    try:
        _call(words.all("-c", str(source), "-o", str(made)), f"compiling {source}", made)
    except BuildFailed as fault:
        if not (lasting and words.chosen):
            raise
        cause = f"{words.command[0]!r}, which {words.chosen} names, does not compile {source.name}"
        raise ToolFailed(cause, fault.facts, f"leave {words.chosen} unset, or another compiler") from fault


def _call(command: list[str], what: str, made: Path) -> None:
    """Run a tool that makes a file; ToolFailed where it makes none, and what running it raises."""
    facts = _ran(command, what)
    if not made.is_file():
        raise ToolFailed(f"{what} failed: {command[0]!r} wrote no {made.name}", facts, "another compiler")


def _ran(command: list[str], what: str) -> list[tuple[str, str]]:
    """Run a tool; ToolFailed where the machine or a fault of its own ends it, else BuildFailed. What it said."""
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        raise ToolFailed(f"{command[0]} cannot be started: {error.strerror}", hint="another compiler") from error
    facts = [("command", shlex.join(command)), ("compiler", result.stderr.strip()[-3000:])]
    if any(text in result.stderr for text in SPENT):
        raise ToolFailed(f"{what} failed: the machine is out of space", facts, "free some, or another -o")
    if result.returncode < 0 or any(text in result.stderr for text in BROKEN):
        ended = f"ended by signal {-result.returncode}" if result.returncode < 0 else "a part of it broke down"
        raise ToolFailed(f"{what} failed: {command[0]!r}: {ended}", facts, "start it again, or another compiler")
    if result.returncode != 0:
        raise BuildFailed(f"{what} failed", facts)
    return facts
