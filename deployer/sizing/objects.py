"""Compiled objects of a library: compilers, sizes of functions, and bounds of the stack."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from deployer.core import target as targets
from deployer.core.errors import ToolFailed, ToolMissing
from deployer.firmware.common import library_tools
from deployer.firmware.sources import library_rules
from deployer.running.build import compiler
from deployer.running.objects import find, identity, keep
from deployer.sizing.boards import Core
from deployer.sizing.cache import cache_folder, key_of, remembered

# Deepest stack of a program, from the frames and calls that the compiler reports of each function.
#
# What is read is GCC's `-fcallgraph-info=su`: a file per source with a node for each function, whose label ends with
# the bytes of its frame, and an edge for each call.

_NODE = re.compile(r'^node: \{ title: "([^"]+)" label: "([^"]*)"( shape : ellipse)? \}$', re.M)
_EDGE = re.compile(r'^edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', re.M)
_FRAME = re.compile(r"\\n(\d+) bytes \(([^)]+)\)")
INDIRECT, CALLBACKS = "__indirect_call", "callbacks"
"""What the compiler calls a function that is called by its address, and what we do: the caller's own function."""


@dataclass
class CallGraph:
    """Frames in bytes and calls, by functions; `growing` are functions whose frame has no fixed size."""

    frames: dict[str, int] = field(default_factory=dict)
    calls: dict[str, list[str]] = field(default_factory=dict)
    growing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class StackBound:
    """Bytes of the deepest chain of calls, the functions of that chain, and its unknown parts.

    `outside` are functions of other libraries and of the caller, whose frames come on top; `unbounded` says why
    there is no bound.
    """

    bytes: int
    chain: tuple[str, ...]
    outside: tuple[str, ...]
    unbounded: str = ""


def read_graph(texts: Iterable[str]) -> CallGraph:
    """The graph of all files; a static function keeps its file before its name, as the compiler writes it."""
    graph = CallGraph()
    for text in texts:
        for title, label, _ in _NODE.findall(text):
            found = _FRAME.search(label)
            if found is None:
                continue
            graph.frames[title] = int(found[1])
            graph.calls.setdefault(title, [])
            if "dynamic" in found[2] and "bounded" not in found[2]:
                graph.growing.append(title)
        for source, target in _EDGE.findall(text):
            graph.calls.setdefault(source, []).append(target)
    return graph


def deepest(graph: CallGraph, roots: Iterable[str]) -> StackBound:
    """The bound of the stack below any of the `roots`, their own frames included."""
    known: dict[str, tuple[int, tuple[str, ...]]] = {}
    outside: set[str] = set()

    def depth(name: str, above: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        if name in above:
            raise RecursionError(f"{name} calls itself")
        if name not in graph.frames:
            outside.add(CALLBACKS if name == INDIRECT else name)
            return 0, ()
        if name not in known:
            if name in graph.growing:
                raise RecursionError(f"the frame of {name} has no fixed size")
            below = max((depth(called, (*above, name)) for called in graph.calls[name]), default=(0, ()))
            known[name] = graph.frames[name] + below[0], (name, *below[1])
        return known[name]

    try:
        total, chain = max((depth(root, ()) for root in roots), default=(0, ()))
    except RecursionError as problem:
        return StackBound(0, (), tuple(sorted(outside)), str(problem))
    return StackBound(total, chain, tuple(sorted(outside)))


# A library compiled for a core: bytes of each function, the bound of its stack, and its objects.

Files = Mapping[str, str | bytes]
WRITTEN = ("-ffunction-sections", "-fdata-sections", "-fcallgraph-info=su")
_SYMBOL = re.compile(r"^[0-9a-f]+ ([0-9a-f]+) (\w) (\S+)$", re.M)
KINDS = {"t": "text", "r": "text", "d": "data", "b": "bss"}
"""The section of a symbol by the letter that `nm` has for it; constants count as code, beside which they lie."""


@dataclass(frozen=True)
class Objects:
    """A compiled library: bytes of text (with constants), data and bss by functions and in all, its stack, its files.

    `functions` has a row of text, data and bss per symbol, constants and variables among them.
    """

    core: Core
    version: str
    functions: dict[str, tuple[int, int, int]]
    stack: StackBound
    paths: tuple[Path, ...]

    def total(self, section: int) -> int:
        """The bytes of a section: 0 is text, 1 data, 2 bss."""
        return sum(row[section] for row in self.functions.values())


def available(core: Core) -> bool:
    """Whether the core's compiler is installed."""
    return bool(core.compiler) and shutil.which(core.compiler) is not None


def need_compiler(core: Core) -> None:
    """ToolMissing where the core's compiler is not installed, or the core has none."""
    if not available(core):
        raise ToolMissing(f"core {core.name} needs {core.compiler or 'a compiler that is not known here'}")


@cache
def version_of(tool: str) -> str:
    """The first line of what a compiler or an emulator says of itself."""
    return run_tool([tool, "--version"]).splitlines()[0]


def run_tool(words: list[str], folder: Path | None = None) -> str:
    """Run a tool and return its output; raise ToolFailed with its messages, in English, if it does not end well."""
    english = os.environ | {"LC_ALL": "C"}
    try:
        run = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder, timeout=600, env=english)
    except FileNotFoundError as error:
        raise ToolMissing(f"{words[0]} is not installed", hint="install it, or leave out what needs it") from error
    if run.returncode:
        raise ToolFailed(f"{words[0]} failed", [("said", (run.stdout + run.stderr)[-2000:])])
    return run.stdout


