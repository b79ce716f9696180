"""Build of programs: the target's toolchain over generated files, kernels and HAL; objects that never change are kept.

A kernel's C lies in the target's own folder, in the common one, or in that of another package; or it is made from an
entry of the kernel's list of variants.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
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
    one_of,
)
from deployer.core.files.reading import real_path
from deployer.core.kernel import function_name
from deployer.core.level import Level
from deployer.core.packages import PackageProblem, kernel_folders
from deployer.core.plan import Plan, target_of
from deployer.core.target import TARGETS_DIR, Target, Toolchain, rack_file
from deployer.kernel_variants.conditions import FOLDER_LIST, LIST, general_of, listed_kernels, variants_of
from deployer.operators.base.elementwise_dsl import printed_kernels
from deployer.running import objects, output
from deployer.running.objects import Recipe

COMMON = TARGETS_DIR / "common"


def source_folders(tools: Toolchain) -> tuple[Path, ...]:
    """The folders of a target's HAL."""
    return tuple(TARGETS_DIR / source for source in tools.sources)


@dataclass(frozen=True)
class KernelSource:
    """C of a kernel's function: a file, or text made from an entry of a list."""

    place: Path
    """The file, or the list."""
    file: Path
    """The file, or below the folder of made ones where it goes: `SYMBOL.c`, or `SYMBOL/VARIANT.c`."""
    text: str = ""
    """The text, where it is made."""

    @property
    def content(self) -> str:
        """The C."""
        return self.text or self.file.read_text()

    def written(self, folder: Path) -> Path:
        """The path of the file, after it was written below `folder` if it is made."""
        if not self.text:
            return self.file
        path = folder / "kernels" / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text)
        return path


def kernel_source(symbol: str, tools: Toolchain, generated: Path) -> KernelSource:
    """The C of a kernel: a target's own before the one for all; PackageProblem where two are for all.

    `generated` is the folder of generated files, where the one for all lies if it is printed from a formula.
    """
    own = next((found for path in _own(symbol, tools) if (found := _own_source(symbol, path))), None)
    if own is not None:
        return own
    folders = (COMMON / "kernels", *kernel_folders().values())
    general = [folder / f"{symbol}.c" for folder in folders]
    if symbol in printed_kernels():
        general.append(generated / f"{symbol}.c")
    shared = [KernelSource(p, p) for p in general if p.is_file()]
    shared += [
        KernelSource(folder / FOLDER_LIST, Path(f"{symbol}.c"), code.text(symbol))
        for folder in folders
        if (code := listed_kernels(folder).get(symbol))
    ]
    if len(shared) > 1:
        facts = [("files", "\n".join(str(source.place) for source in shared))]
        raise PackageProblem(f"kernel {symbol} has {len(shared)} C files", facts, "another name for one of them")
    if not shared:
        places = [*_own(symbol, tools), *general, *(folder / FOLDER_LIST for folder in folders)]
        raise BuildFailed(f"kernel {symbol} has no C file", [("looked for", ", ".join(map(str, places)))])
    return shared[0]


def _own_source(symbol: str, path: Path) -> KernelSource | None:
    """A target's own C of a kernel's general function: the file at a path, or `general` of the list beside it."""
    listed = path.with_suffix("") / LIST
    code = general_of(listed)
    if code is not None:
        return KernelSource(listed, Path(path.name), code.text(symbol))
    return KernelSource(path, path) if path.is_file() else None


def function_source(symbol: str, variant: str, target: Target, tools: Toolchain, generated: Path) -> KernelSource:
    """C of a kernel's general function, or of a variant; InternalError if there is no variant of that name."""
    if not variant:
        return kernel_source(symbol, tools, generated)
    found = next((x for x in variants_of(symbol, target) if x.name == variant), None)
    if found is None:
        raise InternalError(f"kernel {symbol} has no variant {variant} on target {target.name}")
    if found.code is None:
        return KernelSource(found.source, found.source)
    text = found.code.text(function_name(symbol, variant))
    return KernelSource(found.source.with_name(LIST), Path(symbol, found.source.name), text)


