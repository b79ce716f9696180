"""Argument tables in C: an array per kernel, with a row per step; steps that differ in addresses alone share a macro.

Such a row has numbers only, the step and the addresses of its operands, so equal layers add a line per step.
"""

import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deployer.codegen.c_names import MemoryNames, base_name
from deployer.codegen.c_text import WIDTH, Printer, TableAddress, group_name, wrapped
from deployer.core.plan import Plan, target_of
from deployer.core.safe_text import CText, c_comment, code, identifier
from deployer.expressions.tree import Expr, Number
from deployer.loops.leaves import HomeExpr, SlotExpr
from deployer.loops.loop_program import LoopProgram

LEAST_COMMON = 3
"""Fields that rows have at least where a macro is worth its line."""
LONGEST_REAL = 12
"""Characters of a real number that needs no name where several rows have it."""
INDENT = 8
"""Spaces before what continues a row."""
Fields = Sequence[tuple[str, Expr]]
AddressOf = Callable[[Expr], tuple[str, int] | None]
"""An address that a value is, if it is one alone: the macro of a memory, and bytes from its begin.

Without a macro it is the number alone.
"""


@dataclass(frozen=True)
class TablesView:
    """The argument tables of a kernel: an array of `count` rows, or a member of that name in the struct of a group."""

    kernel: CText
    name: CText
    count: int
    rows: tuple[CText, ...]


@dataclass(frozen=True)
class GroupView:
    """The argument tables of a group of steps; `short` is the name of their copy in the innermost level."""

    title: CText
    name: CText
    short: CText
    tables: tuple[TablesView, ...]


class Addresses:
    """Addresses of homes and slots as in the generated header."""

    def __init__(self, plan: Plan) -> None:
        memory = MemoryNames(plan, target_of(plan.options))
        self.places: dict[str | tuple[int, str, bool], tuple[str, int]] = {
            home.storage: (base_name(home.level), memory.address(home.level, home.offset)) for home in plan.homes
        }
        for step in plan.steps:
            for operand in step.operands:
                for number, (level, slots) in enumerate(zip(plan.levels, operand.places, strict=False)):
                    place = base_name(level.name), memory.address(level.name, slots.offset) if slots.count else 0
                    self.places[step.index, operand.arg, bool(number)] = place

    def of(self, value: Expr) -> tuple[str, int] | None:
        """An `AddressOf` of the plan."""
        match value:
            case HomeExpr(storage):
                return self.places[storage]
            case SlotExpr(step, arg, staged):
                return self.places[step, arg, staged]
        return None


class _Entry(NamedTuple):
    """A field of an argument table. Zeros of both signs are equal as values, not as texts."""

    name: str
    value: Expr
    text: str


class _Row(NamedTuple):
    """A table without its addresses: of each field its text, or the macro of its memory, and what rows differ in."""

    kernel: str
    fields: tuple[_Entry, ...]
    memories: tuple[str | None, ...]

    @property
    def sizes(self) -> list[_Entry]:
        """The fields that are no addresses."""
        return [entry for entry, memory in zip(self.fields, self.memories, strict=True) if memory is None]


def table_places(programs: Sequence[LoopProgram], spans: Sequence[range]) -> dict[int, TableAddress]:
    """The place of each step's table: among those of its kernel, in the order of the steps that have one.

    In groups, whose steps are the `spans`, it is that of the group's copy.
    """
    arrays = {step: f"{group_name(span.start).upper()}->" for span in spans for step in span}
    places, used = dict[int, TableAddress](), Counter[str]()
    for p in programs:
        if p.table == p.step:
            array = f"{arrays[p.step]}{p.kernel.symbol}" if spans else f"{p.kernel.symbol}_args"
            places[p.step] = TableAddress(array, used[array])
            used[array] += 1
    return {p.step: places[p.table] for p in programs}


def tables_views(
    holders: Sequence[LoopProgram], rows: Mapping[int, Sequence[str]], suffix: str = "_args"
) -> tuple[TablesView, ...]:
    """The tables of steps by kernels, from the lines of each step's row; `suffix` is what an array's name ends in."""
    kernels: dict[str, list[int]] = {}
    for p in holders:
        kernels.setdefault(p.kernel.symbol, []).append(p.step)
    return tuple(
        TablesView(
            identifier(kernel),
            identifier(f"{kernel}{suffix}"),
            len(steps),
            tuple(code(f"\n{' ' * INDENT}".join(rows[step]) + ",") for step in steps),
        )
        for kernel, steps in kernels.items()
    )


