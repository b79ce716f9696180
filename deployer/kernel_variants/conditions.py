"""Kernel variants of a target, besides the general function of each kernel.

A target's `kernels/SYMBOL/variants.toml` lists them in the order in which they are tried, with conditions on the
kernel's arguments: `requires` makes a variant valid for a call, `profitable_if` selects it. `work` names one of the
`cost_models` of the kernel's work split; the default is the work of the general function. The C source is the file of
the variant's name beside the list, or made from the entry's `code`; its function is named after the kernel and the
variant. `general` is the code of the kernel's general function, in place of a file `kernels/SYMBOL.c`. A folder of
portable kernels may have `kernels.toml`, with the code of kernels by name in place of their files.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from deployer.core.files.reading import read_toml
from deployer.core.operator import registry
from deployer.core.packages import kernel_folders
from deployer.core.safe_text import is_identifier
from deployer.core.target import TARGETS_DIR, Target, TargetInvalid
from deployer.expressions.parse import NotAnExpression, parse
from deployer.expressions.tree import Expr, Expression, Thunk, Var, variables
from deployer.expressions.values import compiled
from deployer.expressions.words import word
from deployer.kernel_variants.instances import Instance, absent, instance_of, is_headers
from deployer.operators.base.work_split import splits_of

Values = Mapping[str, float]
"""The arguments of a call by name: scalars, and of each pointer whether there is one."""
LIST = "variants.toml"
FOLDER_LIST = "kernels.toml"
LET = "let"
"""Table of definitions that conditions share."""
LIKE = "like"
"""Key that refers to the list of another kernel."""
CONDITIONS, WORK, CODE = ("requires", "profitable_if"), "work", "code"
"""The keys of an entry."""
GENERAL, INCLUDE = "general", "include"
"""Keys of a list: the code of the general function, and the headers in front of each body."""


@dataclass(frozen=True)
class Cores(Expression):
    """The number of cores that a call's work is split over."""


class Condition:
    """An expression over arguments of a kernel and the number of cores. Equal texts over equal names share it."""

    def __init__(self, text: str, let: Mapping[str, str]) -> None:
        self.text, self.tree = text, _parsed(text, lambda name: _defined(name, let))
        self.names = frozenset(variables(self.tree))
        self._of_cores: dict[int, Thunk] = {}

    def on(self, cores: int) -> Thunk:
        """The condition as a function of the arguments: planning asks many of them for many tiles."""
        if cores not in self._of_cores:
            self._of_cores[cores] = compiled(self.tree, lambda _: lambda _: cores)
        return self._of_cores[cores]

    def holds(self, values: Values, cores: int) -> bool:
        """Whether it holds for a call; KeyError where an argument is missing."""
        return bool(self.on(cores)(values))


def _rounds(pieces: Expr) -> Expr:
    """The rounds in which cores take pieces: their number by that of the cores, rounded up."""
    return word("neg", word("div", word("neg", pieces), Cores()))


def _parsed(text: str, name: Callable[[str], Expr]) -> Expr:
    return parse(text, name, {"rounds": _rounds})


def _defined(name: str, let: Mapping[str, str]) -> Expr:
    return _parsed(let[name], lambda other: _defined(other, let)) if name in let else Var(name)


Met = Callable[[Condition], Iterator[bool]]
"""Whether a condition holds for each call of a step, as far as it tells calls apart; for the first call first."""


@dataclass(frozen=True)
class KernelVariant:
    """Kernel variant; `requires` and `profitable_if` are conditions over `names` and the definitions of `let`.

    `work` names its cost model; empty for the operator's default. `source` is its C file, unless
    that is made from `code`.
    """

    name: str
    source: Path
    requires: tuple[str, ...]
    profitable_if: tuple[str, ...]
    let: Mapping[str, str]
    names: frozenset[str]
    work: str = ""
    code: Instance | None = None

    @cached_property
    def _requires(self) -> tuple[Condition, ...]:
        return _conditions(self.requires, self.let)

    @cached_property
    def _profitable_if(self) -> tuple[Condition, ...]:
        return _conditions(self.profitable_if, self.let)

    @cached_property
    def conditions(self) -> tuple[tuple[Condition, bool], ...]:
        """All conditions, in the order in which they are tried; `requires` is asked of each call, the rest of one."""
        return (*((c, False) for c in self._profitable_if), *((c, True) for c in self._requires))

    def broken(self, values: Values, cores: int) -> str:
        """Return the first condition of `requires` that a call does not meet; empty if it meets all."""
        try:
            return next((c.text for c in self._requires if not c.holds(values, cores)), "")
        except KeyError as missing:
            raise self._unknown(missing) from missing

    def suits(self, met: Met) -> bool:
        """Whether it is profitable for the first call of a step, and valid for each."""
        return all(self.meets(met, condition, each) for condition, each in self.conditions)

    def meets(self, met: Met, condition: Condition, each: bool) -> bool:
        """Whether one of its conditions holds for the first call of a step, or for `each`."""
        try:
            return all(met(condition)) if each else next(met(condition))
        except KeyError as missing:
            raise self._unknown(missing) from missing

    def _unknown(self, name: KeyError) -> TargetInvalid:
        cause = f"{self.name} reads {name}, which may differ between calls of equal tiles, or is not an argument"
        return TargetInvalid(f"{self.source.with_name(LIST)}: {cause}")


