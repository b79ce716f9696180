"""The options that errors propose: as the compiler's source has them, and as a command line that follows them."""

import argparse
import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deployer.commands.parser import commands_of, complete_parser

OPTION = re.compile(r"(?<![\w-])(?:--[a-z][\w-]+|-[op](?![\w-]))")
_NO_HINTS = {"cause", "place", "text", "command", "words"}
"""Variables whose texts say what is wrong, not what to try."""
_SHOWN = {"add_argument", "add_parser", "add_argument_group"}
"""Calls whose texts are help of the command line."""
_LEFT_OUT = re.compile(r"(?:leave|leave out|without|no)\s+$")
_VALUE = re.compile(r"[ =]('[^']*'|\S*\d[^\s,;]*|[a-z][a-z_]+)")
LEFT_OUT = object()
"""In place of a value: the option is left out."""

Values = Mapping[str, Sequence[object]]


def source_hints(root: Path) -> Iterator[tuple[str, str]]:
    """Place and text of each literal that proposes an option; where it stands inside of an f-string, its part."""
    for path in sorted(path for folder in ("deployer", "tilers") for path in (root / folder).rglob("*.py")):
        for node in _literals(ast.parse(path.read_text())):
            if OPTION.search(node.value) and not OPTION.fullmatch(node.value):
                yield f"{path.relative_to(root)}:{node.lineno}", node.value


def _literals(node: ast.AST) -> Iterator[ast.Constant]:
    """Texts that may be hints: no docstrings, no help, no causes."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node
        return
    below = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        below = []
    elif isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in _SHOWN:
            below = []
        elif name[:1].isupper() or name in ("unsupported", "error", "too_large"):
            below = [x for x in below if x is not next(iter(node.args), None)]
    elif isinstance(node, ast.Assign) and any(
        getattr(x, "id", "") in _NO_HINTS for target in node.targets for x in ast.walk(target)
    ):
        below = []
    for child in below:
        yield from _literals(child)


def followed(words: Sequence[str], cause: str, hint: str, values: Values) -> Iterator[list[str]]:
    """The command lines that a hint proposes, one for each option and value; `values` are those it leaves open.

    Options that only spaces part belong together, and one that is proposed in the place of another replaces it.
    AssertionError where the hint names an option without a value that can be told.
    """
    options = {o: action for action in commands_of(complete_parser())[words[0]]._actions for o in action.option_strings}
    if "in its place" in hint:
        for found in OPTION.finditer(cause):
            words = _edited(words, found[0], LEFT_OUT, options)
    for together in re.finditer(rf"{OPTION.pattern}(?: \S+ (?={OPTION.pattern})\S+)*", hint):
        first, *others = OPTION.finditer(hint, *together.span())
        for value in _proposed(hint, first, options.get(first[0]), values):
            edited = _edited(words, first[0], value, options)
            for other in others:
                edited = _edited(edited, other[0], _proposed(hint, other, options.get(other[0]), values)[0], options)
            yield edited


def _proposed(hint: str, found: "re.Match[str]", action: argparse.Action | None, values: Values) -> Sequence[object]:
    """The values that the hint proposes for an option; None for a switch."""
    flag, before, after = found[0], hint[: found.start()], hint[found.end() :]
    if flag in values:
        return values[flag]
    if _LEFT_OUT.search(before) or after.startswith(" out"):
        return (LEFT_OUT,)
    assert action is not None, f"{flag} is not an option of the command: {hint}"
    if action.nargs == 0:
        return (None,)
    if ends := re.match(r"( \S+)? between (\S+) and (\S+)", after):
        return [f"{ends[1].strip()}={end}" if ends[1] else end for end in ends.groups()[1:]]
    value = _VALUE.match(after)
    assert value, f"which value {flag} is to have is not clear: {hint}"
    return (value[1].strip("'"),)


def _edited(words: Sequence[str], flag: str, value: object, options: Mapping[str, argparse.Action]) -> list[str]:
    """The command line with another value of an option, also of one with another name for the same."""
    action = options.get(flag)
    names, kept, skipped = (set(action.option_strings) if action else {flag}), list[str](), False
    for word in words:
        if skipped:
            skipped = False
        elif word in names:
            skipped = action is not None and action.nargs != 0
        else:
            kept.append(word)
    if value is LEFT_OUT:
        return kept
    return [*kept, flag, *([] if value is None else [str(value)])]