def _own(symbol: str, tools: Toolchain) -> Iterator[Path]:
    """Yield the candidate paths of a file for this target alone: with the target, or in a package's HAL folder."""
    for source in source_folders(tools):
        yield source / "kernels" / f"{symbol}.c"
    for folder in kernel_folders().values():
        yield from (folder / source.name / f"{symbol}.c" for source in source_folders(tools))


LIBRARY = "network.so"
"""File name of a shared library."""
T = TypeVar("T")
U = TypeVar("U")
NO_SPACE = ("No space left on device", "Disk quota exceeded", "File size limit exceeded", "Cannot allocate memory")
"""Messages of a tool that the machine ended, not its input, in the C locale."""
BROKEN = ("internal compiler error", "signal terminated program", "terminated with signal")
"""Messages of gcc after a program that it started was killed or crashed."""


@dataclass(frozen=True)
class Words:
    """A compiler's command and flags; `variable` is the environment variable that names the command, else empty."""

    command: tuple[str, ...]
    variable: str
    flags: tuple[str, ...]
    includes: tuple[str, ...]

    def all(self, *more: str) -> list[str]:
        """The whole command."""
        return [*self.command, *self.flags, *self.includes, *more]


def build_program(
    plan: Plan,
    directory: Path,
    sanitize: bool = False,
    profile: int = 0,
    sources: Sequence[str] | None = None,
    library: bool = False,
) -> Path:
    """Compile what `generate` wrote into `directory`, or the C files named there by `sources`; the program's path.

    `profile` 1 makes the program record when steps begin, 2 each wait and kernel too, where the target's HAL can. With
    `library` it becomes a shared library for this process.

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
        *(_library_flags(target, tools) if library else ()),
    ]
    includes = [*(f"-I{folder}" for folder in folders), "-idirafter", str(directory)]
    variable = tools.compiler_env if os.environ.get(tools.compiler_env) else ""
    words = Words(tuple(compiler(tools)), variable, tuple(flags), tuple(includes))
    generated = [_present(directory / name) for name in (generate.sources(plan) if sources is None else sources)]
    with output.scratch(directory) as place:
        lasting = _lasting(plan, tools, Recipe(words.command, words.flags, folders, directory), words, place)
        compiled = [place / f"{source.stem}.o" for source in generated]
        _parallel(lambda pair: _compile(pair[0], pair[1], words), list(zip(generated, compiled, strict=True)))
        program = place / (LIBRARY if library else program_name(profile))
        _link(plan, tools, words.all(*map(str, (*compiled, *lasting))), program)
        output.take(directory, {file.name: file for file in (*compiled, program)})
    return directory / program.name


def _library_flags(target: Target, tools: Toolchain) -> tuple[str, ...]:
    """Flags of a shared library; OptionProblem for a target whose programs do not run in this process."""
    if not tools.library:
        raise OptionProblem(
            f"programs of target {target.name!r} are not run by this process", hint="the default target"
        )
    return tools.library


def _check_headers(directory: Path, folders: Sequence[Path]) -> None:
    """Raise OptionProblem where a header in the folder would be included instead of the deployer's own."""
    names = {header.name for folder in folders for header in folder.rglob("*.h")}
    clashes = sorted(path.name for path in directory.glob("*.h") if path.name in names)
    if clashes:
        cause = f"{directory} holds {', '.join(clashes)}, which generated C would include instead of the deployer's own"
        raise OptionProblem(cause, hint="move it away, or another -o")


def _present(source: Path) -> Path:
    if not source.is_file():
        raise FileProblem(f"{source} does not exist", hint="run once without --skipgen")
    return source


