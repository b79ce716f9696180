"""Calls of functions that several steps share, as rows of numbers: a macro has the memories of the operands' addresses.

So equal layers add a short line per step, and the header needs no names for what they alone touch.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from deployer.codegen.argument_tables import AddressOf
from deployer.codegen.c_text import Printer
from deployer.codegen.call_loops import StepCall
from deployer.expressions.tree import Expr

LEAST_CALLS = 2
"""Calls of which a macro makes rows, at least: fewer are easier to read with names."""


class RowPrinter(Printer):
    """C text around such calls: begins of buffers that transfers have are places in memories, as they are in rows."""

    def __init__(self, named: Printer, address_of: AddressOf) -> None:
        super().__init__(named.names, named.types, named.tables)
        self.address_of = address_of

    def begin(self, address: Expr) -> str:
        """Begin of a transfer: the macro of a memory, and bytes, where it is a buffer's begin."""
        place = self.address_of(address)
        return f"{place[0]}({place[1]})" if place else self.text(address)


class _Form(NamedTuple):
    """Common parts of the calls that one macro makes: the function, its tables, and the memory of each address."""

    function: str
    array: str
    memories: tuple[str | None, ...]


def call_rows(
    calls: Sequence[StepCall], address_of: AddressOf
) -> tuple[tuple[tuple[str, str], ...], tuple[StepCall, ...]]:
    """Macros, their heads and texts, and the calls in the same order, by macros where these have enough rows."""
    forms = [_form(call, address_of) for call in calls]
    times = Counter(forms)
    names: dict[_Form, str] = {}
    macros: list[tuple[str, str]] = []
    rows = []
    for call, form in zip(calls, forms, strict=True):
        if form is None or times[form] < LEAST_CALLS:
            rows.append(call)
            continue
        if form not in names:
            names[form] = f"RUN_{call.step:02d}"
            macros.append(_macro(names[form], call, form))
        places = [address_of(value) if value else None for value in call.values]
        words = (str(at[1]) if at else text for at, text in zip(places, call.arguments, strict=True))
        rows.append(replace(call, macro=names[form], arguments=tuple(words)))
    return tuple(macros), tuple(rows)


def _form(call: StepCall, address_of: AddressOf) -> _Form | None:
    """The form of a call; None of a function that one step has for itself."""
    if not call.names or call.table is None:
        return None
    places = [address_of(value) if value else None for value in call.values]
    return _Form(call.function, call.table.array, tuple(at[0] if at else None for at in places))


def _macro(name: str, call: StepCall, form: _Form) -> tuple[str, str]:
    """The head of a macro with a parameter for each number, and the call that it makes."""
    pairs = zip(call.names, form.memories, strict=True)
    parameters = [(f"{word}_at" if memory else word).upper() for word, memory in pairs]
    words = [f"{memory}({x})" if memory else x for x, memory in zip(parameters, form.memories, strict=True)]
    step = ["STEP"] * call.numbered
    head = f"{name}({', '.join((*step, 'TABLE', *parameters))})"
    return head, f"{form.function}({', '.join((*step, f'&{form.array}[TABLE]', *words))})"
