"""The C of kernels for a library: their files and the headers they include, side by side in one folder."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath

from deployer.codegen.generate import kernel_files
from deployer.core import target as targets
from deployer.core.errors import InternalError
from deployer.core.files.reading import own_toml
from deployer.core.kernel import Kernel
from deployer.core.target import TARGETS_DIR, Toolchain
from deployer.running.build import COMMON, kernel_source

PORTABLE = TARGETS_DIR / "portable"
OWN_FMA = "hal_fmaf"
"""The portable HAL's function, of which each library has its own."""
FLAGS = "exact_flags.h"
"""The header that refuses flags by which a compiler computes otherwise than is written."""
_TYPE = re.compile(r"^(?:typedef [^;{(]*?\b(\w+)|typedef [^;{]*\(\*(\w+)\)[^;]*|\} (\w+));", re.MULTILINE)
"""The end of a definition of a type, or the whole of it, with its name."""
_FIRST = re.compile(r"^#include\b", re.MULTILINE)
_QUOTED = re.compile(r'#include "([^"]+)"')
_INCLUDE = re.compile(r'^(#ifdef \w+\n)?#include "([^"]+)"$', re.MULTILINE)
"""An include; right behind a condition it is of machines that say so themselves, which a library does not."""


@dataclass(frozen=True)
class Rules:
    """Build rules of libraries: default target for plans, C standard, flags, and libraries to link.

    `costs` is the target by whose costs steps are counted where nothing measures them. `shared` are the flags of a
    shared library, instead of `optimize`, and `native` is one that fits it to this machine.
    """

    target: str
    costs: str
    standard: str
    optimize: str
    flags: tuple[str, ...]
    shared: tuple[str, ...]
    native: str
    libraries: tuple[str, ...]


@cache
def library_rules() -> Rules:
    """The rules, from their file."""
    read = own_toml(PORTABLE / "library.toml")
    return Rules(
        target=read["target"],
        costs=read["costs"],
        standard=read["standard"],
        optimize=read["optimize"],
        flags=tuple(read["flags"]),
        shared=tuple(read["shared"]),
        native=read["native"],
        libraries=tuple(read["libraries"]),
    )


def native_sources(
    kernels: Collection[Kernel], prefix: str, needed: Iterable[str], portable: Mapping[str, str]
) -> dict[str, str]:
    """The texts of files by name that a shared library has instead of `portable` ones, or beside them.

    They are kernels that the target of `library_rules` has of its own, for a computer's vectors, with the same bits.
    """
    tools = targets.load(library_rules().target).toolchain
    assert tools is not None
    texts = _sources(kernels, tools.sources, tools, prefix, needed)
    return {name: text for name, text in texts.items() if portable.get(name) != text}


def kernel_sources(kernels: Collection[Kernel], tools: Toolchain, prefix: str, needed: Iterable[str]) -> dict[str, str]:
    """The texts of all files by name: kernels in their portable form, `needed` files, and what all of these include.

    `tools` is the toolchain of the plan's target. Files, types and functions that the linker sees carry the prefix, and
    each source ends with the function that shows its flags, `source_proof`.
    """
    return _sources(kernels, ("portable",), tools, prefix, needed)


def _sources(
    kernels: Collection[Kernel], folders: tuple[str, ...], tools: Toolchain, prefix: str, needed: Iterable[str]
) -> dict[str, str]:
    """The same with kernels of targets in these folders before those for all."""
    files: dict[str, str] = {}
    portable = replace(tools, sources=folders)
    for kernel in kernels:
        header, name = f"{kernel.symbol}.h", f"{kernel.symbol}.c"
        texts = kernel_files(kernel)
        code = texts.get(name) or kernel_source(kernel.symbol, portable, PORTABLE).content
        files |= {name: _prefixed(code, kernel, prefix), header: _prefixed(texts[header], kernel, prefix)}
    places = [PORTABLE, COMMON / "include", *(TARGETS_DIR / folder for folder in folders)]
    waiting = [*needed, *(name for text in files.values() for name in _included(text))]
    for name in waiting:
        if name not in files:
            files[name] = re.sub(rf"\b{OWN_FMA}\b", f"{prefix}_fmaf", _shared(name, places))
            waiting += _included(files[name])
    types = {name for text in files.values() for names in _TYPE.findall(text) for name in names if name}
    named = {name: _own_names(text, types, files, prefix) for name, text in files.items()}
    for kernel in kernels:
        named[f"{kernel.symbol}.c"] = _pasted(named[f"{kernel.symbol}.c"], kernel, prefix)
    proven = {name: _proven(name, text, prefix) if name.endswith(".c") else text for name, text in named.items()}
    return {f"{prefix}_{name}": text for name, text in sorted(proven.items())}


def source_proof(name: str, prefix: str) -> str:
    """The function by which a source without its prefix, such as `gemm_f32.c`, shows what its flags do."""
    return f"{prefix}_{PurePosixPath(name).stem}_exact"


def _proven(name: str, text: str, prefix: str) -> str:
    """A source that refuses flags before it computes, and shows at its end those that no macro tells."""
    include = f'#include "{prefix}_{FLAGS}"'
    with_include = _FIRST.sub(lambda _: f"{include}\n#include", text, count=1)
    return f"{with_include.rstrip()}\n\nEXACT_FLAGS({source_proof(name, prefix)})\n"


def _pasted(text: str, kernel: Kernel, prefix: str) -> str:
    """A kernel's source with its argument struct without prefix, too, where a macro makes that name."""
    symbol = kernel.symbol
    if not re.search(rf"\({symbol}\b[,)]", text):
        return text
    include = f'#include "{prefix}_{symbol}.h"\n'
    return text.replace(include, f"{include}typedef {prefix}_{symbol}_args_t {symbol}_args_t;\n", 1)


def _own_names(text: str, types: Collection[str], files: Collection[str], prefix: str) -> str:
    """The text with the prefix before the types, and before the files that it includes."""
    if types:
        words = "|".join(sorted(types))
        text = re.sub(rf"\b(?:{words})\b", lambda found: f"{prefix}_{found[0]}", text)
    return _QUOTED.sub(lambda found: f'#include "{prefix}_{found[1]}"' if found[1] in files else found[0], text)


def _prefixed(text: str, kernel: Kernel, prefix: str) -> str:
    """The text with the kernel's function behind the prefix, where it is written, or where a macro is told its name.

    Such macros make the name of the argument struct from it, which then has the prefix as all types have it.
    """
    symbol = kernel.symbol
    name = rf"(?<=void ){symbol}(?=\()"
    if not re.search(name, text):
        name = rf'\b{symbol}\b(?!\.h")'
    return re.sub(name, f"{prefix}_{symbol}", text)


def _included(text: str) -> list[str]:
    return [name for condition, name in _INCLUDE.findall(text) if not condition]


def _shared(name: str, folders: Sequence[Path]) -> str:
    places = [folder / name for folder in folders]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise InternalError(f"there is no file {name}", [("looked for", ", ".join(map(str, places)))])
    return found.read_text()
