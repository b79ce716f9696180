"""Compiler output for an accepted input: options drawn for it, and text that must be safe."""

import re
from collections.abc import Mapping

from deployer.core.plan import Options

from .draw import MARK, Draw
from .trial import Finding, hidden

BUFFERINGS = ("auto", "single", "double")


def random_options(draw: Draw) -> Options:
    """Options of a compilation in little L1, where tiles are many."""
    budgets = {"L1": draw.one((700, 1000, 2000, 4000, 16000, 64000))}
    return Options("host", draw.one(BUFFERINGS), budgets, draw.one((None, 1, 3)), allow_rewrites=draw.chance(0.7))


def random_words(draw: Draw) -> list[str]:
    """The same as words of a command line."""
    words = ["--l1", draw.one(("700", "1000", "2000", "4000", "16000", "64000")), "--buffering", draw.one(BUFFERINGS)]
    words += draw.one(([], ["--no-fusion"], ["--defaultMemLevel", "L3"], ["--cores", "3"]))
    words += draw.one(([], ["--dma-order", "random", "--seed", "3"], ["--core-order", "reverse"]))
    return words


def check_text(files: Mapping[str, str]) -> None:
    """Finding where a name from the input could act: outside of comments, strings and identifiers, or hidden."""
    for name, text in files.items():
        bad = [c for c in hidden(text) if c != "\t"]
        if bad and not name.endswith(".json"):
            raise Finding("unsafe text", f"{_kind(name)} holds {bad[0]!a}")
        if name.endswith((".c", ".h")):
            _check_code(name, text)
        if name.endswith(".html") and re.search(rf"<(script|img)[^>]*{MARK}|<script>{MARK}", text):
            raise Finding("unsafe text", f"{_kind(name)} holds markup of a name")


def _kind(name: str) -> str:
    return name.rsplit(".", 1)[-1]


_TOKENS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_TRIGRAPHS = {
    "??/": "\\",
    "??'": "^",
    "??(": "[",
    "??)": "]",
    "??!": "|",
    "??<": "{",
    "??>": "}",
    "??-": "~",
    "??=": "#",
}


def _check_code(name: str, text: str) -> None:
    for trigraph, meaning in _TRIGRAPHS.items():
        text = text.replace(trigraph, meaning)
    code = _TOKENS.sub(" ", text.replace("\\\n", ""))
    if "__asm__" in code or re.search(rf"#include <{MARK}|\bint {MARK}|constructor", code):
        raise Finding("unsafe text", f"{_kind(name)} holds code of a name")
