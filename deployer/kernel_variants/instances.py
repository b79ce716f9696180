"""C of kernel functions that are instances of a header: macros, what is included, and the function that it calls.

An entry of a kernel's list says these as data, and this module makes the C; nothing of an entry but identifiers,
integers and names of headers reaches it.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployer.core.limits import NUMBER
from deployer.core.safe_text import c_comment, identifier, is_identifier

KEYS = ("include", "body", "function", "macros")
"""The keys of an instance."""
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}\.h")


@dataclass(frozen=True)
class Instance:
    """A function of a kernel that calls `function` of the header `body`, behind `macros` and the headers `include`."""

    body: str
    function: str
    macros: tuple[tuple[str, int | str], ...] = ()
    include: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        """The C of the function of that name."""
        lines = [f"/* {c_comment(name)}: made from its entry in the kernel's list of variants. */"]
        lines += [f"#define {identifier(macro)} {_value(value)}" for macro, value in self.macros]
        lines += [f'#include "{header}"' for header in (*self.include, self.body)]
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
        data["function"],
        tuple(data.get("macros", {}).items()),
        tuple(data.get("include", include)),
    )


def is_headers(data: object) -> bool:
    """Whether the value is a list of headers without folders."""
    return isinstance(data, list) and all(isinstance(x, str) and _HEADER.fullmatch(x) for x in data)


def _faults(data: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted({*data} - {*KEYS}):
        yield f"it has no key {key!r}; its keys are {', '.join(KEYS)}"
    for key in ("body", "function"):
        if key not in data:
            yield f"it lacks {key!r}"
    if not is_headers([data["body"]]):
        yield f"body is {data['body']!r}, and not the name of a header such as 'conv.h', without a folder"
    if not (isinstance(data["function"], str) and is_identifier(data["function"])):
        yield f"function is {data['function']!r}, which is not an identifier of C"
    if not is_headers(data.get("include", [])):
        yield f"include is {data['include']!r}, and not a list of headers without folders"
    macros = data.get("macros", {})
    if not isinstance(macros, dict):
        yield f"macros is {macros!r}, and not a table of names and values"
        return
    for name, value in macros.items():
        if not is_identifier(name):
            yield f"macro {name!r} is not an identifier of C"
        number = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= NUMBER
        if not (number or (isinstance(value, str) and is_identifier(value))):
            yield f"macro {name} is {value!r}, which is neither an integer nor an identifier of C"


def absent(instance: Instance, folders: Collection[Path], generated: str) -> str:
    """First header of an instance that is neither in the folders nor `generated`; empty if all exist."""
    headers = (*instance.include, instance.body)
    return next((x for x in headers if x != generated and not any((f / x).is_file() for f in folders)), "")