def _lasting(plan: Plan, tools: Toolchain, recipe: Recipe, words: Words, place: Path) -> list[Path]:
    """The objects of the plan's kernels, runtime and HAL; missing and damaged ones are compiled."""
    stored = objects.folder()

    def object_of(numbered: tuple[int, Path]) -> Path:
        number, source = numbered
        key = recipe.key(source)
        path = objects.find(stored, source, key)
        if path is None:
            fresh = place / f"lasting-{number}.o"
            _compile(source, fresh, words, lasting=True)
            path = objects.keep(stored, source, key, fresh)
        return path

    return _parallel(object_of, list(enumerate(lasting_sources(plan, tools, recipe.own, place))))


def _parallel(call: Callable[[T], U], jobs: Sequence[T]) -> list[U]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(call, jobs))


def _link(plan: Plan, tools: Toolchain, words: list[str], program: Path) -> None:
    """Link the program; PlacementInfeasible with the numbers where it does not fit next to the plan's buffers."""
    target, peaks = target_of(plan.options), {level.name: level.peak for level in plan.levels}
    try:
        _call([*words, *link_words(tools, words[0], target, peaks), "-o", str(program)], f"linking {program}", program)
    except BuildFailed as fault:
        layout = program.with_suffix(".map")
        alone = link_words(tools, words[0], target, {})
        shared = (x for x in target.levels if any(f"{{{_placeholder(x)}}}" in word for word in tools.link))
        level = next(shared, None)
        if level is None or not peaks.get(level.name):
            raise
        _call([*words, *alone, f"-Wl,-Map={layout}", "-o", str(program)], f"linking {program}", program)
        program.unlink()
        begin, end = (_symbol(layout.read_text(), name) for name in ("program_begin", "bss_end"))
        peak, room = peaks[level.name], level.bytes - (end - begin)
        if peak <= room:
            raise
        facts = [("program", f"{end - begin} B"), ("plan", f"{peak} B"), (level.name, f"{level.bytes} B")]
        further = target.outer_level(level)
        more = [f"--defaultMemLevel {further.name}"] if further else []
        cause = f"program and plan together do not fit {level.name} of target {target.name!r}"
        hint = one_of(*target.larger(level, min(room, level.room)), *more, "a smaller model")
        raise PlacementInfeasible(cause, facts, hint) from fault


def _symbol(layout: str, name: str) -> int:
    """A symbol's address in a linker's map."""
    match = re.search(rf"^ *0x([0-9a-f]+) +{name} = ", layout, re.MULTILINE)
    if match is None:
        raise InternalError(f"the linker's map has no symbol {name}")
    return int(match[1], 16)


def program_name(profile: int) -> str:
    """File name of a program."""
    return f"network-profile{profile}" if profile else "network"


def _placeholder(level: Level) -> str:
    """The placeholder in the linker's words for the bytes that a plan uses in a level."""
    return f"{level.name.lower()}_bytes"


def link_words(tools: Toolchain, command: str, target: Target, bytes_by_level: Mapping[str, int]) -> list[str]:
    """The linker's words with their placeholders filled in; `bytes_by_level` are the plan's, 0 for absent levels."""
    library = ""
    if tools.libgcc:
        query = [command, *tools.libgcc, "-print-libgcc-file-name"]
        library = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    sizes = {_placeholder(level): bytes_by_level.get(level.name, 0) for level in target.levels}
    return [word.format(targets=TARGETS_DIR, libgcc=library, **sizes) for word in tools.link]


def toolchain(target: Target) -> Toolchain:
    """The target's toolchain, its flags for so many cores; OptionProblem for a machine that only others simulate."""
    if target.toolchain is None:
        hint = "-p host simulates its memories and clock"
        if rack_file(target.name).is_file():
            hint = f"`deployer rack CASE -p {target.name}` trains a case on it"
        raise OptionProblem(f"target {target.name!r} has no toolchain", hint=hint)
    flags = tuple(flag.replace("{cores}", str(target.cores)) for flag in target.toolchain.flags)
    return replace(target.toolchain, flags=flags)