def flags_of(core: Core) -> list[str]:
    """Return the compiler flags for the core."""
    rules = library_rules()
    return [f"-std=c{rules.standard}", rules.optimize, *rules.flags, *core.flags, *WRITTEN]


def compile_library(files: Files, name: str, core: Core) -> Objects:
    """Compile the sources of a library; what has been compiled before is not compiled again."""
    need_compiler(core)
    headers = {path: text for path, text in files.items() if path.endswith(".h") and not path.startswith("examples/")}
    texts = (f"{path}\n{text!r}" for path, text in sorted(headers.items()))
    common = key_of([*identity((core.compiler,)), *flags_of(core), *texts])
    compiled = [
        _compiled(core, common, path, str(text), headers)
        for path, text in sorted(files.items())
        if path.startswith("src/") and path.endswith(".c")
    ]
    functions: dict[str, tuple[int, int, int]] = {}
    for record, _ in compiled:
        functions |= {symbol: (row[0], row[1], row[2]) for symbol, row in record["functions"].items()}
    graph = read_graph(record["calls"] for record, _ in compiled)
    roots = _interface(graph, str(files[f"include/{name}.h"]), name)
    paths = tuple(path for _, path in compiled)
    return Objects(core, version_of(core.compiler), functions, deepest(graph, roots), paths)


def _interface(graph: CallGraph, header: str, name: str) -> list[str]:
    """The functions of the library's header."""
    declared = set(re.findall(rf"\b({name}_\w+)\(", header))
    return sorted(declared & set(graph.frames))


def _compiled(core: Core, common: str, path: str, text: str, headers: Files) -> tuple[dict[str, Any], Path]:
    """Return the record and the file of a source's object; recompile it if the file is lost or damaged."""
    key = key_of([common, path, text])

    def make() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            return _compile(core, key, path, text, headers, Path(folder))

    record: dict[str, Any] = remembered(key, make)
    place = find(cache_folder(), Path(path), key)
    if place is None:
        record = make()
        place = find(cache_folder(), Path(path), key)
    assert place is not None, "it has just been kept"
    return record, place


def _compile(core: Core, key: str, path: str, text: str, headers: Files, folder: Path) -> dict[str, Any]:
    for name, content in {**headers, path: text}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(str(content))
    run_tool([core.compiler, *flags_of(core), "-Iinclude", "-c", path, "-o", "unit.o"], folder)
    [calls] = [file.read_text() for file in folder.glob("*.ci")]
    keep(cache_folder(), Path(path), key, folder / "unit.o")
    listed = run_tool([core.compiler.replace("-gcc", "-nm"), "--print-size", "unit.o"], folder)
    functions: dict[str, list[int]] = {}
    sections = list(dict.fromkeys(KINDS.values()))
    for size, letter, symbol in _SYMBOL.findall(listed):
        kind = KINDS.get(letter.lower())
        if kind is not None:
            row = functions.setdefault(f"{Path(path).name}:{symbol}" if letter.islower() else symbol, [0, 0, 0])
            row[sections.index(kind)] += int(size, 16)
    return {"functions": functions, "calls": calls}


# A library compiled by this machine's compiler before it is written: a name or a kernel that breaks it shows here.

LEAVE_OUT = "--no-compile"
"""The option by which nothing is compiled."""


def compile_here(files: Mapping[str, str | bytes], name: str) -> str:
    """Compile all sources of a library and its example; the compiler's name.

    ToolMissing without a compiler, ToolFailed with its messages where it does not compile them.
    """
    rules = library_rules()
    tools = library_tools(targets.load(rules.target))
    try:
        command = compiler(tools)
    except ToolMissing as error:
        hint = f"{error.hint}; or {LEAVE_OUT}, which writes the library without compiling it"
        raise ToolMissing(error.cause, error.facts, hint) from None
    sources = sorted(path for path in files if path.endswith(".c"))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for path, text in files.items():
            if path.endswith((".c", ".h")):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(str(text))
        words = [*command, f"-std=c{rules.standard}", "-O0", *rules.flags, "-Iinclude", "-Isrc", "-c", *sources]
        try:
            run_tool(words, folder)
        except ToolFailed as error:
            hint = f"another --name where {name!r} is in the way; {LEAVE_OUT} writes the library all the same"
            cause = f"library {name} does not compile with {command[0]}, and was not written"
            raise ToolFailed(cause, error.facts, hint) from None
    return command[0]