def _conditions(texts: Sequence[str], let: Mapping[str, str]) -> tuple[Condition, ...]:
    return tuple(_condition(text, tuple(let.items())) for text in texts)


@cache
def _condition(text: str, let: tuple[tuple[str, str], ...]) -> Condition:
    return Condition(text, dict(let))


def variants_of(symbol: str, target: Target) -> tuple[KernelVariant, ...]:
    """The kernel variants of a target, in the order in which they are tried."""
    return _listed(symbol, target.toolchain.sources) if target.toolchain else ()


def costed_of(symbol: str, target: Target) -> tuple[KernelVariant, ...]:
    """The kernel variants that the target's costs apply to: its own, or those of the target that it inherits from."""
    return _listed(symbol, target.cost_sources)


def chosen(among: Sequence[KernelVariant], met: Met) -> KernelVariant | None:
    """Return the first that is valid for each call of a step and profitable for the first call; None if none is."""
    return next((variant for variant in among if variant.suits(met)), None)


@cache
def _listed(symbol: str, sources: tuple[str, ...]) -> tuple[KernelVariant, ...]:
    folders = [TARGETS_DIR / source / "kernels" / symbol for source in sources]
    folders += [f / Path(source).name / symbol for f in kernel_folders().values() for source in sources]
    found = [variant for folder in folders if folder.is_dir() for variant in read_list(folder / LIST)]
    return tuple(found)


def general_of(path: Path) -> Instance | None:
    """The code of the general function that the list at a path has; None where there is no list, or it has none."""
    if not path.is_file():
        return None
    table, file = _read(path), path.parent.parent / f"{path.parent.name}.c"
    return None if table.general is None else _code(path, GENERAL, table.general, table, file)


@cache
def listed_kernels(folder: Path) -> Mapping[str, Instance]:
    """Code of the kernels that the list of a folder has, by symbol; TargetInvalid for a wrong one."""
    path = folder / FOLDER_LIST
    found: dict[str, Instance] = {}
    for symbol, data in (_table(path) if path.is_file() else {}).items():
        code = instance_of(data, [f"{symbol}.h"])
        if isinstance(code, str) or not is_identifier(symbol):
            raise TargetInvalid(f"{path}: {symbol} is wrong: {code if isinstance(code, str) else 'no name of C'}")
        missing = absent(code, (TARGETS_DIR / "common" / "include",), f"{symbol}.h")
        if missing:
            raise TargetInvalid(f"{path}: {symbol} includes {missing}, which is no header of all targets")
        found[symbol] = code
    return found


def read_list(path: Path) -> Iterator[KernelVariant]:
    """Read the variants of the kernel that the folder is named after; TargetInvalid for an invalid list."""
    kernel, among = _kernel(path.parent.name), list(_entries(path))
    names = {variant.name for variant in among}
    for name in sorted({source.stem for source in path.parent.glob("*.c")} - names):
        raise TargetInvalid(f"{path} has no entry for {name}.c beside it")
    general_of(path)
    for variant in among:
        if variant.code is None and not variant.source.is_file():
            cause = f"{variant.name} has no C file {variant.source.name} beside it, and no {CODE}"
            raise TargetInvalid(f"{path}: {cause}")
        unknown = sorted(variant.names - kernel.arguments)
        if unknown:
            cause = f"{variant.name} reads {unknown[0]}, which is not an argument of the kernel"
            raise TargetInvalid(f"{path}: {cause}")
        if variant.work and variant.work not in kernel.cost_models:
            known = ", ".join(sorted(kernel.cost_models)) or "none"
            cause = f"{variant.name} has the cost model {variant.work}; the kernel's are {known}"
            raise TargetInvalid(f"{path}: {cause}")
        yield variant


def _check_headers(path: Path, name: str, code: Instance) -> None:
    """Raise TargetInvalid for a header that is neither generated, nor common, nor in the HAL beside the list."""
    symbol, near = path.parent.name, path.parent.parent
    folders = (near.parent, TARGETS_DIR / near.name, TARGETS_DIR / "common" / "include")
    missing = absent(code, folders, f"{symbol}.h")
    if missing:
        cause = f"{CODE} of {name} includes {missing}, which is no header of the target"
        looked = [("looked in", "\n".join(str(folder) for folder in dict.fromkeys(folders) if folder.is_dir()))]
        raise TargetInvalid(f"{path}: {cause}", looked, f"a header beside the HAL, or a file {symbol}/{name}.c")