def compiler(tools: Toolchain) -> list[str]:
    """The compiler's command words: the environment's choice or the target's; ToolMissing where neither exists."""
    setting = os.environ.get(tools.compiler_env, "")
    try:
        words = shlex.split(setting) or list(tools.compiler)
    except ValueError as error:
        raise OptionProblem(
            f"{tools.compiler_env}={setting} is not a command: {error}", hint="close the quote"
        ) from error
    if shutil.which(words[0]) is None:
        raise ToolMissing(
            f"compiler {words[0]!r} is not installed",
            hint=f"install it, or set {tools.compiler_env} to another",
        )
    return words


def flags_of(tools: Toolchain) -> tuple[str, ...]:
    """The toolchain's flags, with those of the optional ones that its compiler takes."""
    command = tuple(compiler(tools))
    compiler_id = objects.identity(command) if tools.optional else ()
    return (*tools.flags, *(flag for flag in tools.optional if _takes((*command, *tools.flags, flag), compiler_id)))


@cache
def _takes(command: tuple[str, ...], identity: tuple[str, ...]) -> bool:
    """Whether a compiler compiles an empty file with this command without a warning; cached by its identity."""
    try:
        _run_tool([*command, "-x", "c", "-S", os.devnull, "-o", os.devnull], f"asking {command[0]!r} for {command[-1]}")
    except BuildFailed:
        return False
    return True


def lasting_sources(plan: Plan, tools: Toolchain, generated: Path, made: Path) -> list[Path]:
    """The functions of the plan's kernels (a target's own before the common one), runtime and HAL.

    C that is made from an entry of a list is written below the folder `made`.
    """
    calls = sorted({(s.kernel.symbol, s.variant) for s in plan.steps})
    found = [function_source(symbol, name, target_of(plan.options), tools, generated) for symbol, name in calls]
    files = [source.written(made) for source in found]
    files += sorted((COMMON / "runtime").glob("*.c"))
    for folder in source_folders(tools):
        files += sorted(p for p in folder.iterdir() if p.suffix in (".c", ".S"))
    return files


def _compile(source: Path, target: Path, words: Words, lasting: bool = False) -> None:
    """Compile one file; ToolFailed where a compiler of the user's choice cannot even compile what never changes."""
    try:
        _call(words.all("-c", str(source), "-o", str(target)), f"compiling {source}", target)
    except BuildFailed as fault:
        if not (lasting and words.variable):
            raise
        cause = f"{words.command[0]!r}, which {words.variable} names, does not compile {source.name}"
        raise ToolFailed(cause, fault.facts, f"leave {words.variable} unset, or another compiler") from fault


def _call(command: list[str], task: str, target: Path) -> None:
    """Run a tool that writes the file `target`; ToolFailed where it writes none, and the errors of running it."""
    facts = _run_tool(command, task, real_path(target.parent))
    if not target.is_file():
        raise ToolFailed(f"{task} failed: {command[0]!r} wrote no {target.name}", facts, "another compiler")


def _run_tool(command: list[str], task: str, place: Path | None = None) -> list[tuple[str, str]]:
    """Run a tool and return its messages; ToolFailed where it crashed or the machine ended it, else BuildFailed.

    Its temporary files go to `place`: a compiler that is ended leaves them where they are.
    """
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            check=False,
            env={**os.environ, "LC_ALL": "C", **({"TMPDIR": str(place)} if place else {})},
        )
    except OSError as error:
        cause = f"{command[0]} cannot be run: {error.strerror}"
        raise ToolFailed(cause, hint="run it again, or use another compiler") from error
    facts = [("command", shlex.join(command)), ("compiler", result.stderr.strip()[-3000:])]
    if any(text in result.stderr for text in NO_SPACE):
        raise ToolFailed(f"{task} failed: the machine is out of space", facts, "free some, or use another -o")
    if result.returncode < 0 or any(text in result.stderr for text in BROKEN):
        ended = f"ended by signal {-result.returncode}" if result.returncode < 0 else "a part of it broke down"
        raise ToolFailed(f"{task} failed: {command[0]!r}: {ended}", facts, "run it again, or use another compiler")
    if result.returncode != 0:
        raise BuildFailed(f"{task} failed", facts)
    return facts
