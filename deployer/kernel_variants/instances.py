"""C of kernel functions that are instances of a header: macros, what is included, and what defines the function.

An entry of a kernel's list, or of the list of a folder of kernels, says these as data, and this module makes the C;
nothing of an entry but identifiers, integers, names of headers and one comment reaches it.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployer.core.limits import NUMBER
from deployer.core.safe_text import c_comment, identifier, is_identifier

KEYS = ("include", "body", "function", "macro", "arguments", "macros", "does")
"""The keys of an instance."""
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}\.h")


@dataclass(frozen=True)
class Instance:
    """A function of a kernel by the header `body`, behind `macros` and the headers `include`.

    It calls `function` of the header, or `macro` defines it, whose parameters are its name and `arguments`. `does` is
    the comment in front.
    """

    body: str
    function: str = ""
    macros: tuple[tuple[str, int | str], ...] = ()
    include: tuple[str, ...] = ()
    macro: str = ""
    arguments: tuple[int | str, ...] = ()
    does: str = ""

    def text(self, name: str) -> str:
        """The C of the function of that name."""
        does = self.does or f"{name}: made from its entry in the kernel's list of variants."
        lines = [f"/* {c_comment(does)} */"]
        lines += [f"#define {identifier(macro)} {_value(value)}" for macro, value in self.macros]
        lines += [f'#include "{header}"' for header in (*self.include, self.body)]
        if self.macro:
            call = f"{identifier(self.macro)}({', '.join([identifier(name), *map(_value, self.arguments)])})"
        else:
            call = f"void {identifier(name)}(const void *args) {{ {identifier(self.function)}(args); }}"
        return "\n".join([*lines, "", call, ""])


def _value(value: int | str) -> str:
    """A macro's value: a negative number in parentheses."""
    if isinstance(value, str):
        return identifier(value)
    return str(value) if value >= 0 else f"({value})"


def instance_of(data: Any, include: Any = ()) -> Instance | str:
    """Read an instance from a table, or return the fault as text; `include` is the default for its headers."""
    if not isinstance(data, dict):
        return f"it is {data!r}, and not a table with {', '.join(KEYS)}"
    fault = next(_faults(data), "")
    if fault:
        return fault
    return Instance(
        data["body"],
        data.get("function", ""),
        tuple(data.get("macros", {}).items()),
        tuple(data.get("include", include)),
        data.get("macro", ""),
        tuple(data.get("arguments", ())),
        data.get("does", ""),
    )


def is_headers(data: object) -> bool:
    """Whether the value is a list of headers without folders."""
    return isinstance(data, list) and all(isinstance(x, str) and _HEADER.fullmatch(x) for x in data)


def _is_value(value: object) -> bool:
    if isinstance(value, str):
        return is_identifier(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= NUMBER


def _faults(data: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted({*data} - {*KEYS}):
        yield f"it has no key {key!r}; its keys are {', '.join(KEYS)}"
    if "body" not in data:
        yield "it lacks 'body'"
    given = [key for key in ("function", "macro") if key in data]
    if len(given) != 1:
        yield "it has both 'function' and 'macro'" if given else "it lacks 'function' or 'macro'"
    if not is_headers([data["body"]]):
        yield f"body is {data['body']!r}, and not the name of a header such as 'conv.h', without a folder"
    for key in given:
        if not (isinstance(data[key], str) and is_identifier(data[key])):
            yield f"{key} is {data[key]!r}, which is not an identifier of C"
    if not isinstance(data.get("does", ""), str):
        yield f"does is {data['does']!r}, and not a text"
    arguments = data.get("arguments", [])
    if not isinstance(arguments, list) or (arguments and "macro" not in data):
        yield f"arguments are {arguments!r}, and not a list for a macro"
    for value in arguments:
        if not _is_value(value):
            yield f"an argument is {value!r}, which is neither an integer nor an identifier of C"
    if not is_headers(data.get("include", [])):
        yield f"include is {data['include']!r}, and not a list of headers without folders"
    macros = data.get("macros", {})
    if not isinstance(macros, dict):
        yield f"macros is {macros!r}, and not a table of names and values"
        return
    for name, value in macros.items():
        if not is_identifier(name):
            yield f"macro {name!r} is not an identifier of C"
        if not _is_value(value):
            yield f"macro {name} is {value!r}, which is neither an integer nor an identifier of C"


def absent(instance: Instance, folders: Collection[Path], generated: str) -> str:
    """First header of an instance that is neither in the folders nor `generated`; empty if all exist."""
    headers = (*instance.include, instance.body)
    return next((x for x in headers if x != generated and not any((f / x).is_file() for f in folders)), "")