@dataclass(frozen=True)
class _Kernel:
    """Names that a kernel's conditions may use, and the cost models of its work splits."""

    arguments: frozenset[str]
    cost_models: frozenset[str]


def _kernel(symbol: str) -> _Kernel:
    operators = [(op, op.kernel) for op in registry().values() if op.kernel and op.kernel.symbol == symbol]
    arguments = [name for _, kernel in operators for name, _, _ in kernel.pointers]
    arguments += [name for _, kernel in operators for name, _ in kernel.scalars]
    return _Kernel(frozenset(arguments), frozenset(name for split in splits_of(symbol) for name in split.cost_models))


@dataclass(frozen=True)
class _Table:
    """Entries of a list, or those of the list that it refers to, with its own headers."""

    entries: Mapping[str, Any]
    let: Mapping[str, str]
    general: Any
    include: list[str]
    refers: bool


def _read(path: Path) -> _Table:
    """The list at a path; TargetInvalid where it is none."""
    own = table = _table(path)
    if LIKE in own:
        if {*own} - {LIKE, INCLUDE}:
            others = ", ".join(sorted(set(own) - {LIKE, INCLUDE}))
            raise TargetInvalid(f"{path}: {LIKE} excludes other keys but {INCLUDE}, here {others}")
        table = _table(path.parent.parent / str(own[LIKE]) / LIST)
    let, general = table.pop(LET, {}), table.pop(GENERAL, None)
    include = own.get(INCLUDE, table.get(INCLUDE, []))
    table.pop(INCLUDE, None)
    if not isinstance(let, dict):
        raise TargetInvalid(f"{path}: {LET} is not a table of names and expressions")
    if not is_headers(include):
        raise TargetInvalid(f"{path}: {INCLUDE} is {include!r}, and not a list of headers without folders")
    return _Table(table, let, general, include, LIKE in own)


def _code(path: Path, name: str, data: Any, table: _Table, file: Path) -> Instance | None:
    """Code of a function in a list; None if a list with `like` replaces it by a C file.

    TargetInvalid where it is none, or where one list has code for a function with a file.
    """
    code = instance_of(data, table.include)
    if isinstance(code, str):
        raise TargetInvalid(f"{path}: {CODE} of {name} is wrong: {code}")
    if file.is_file() and not table.refers:
        raise TargetInvalid(f"{path}: {name} has {CODE}, and a C file {file.name}", hint="remove one of them")
    if file.is_file():
        return None
    _check_headers(path, name, code)
    return code


def _entries(path: Path) -> Iterator[KernelVariant]:
    table = _read(path)
    let = table.let
    asked: dict[str, frozenset[str]] = {}
    for name, text in let.items():
        used = _names_in(path, f"{LET}.{name}", text)
        later = used & set(let) - set(asked)
        if later:
            raise TargetInvalid(f"{path}: {LET}.{name} reads {min(later)}, which is defined later")
        asked[name] = frozenset[str]().union(*(asked.get(other, {other}) for other in used))
    for name, entry in table.entries.items():
        if not (is_identifier(name) and _is_entry(entry)):
            raise TargetInvalid(
                f"{path}: {name} is not a variant: it needs lists of conditions, `requires` and `profitable_if`, and"
                " may name its cost model as `work` and have `code`"
            )
        requires, profitable_if = (tuple(entry.get(key, ())) for key in CONDITIONS)
        used = frozenset[str]().union(*(_names_in(path, name, text) for text in (*requires, *profitable_if)))
        names = frozenset[str]().union(*(asked.get(other, {other}) for other in used))
        file = path.with_name(f"{name}.c")
        code = _code(path, name, entry[CODE], table, file) if CODE in entry else None
        yield KernelVariant(name, file, requires, profitable_if, let, names, entry.get(WORK, ""), code)


def _is_entry(entry: object) -> bool:
    """Whether an entry of a list has lists of conditions, optionally a cost model and code, and nothing else."""
    if not isinstance(entry, dict) or not isinstance(entry.get(WORK, ""), str):
        return False
    lists = {key: texts for key, texts in entry.items() if key not in (WORK, CODE)}
    return all(
        key in CONDITIONS and isinstance(texts, list) and all(isinstance(text, str) for text in texts)
        for key, texts in lists.items()
    )


def _table(path: Path) -> dict[str, Any]:
    return read_toml(path, "a list of kernel variants, such as those of the deployer's targets", TargetInvalid)


def _names_in(path: Path, entry: str, text: object) -> frozenset[str]:
    """The names that a condition reads; TargetInvalid where it is none."""
    try:
        return frozenset(variables(_parsed(str(text), Var)))
    except NotAnExpression as error:
        raise TargetInvalid(f"{path}: {text!r} of {entry} is not a condition") from error
