"""Mutation operators over the tokens of C, outside of comments, strings and preprocessor lines."""

import re
from collections.abc import Iterator
from pathlib import Path

from DeployTest.faults.mutants.site import Mutant, told_apart

TOKEN = re.compile(
    r"""
    (?P<skip>/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<number>(?<![\w.])\d+u?\b(?!\.))
  | (?P<assign>\+=|-=|\*=|\|=|&=|\^=)
  | (?P<compare><=|>=|==|!=|(?<![<\-])[<>](?![<>=]))
  | (?P<join>&&|\|\|)
  | (?P<shift><<|>>)
  | (?P<arithmetic>(?<=[\w)\]][ ])[+\-*/%](?=[ ][\w(&*]))
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
STATEMENT = re.compile(r"(?<=[;{}):/])\n[ \t]+(?:if \([^\n{;]*\) )?(?P<call>[a-z]\w*\([^\n{}]*\));$", re.MULTILINE)
TWINS = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "&&": "||",
    "||": "&&",
    "<<": ">>",
    ">>": "<<",
    "+": "-",
    "-": "+",
    "*": "+",
    "/": "*",
    "%": "/",
}


def c_mutants(path: Path, file: str) -> list[Mutant]:
    """All mutants of a C file; some do not compile, which a builder notices."""
    source = path.read_text()
    return told_apart(_mutants(file, source))


def _mutants(file: str, source: str) -> Iterator[Mutant]:
    scopes = _scopes(source)
    places = [(m, "", str(m.lastgroup)) for m in TOKEN.finditer(source) if m.lastgroup != "skip"]
    calls = (m for m in STATEMENT.finditer(source) if m["call"].count("(") == m["call"].count(")"))
    places += [(m, "call", "call left out") for m in calls]
    for match, group, kind in places:
        start, end = match.span(group or 0)
        head = _head(scopes, source, start)
        if head:
            before, line = source[start:end], source.count("\n", 0, start) + 1
            after = "(void)0" if group else _other(kind, before)
            context = f"{head}: {source.splitlines()[line - 1].strip()}"
            yield Mutant(file, start, end, line, kind, before, after, context)


def _other(kind: str, text: str) -> str:
    if kind == "number":
        digits = text.rstrip("u")
        return f"{int(digits, 8 if digits.startswith('0') and len(digits) > 1 else 10) + 1}{text[len(digits) :]}"
    return "=" if kind == "assign" else TWINS[text]


def _scopes(source: str) -> list[tuple[int, int]]:
    """The bodies of functions: from a line that ends in `{` and begins in the first column to the closing `}`."""
    bodies = re.finditer(
        r"^(?!typedef|struct|enum|static const|const)\w[^\n;=]*\([^;{}]*\)[^;{}=]*\{\n.*?^\}", source, re.M | re.S
    )
    lines = re.finditer(r"^\w[^\n;={]*\([^\n;{]*\) \{[^\n]*\}$", source, re.M)
    return [b.span() for b in (*bodies, *lines)]


def _head(scopes: list[tuple[int, int]], source: str, at: int) -> str:
    """The line that begins the function around a place; empty outside of all."""
    inside = (source[start:end] for start, end in scopes if start <= at < end)
    return next((text.splitlines()[0] for text in inside), "")