def group_view(span: range, holders: Sequence[LoopProgram], rows: Mapping[int, Sequence[str]]) -> GroupView:
    """The tables of a group, which its first step fetches."""
    title = c_comment(f"Argument tables of steps {span.start} to {span[-1]}; step {span.start} fetches them.")
    name = group_name(span.start)
    tables = tables_views([p for p in holders if p.step in span], rows, "")
    return GroupView(title, identifier(name), identifier(name.upper()), tables)


def argument_rows(
    holders: Sequence[tuple[int, str, Fields]], address_of: AddressOf, printer: Printer
) -> tuple[dict[str, str], dict[int, Sequence[str]]]:
    """Macros, and by steps the lines of a row of the kernel's array, from each step's number, kernel and fields.

    A macro is a row with parameters for its addresses, or a real number of which nobody sees that it is the same in
    two lines. Rows that no other equals name their fields, and addresses by the tensor's name.
    """
    shapes = {step: _row(kernel, fields, address_of, printer) for step, kernel, fields in holders}
    times = Counter(shapes.values())
    repeated = {row for row, count in times.items() if count > 1 and len(row.fields) >= LEAST_COMMON}
    labels = {row: f"STEP_{step:02d}" for step, row in reversed(shapes.items())}
    printed = [*repeated, *(row for row in shapes.values() if row not in repeated)]
    reals = Counter(entry for row in printed for entry in row.sizes if isinstance(entry.value, Number))
    names, macros = dict[_Entry, str](), dict[str, str]()
    for row, label in ((row, f"STEP_{step:02d}") for step, row in shapes.items()):
        for entry in row.sizes:
            if reals[entry] > 1 and entry not in names and len(entry.text) > LONGEST_REAL:
                names[entry] = f"{label}_{entry.name}".upper()
                macros[names[entry]] = entry.text

    def field(entry: _Entry, memory: str | None = None) -> str:
        text = _parameter(entry) if memory is not None else names.get(entry, entry.text)
        return f".{entry.name} = {f'{memory}({text})' if memory else text}"

    rows = dict[int, Sequence[str]]()
    for step, _, fields in holders:
        row = shapes[step]
        if row in repeated:
            places = [str(place[1]) for _, value in fields if (place := address_of(value))]
            rows[step] = [f"{labels[row]}({', '.join((str(step), *places))})"]
            moved = [
                _parameter(entry) for entry, memory in zip(row.fields, row.memories, strict=True) if memory is not None
            ]
            macro = f"{labels[row]}({', '.join(('STEP', *moved))})"
            macros[macro] = f"{{{', '.join(map(field, row.fields, row.memories))}}}"
            continue
        texts = [f".{name} = {printer.text(value)}" for name, value in fields if address_of(value)]
        texts += [field(entry) for entry in row.sizes]
        rows[step] = wrapped(f"/* {step} */ {{{', '.join(texts)}}}".split(", "), WIDTH - INDENT)
    return macros, rows


def _parameter(entry: _Entry) -> str:
    """A macro's parameter for an address, in capitals as no field's name is."""
    return f"{entry.name}_at".upper()


def _row(kernel: str, fields: Fields, address_of: AddressOf, printer: Printer) -> _Row:
    """The row of a step without its addresses."""
    places = [(name, value, address_of(value)) for name, value in fields]
    entries = (_Entry(name, 0, "") if at else _Entry(name, value, printer.text(value)) for name, value, at in places)
    return _Row(kernel, tuple(entries), tuple(at[0] if at else None for _, _, at in places))


def macro_text(name: str, text: str) -> str:
    """A definition, over several lines where it is long."""
    if len(f"#define {name} {text}") <= WIDTH:
        return f"#define {name} {text}"
    lines = textwrap.wrap(text.replace(" = ", "\0=\0"), WIDTH, break_long_words=False)
    return " \\\n    ".join([f"#define {name}", *(line.replace("\0", " ") for line in lines)])
