"""Functions for some calls of a kernel, which a target has besides that for all of them.

A target's `kernels/SYMBOL/specializations.toml` lists them in the order in which they are tried, each with conditions
on the kernel's arguments: it is `valid` where these hold for a call, and `worth` it where those do. Its C is the
file of its name beside the list, and its function has the kernel's name before its own.
"""

import ast
import operator
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from deployer.core.errors import InternalError
from deployer.core.packages import kernel_folders
from deployer.core.safe_text import is_identifier
from deployer.core.target import TARGETS_DIR, Target, TargetInvalid, Toolchain

Values = Mapping[str, float]
"""The arguments of a call by name: scalars, and of each pointer whether there is one."""
LIST = "specializations.toml"
LET = "let"
"""The table of a list that gives names to values which several conditions need."""
LIKE = "like"
"""The key of a list that has the functions and conditions of another kernel's."""
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_LOGIC = (ast.And, ast.Or, ast.Not, ast.USub, ast.Load)
_FORMS = (ast.Name, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, *_LOGIC, *_BINARY)
"""What conditions are made of, besides integers and `turns`."""


@dataclass(frozen=True)
class Specialization:
    """A function for some calls of a kernel; `valid` and `worth` are conditions over `names` and what `let` defines."""

    name: str
    source: Path
    valid: tuple[str, ...]
    worth: tuple[str, ...]
    let: Mapping[str, str]
    names: frozenset[str]

    def broken(self, values: Values, cores: int) -> str:
        """The first condition under which it is valid that a call does not meet; empty if there is none."""
        return self._broken(self.valid, values, cores)

    def pays(self, values: Values, cores: int) -> bool:
        """Whether a call for which it is valid is quicker by it."""
        return not self._broken(self.worth, values, cores)

    def _broken(self, conditions: Sequence[str], values: Values, cores: int) -> str:
        names = _Names(values, self.let, cores)
        try:
            return next((text for text in conditions if not names.value(text)), "")
        except KeyError as missing:
            cause = f"{self.name} asks for {missing}, which is no argument that tells calls apart"
            raise TargetInvalid(f"{self.source.with_name(LIST)}: {cause}") from missing


def specializations_of(symbol: str, target: Target) -> tuple[Specialization, ...]:
    """The functions that a target has for some calls of a kernel, in the order in which they are tried."""
    return _listed(symbol, target.toolchain) if target.toolchain else ()


def chosen(among: Sequence[Specialization], calls: Callable[[], Iterator[Values]], cores: int) -> str:
    """The name of the first that is valid for each call of a step and worth it for the first call; empty if none is."""
    for specialization in among:
        first = next(calls())
        if specialization.pays(first, cores) and not any(specialization.broken(values, cores) for values in calls()):
            return specialization.name
    return ""


@cache
def _listed(symbol: str, tools: Toolchain) -> tuple[Specialization, ...]:
    folders = [TARGETS_DIR / source / "kernels" / symbol for source in tools.sources]
    folders += [f / Path(source).name / symbol for f in kernel_folders().values() for source in tools.sources]
    lists = [folder / LIST for folder in folders]
    return tuple(specialization for path in lists if path.is_file() for specialization in read_list(path))


def read_list(path: Path) -> Iterator[Specialization]:
    """The functions of a list; TargetInvalid where it is none."""
    table = _table(path)
    if LIKE in table:
        if len(table) > 1:
            raise TargetInvalid(f"{path}: besides {LIKE} it has {', '.join(sorted(set(table) - {LIKE}))}")
        table = _table(path.parent.parent / str(table[LIKE]) / LIST)
    let = table.pop(LET, {})
    if not isinstance(let, dict):
        raise TargetInvalid(f"{path}: {LET} is no table of names and values")
    known: set[str] = set()
    for name, text in let.items():
        later = set(_names_in(path, text)) & set(let) - known
        if later:
            raise TargetInvalid(f"{path}: {LET}.{name} asks for {min(later)}, which is not defined before")
        known.add(name)
    for name, entry in table.items():
        if not (is_identifier(name) and _is_entry(entry)):
            raise TargetInvalid(f"{path}: {name} is no function with conditions `valid` and `worth`")
        valid, worth = (tuple(entry.get(key, ())) for key in ("valid", "worth"))
        names = frozenset(n for text in (*valid, *worth, *let.values()) for n in _names_in(path, text))
        yield Specialization(name, path.with_name(f"{name}.c"), valid, worth, let, names - set(let))


def _is_entry(entry: object) -> bool:
    """Whether an entry of a list has lists of texts, as conditions are, and nothing else."""
    lists = entry.items() if isinstance(entry, dict) else [("", None)]
    return all(
        key in ("valid", "worth") and isinstance(texts, list) and all(isinstance(text, str) for text in texts)
        for key, texts in lists
    )


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise TargetInvalid(f"{path} is no list of functions", [("cause", str(error))]) from error


class _Names:
    """The values of names in conditions, of which definitions are computed when they are asked for."""

    def __init__(self, values: Values, let: Mapping[str, str], cores: int) -> None:
        self.values, self.let, self.cores = values, let, cores

    def value(self, text: str) -> Any:
        """The value of an expression."""
        return self._of(_parsed(text))

    def _of(self, tree: ast.expr) -> Any:
        match tree:
            case ast.Constant(int(number)):
                return number
            case ast.Name(name):
                return self.value(self.let[name]) if name in self.let else self.values[name]
            case ast.UnaryOp(ast.USub(), operand):
                return -self._of(operand)
            case ast.UnaryOp(ast.Not(), operand):
                return not self._of(operand)
            case ast.IfExp(test, then, other):
                return self._of(then if self._of(test) else other)
            case ast.BoolOp(ast.And(), parts):
                return all(self._of(part) for part in parts)
            case ast.BoolOp(ast.Or(), parts):
                return any(self._of(part) for part in parts)
            case ast.BinOp(left, kind, right) if type(kind) in _BINARY:
                return _BINARY[type(kind)](self._of(left), self._of(right))
            case ast.Compare(left, kinds, rest) if all(type(kind) in _BINARY for kind in kinds):
                items = [self._of(item) for item in (left, *rest)]
                return all(_BINARY[type(k)](a, b) for k, a, b in zip(kinds, items, items[1:], strict=False))
            case ast.Call(ast.Name("turns"), [pieces]):
                return -(-self._of(pieces) // self.cores)
        raise InternalError(f"{ast.unparse(tree)!r} is no condition")


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _names_in(path: Path, text: object) -> Iterator[str]:
    """The names of values in a condition; TargetInvalid where it is none. `turns` divides pieces among the cores."""
    refused = TargetInvalid(f"{path}: {text!r} is no condition")
    try:
        nodes = list(ast.walk(_parsed(str(text))))
    except SyntaxError as error:
        raise refused from error
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Call):
            is_turns = isinstance(node.func, ast.Name) and node.func.id == "turns"
            known = is_turns and len(node.args) == 1 and not node.keywords
        elif isinstance(node, ast.Constant):
            known = isinstance(node.value, int)
        else:
            known = isinstance(node, _FORMS)
        if not known:
            raise refused
        if isinstance(node, ast.Name) and id(node) not in functions:
            yield node.id
