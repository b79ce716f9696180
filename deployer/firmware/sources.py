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
_INCLUDE = re.compile(r'^(#ifdef \w+\n)?#include "([^"]+)"$', re.MULTILINE)
"""An include; right behind a condition it is of machines that say so themselves, which a library does not."""


@dataclass(frozen=True)
class Rules:
    """How libraries are made: the target whose plans they take by default, C's standard, flags, libraries to link."""

    target: str
    standard: str
    optimize: str
    flags: tuple[str, ...]
    libraries: tuple[str, ...]


@cache
def library_rules() -> Rules:
    """The rules, from their file."""
    read = tomllib.loads((PORTABLE / "library.toml").read_text())
    lists = {key: tuple(read.pop(key)) for key in ("flags", "libraries")}
    return Rules(**read, **lists)


def kernel_sources(kernels: Iterable[Kernel], tools: Toolchain, prefix: str, needed: Iterable[str]) -> dict[str, str]:
    """The texts of all files by name: kernels in their portable form, and headers, `needed` ones and what they include.

    `tools` is the toolchain of the plan's target. To the linker each kernel is known with the prefix.
    """
    files: dict[str, str] = {}
    portable = replace(tools, sources=("portable",))
    for kernel in kernels:
        files |= kernel_files(kernel, prefix)
        name = f"{kernel.symbol}.c"
        if name not in files:
            files[name] = kernel_source(kernel.symbol, portable, PORTABLE).read_text()
    waiting = [*needed, *(name for text in files.values() for name in _included(text))]
    for name in waiting:
        if name not in files:
            files[name] = _header(name)
            waiting += _included(files[name])
    return dict(sorted(files.items()))


def _included(text: str) -> list[str]:
    return [name for condition, name in _INCLUDE.findall(text) if not condition]


def _header(name: str) -> str:
    places = [folder / name for folder in (PORTABLE, COMMON / "include")]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise InternalError(f"there is no header {name}", [("looked for", ", ".join(map(str, places)))])
    return found.read_text()
