"""Mutation operators over the tokens of C, outside of comments, strings and preprocessor lines."""

import re
from collections.abc import Iterator
from pathlib import Path

from DeployTest.faults.mutants.site import Mutant

TOKEN = re.compile(
    r"""
    (?P<skip>/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<number>\b\d+u?\b(?!\.))
  | (?P<assign>\+=|-=|\*=|\|=|&=|\^=)
  | (?P<compare><=|>=|==|!=|(?<![<\-])[<>](?![<>=]))
  | (?P<join>&&|\|\|)
  | (?P<shift><<|>>)
  | (?P<arithmetic>(?<=[\w)\]] )[+\-*/%](?= [\w(&*]))
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
STATEMENT = re.compile(r"^[ \t]+(?:if \([^\n{;]*\) )?(?P<call>[a-z]\w*\([^\n{}]*\));$", re.MULTILINE)
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


def c_mutants(path: Path, file: str) -> Iterator[Mutant]:
    """All mutants of a C file; some do not compile, which a builder notices."""
    source = path.read_text()
    scope = _scopes(source)
    for found in TOKEN.finditer(source):
        kind, text = str(found.lastgroup), found[0]
        if kind == "skip" or not _inside(scope, found.start()):
            continue
        after = _other(kind, text)
        yield _mutant(file, source, found.start(), found.end(), kind, after)
    for found in STATEMENT.finditer(source):
        if _inside(scope, found.start("call")):
            yield _mutant(file, source, found.start("call"), found.end("call"), "call left out", "(void)0")


def _other(kind: str, text: str) -> str:
    if kind == "number":
        digits = text.rstrip("u")
        return f"{int(digits, 8 if digits.startswith('0') and len(digits) > 1 else 10) + 1}{text[len(digits) :]}"
    return "=" if kind == "assign" else TWINS[text]


def _mutant(file: str, source: str, start: int, end: int, kind: str, after: str) -> Mutant:
    line = source.count("\n", 0, start) + 1
    first = source.rfind("\n", 0, start) + 1
    context = source[first : source.find("\n", start)].strip()
    before = source[start:end]
    nth = source[first:start].count(before)
    return Mutant(file, start, end, line, kind, before, after, f"{nth}: {context}")


def _scopes(source: str) -> list[tuple[int, int]]:
    """The bodies of functions: from a line that ends in `{` and begins in the first column to the closing `}`."""
    bodies = re.finditer(
        r"^(?!typedef|struct|enum|static const|const)\w[^\n;=]*\([^;{}]*\)[^;{}=]*\{\n.*?^\}", source, re.M | re.S
    )
    lines = re.finditer(r"^\w[^\n;={]*\([^\n;{]*\) \{[^\n]*\}$", source, re.M)
    return [b.span() for b in (*bodies, *lines)]


def _inside(scopes: list[tuple[int, int]], at: int) -> bool:
    return any(start <= at < end for start, end in scopes)
