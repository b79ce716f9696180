"""Steps whose C differs in addresses alone share one function: equal blocks of a network are printed once."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from deployer.loop_views import CallView, LoopView, StepView

ADDRESS = re.compile(r"\b(?:HOME|SLOT|STAGE)_\w+")
FLAG_PARAMETER = "lazy_reset"
LEAST_COMMON = 4
"""Fields that tables must have in common to be worth a macro."""


@dataclass(frozen=True)
class FunctionView:
    """A C function that runs one or several steps."""

    title: str
    name: str
    parameters: str
    step: str
    loop: LoopView


@dataclass(frozen=True)
class _Shape:
    """A step with its addresses taken out: what is left, and the addresses under their parameters' names and types."""

    loop: LoopView
    parameters: tuple[tuple[str, str], ...]
    addresses: tuple[str, ...]


def functions_and_calls(steps: Sequence[StepView]) -> tuple[tuple[FunctionView, ...], tuple[str, ...]]:
    """The functions of a graph in the order of their first step, and a call per step."""
    shapes = [_shape(step) for step in steps]
    groups: dict[tuple[str, LoopView, tuple[tuple[str, str], ...]], list[int]] = {}
    for at, (step, shape) in enumerate(zip(steps, shapes, strict=True)):
        groups.setdefault((step.kernel, shape.loop, shape.parameters), []).append(at)
    functions, calls = {}, {}
    for members in groups.values():
        first = steps[members[0]]
        name = f"step_{first.index:02d}"
        flag = FLAG_PARAMETER if _mentions(first.loop, FLAG_PARAMETER) else ""
        if len(members) == 1:
            parameters = f"uint32_t {flag}" if flag else "void"
            functions[members[0]] = FunctionView(first.title, name, parameters, str(first.index), first.loop)
            calls[members[0]] = f"{name}({flag});"
            continue
        shape = shapes[members[0]]
        declared = ["uint32_t step", f"{first.kernel}_args_t *args", *(f"{t} *{n}" for n, t in shape.parameters)]
        declared += [f"uint32_t {flag}"] if flag else []
        title = f"{first.title} and {len(members) - 1} steps like it"
        functions[members[0]] = FunctionView(title, f"{name}_like", ", ".join(declared), "step", shape.loop)
        for at in members:
            given = [str(steps[at].index), f"&{steps[at].table}", *shapes[at].addresses, *([flag] if flag else [])]
            calls[at] = f"{name}_like({', '.join(given)});"
    return tuple(functions[at] for at in sorted(functions)), tuple(calls[at] for at in sorted(calls))


def common_sizes(fields: Sequence[Sequence[str]], labels: Sequence[str]) -> tuple[dict[str, str], list[list[str]]]:
    """Macros for what argument tables have in common but their addresses, and the tables with the macros in place."""
    rest = [tuple(item for item in items if not ADDRESS.search(item)) for items in fields]
    first = {sizes: label for sizes, label in zip(reversed(rest), reversed(labels), strict=True)}
    count = Counter(rest)
    macros, shortened = {}, []
    for items, sizes in zip(fields, rest, strict=True):
        name = f"{first[sizes].upper()}_SIZES"
        if count[sizes] > 1 and len(sizes) >= LEAST_COMMON:
            macros[name] = ", ".join(sizes)
            shortened.append([*(item for item in items if item not in sizes), name])
        else:
            shortened.append(list(items))
    return macros, shortened


def _shape(step: StepView) -> _Shape:
    """Parameters stand for addresses in the order in which the text mentions them."""
    names = {address: (parameter, kind) for address, parameter, kind in step.addresses}
    found: dict[str, tuple[str, str]] = {}
    for text in step.loop.texts:
        for address in ADDRESS.findall(text):
            found.setdefault(address, names[address])

    def renamed(text: str) -> str:
        text = ADDRESS.sub(lambda m: found[m[0]][0], text)
        return re.sub(rf"&{step.table}\b", "args", text)

    return _Shape(_mapped(step.loop, renamed), tuple(found.values()), tuple(found))


def _mapped(view: LoopView, change: Callable[[str], str]) -> LoopView:
    """The view with all its lines changed; the pointer to the argument table is a parameter of a shared function."""
    changed: dict[str, Any] = {}
    for field in fields(view):
        value = getattr(view, field.name)
        if isinstance(value, tuple):
            changed[field.name] = tuple(change(x) for x in value if " *args = " not in x)
    body = view.body
    if isinstance(body, CallView):
        body = replace(body, table=change(body.table), arguments=tuple(map(change, body.arguments)))
    else:
        body = _mapped(body, change)
    return replace(view, body=body, **changed)


def _mentions(view: LoopView, word: str) -> bool:
    return any(word in text for text in view.texts)
