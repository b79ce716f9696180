"""The C of kernels for a library: their files and the headers they include, side by side in one folder."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from deployer.codegen.generate import kernel_files
from deployer.core.errors import InternalError
from deployer.core.operator import Kernel
from deployer.core.target import TARGETS_DIR, Toolchain
from deployer.running.kernels import COMMON, kernel_source

PORTABLE = TARGETS_DIR / "portable"
OWN_FMA = "hal_fmaf"
"""The portable HAL's function, of which each library has its own."""
_INCLUDE = re.compile(r'^(#ifdef \w+\n)?#include "([^"]+)"$', re.MULTILINE)
"""An include; right behind a condition it is of machines that say so themselves, which a library does not."""


@dataclass(frozen=True)
class Rules:
    """How libraries are made: the target whose plans they take by default, C's standard, flags, libraries to link.

    `costs` is the target by whose costs steps are counted where nothing measures them.
    """

    target: str
    costs: str
    standard: str
    optimize: str
    flags: tuple[str, ...]
    libraries: tuple[str, ...]


@cache
def library_rules() -> Rules:
    """The rules, from their file."""
    read = tomllib.loads((PORTABLE / "library.toml").read_text())
    lists = tuple(read["flags"]), tuple(read["libraries"])
    return Rules(read["target"], read["costs"], read["standard"], read["optimize"], *lists)


def kernel_sources(kernels: Iterable[Kernel], tools: Toolchain, prefix: str, needed: Iterable[str]) -> dict[str, str]:
    """The texts of all files by name: kernels in their portable form, `needed` files, and what all of these include.

    `tools` is the toolchain of the plan's target. To the linker each function is known with the prefix.
    """
    files: dict[str, str] = {}
    portable = replace(tools, sources=("portable",))
    for kernel in kernels:
        header, name = f"{kernel.symbol}.h", f"{kernel.symbol}.c"
        texts = kernel_files(kernel)
        code = texts.get(name) or kernel_source(kernel.symbol, portable, PORTABLE).read_text()
        files |= {name: _prefixed(code, kernel, prefix), header: _prefixed(texts[header], kernel, prefix)}
    waiting = [*needed, *(name for text in files.values() for name in _included(text))]
    for name in waiting:
        if name not in files:
            files[name] = re.sub(rf"\b{OWN_FMA}\b", f"{prefix}_fmaf", _shared(name))
            waiting += _included(files[name])
    return dict(sorted(files.items()))


def _prefixed(text: str, kernel: Kernel, prefix: str) -> str:
    """The text with the kernel's function behind the prefix, where it is written, or where a macro is told its name.

    Such macros make the name of the argument struct from it, so that this has both names.
    """
    symbol, struct = kernel.symbol, f"{kernel.symbol}_args_t"
    name = rf"(?<=void ){symbol}(?=\()"
    if not re.search(name, text):
        name = rf'\b{symbol}\b(?!\.h")'
    text = re.sub(name, f"{prefix}_{symbol}", text)
    return text.replace(f"}} {struct};", f"}} {struct};\ntypedef {struct} {prefix}_{struct};")


def _included(text: str) -> list[str]:
    return [name for condition, name in _INCLUDE.findall(text) if not condition]


def _shared(name: str) -> str:
    places = [folder / name for folder in (PORTABLE, COMMON / "include")]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise InternalError(f"there is no file {name}", [("looked for", ", ".join(map(str, places)))])
    return found.read_text()
