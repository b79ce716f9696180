"""Steps whose C differs in addresses and a few sizes share one function: equal blocks of a network are printed once."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from deployer.codegen.loop_views import SIZE, LoopView, StepView
from deployer.core.safe_text import CText, c_comment, code, identifier

ADDRESS = re.compile(r"\b(?:HOME|SLOT|STAGE)_\w+", re.ASCII)
HOLE = re.compile(r"@\w+", re.ASCII)
FLAG_PARAMETER = "lazy_reset"
LEAST_COMMON = 4
"""Fields that tables must have in common to be worth a macro."""
MOST_SIZES = 8
"""Sizes in which steps that share a function may differ: with more of them nobody reads the calls."""


@dataclass(frozen=True)
class FunctionView:
    """A C function that runs one or several steps."""

    title: CText
    name: CText
    parameters: CText
    step: CText
    loop: LoopView


class _Size(NamedTuple):
    """A named size of a shape: its value in each of the steps that share."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class _Shape:
    """A step with its addresses and sizes taken out: what is left, addresses with their parameters' names, sizes."""

    step: StepView
    loop: LoopView
    parameters: tuple[tuple[str, str], ...]
    addresses: tuple[str, ...]
    sizes: tuple[tuple[str, str], ...]


def functions_and_calls(steps: Sequence[StepView]) -> tuple[tuple[FunctionView, ...], tuple[str, ...]]:
    """The functions of a graph in the order of their first step, and a call per step."""
    alike: dict[tuple[str, LoopView, tuple[tuple[str, str], ...]], list[list[_Shape]]] = {}
    for shape in map(_shape, steps):
        groups = alike.setdefault((shape.step.kernel, shape.loop, shape.parameters), [])
        home = next((group for group in groups if len(_varying([*group, shape])) <= MOST_SIZES), None)
        if home is None:
            groups.append([shape])
        else:
            home.append(shape)
    functions: dict[int, FunctionView] = {}
    calls: dict[int, str] = {}
    for group in (group for groups in alike.values() for group in groups):
        function, called = _shared(group) if len(group) > 1 else _alone(group[0].step)
        functions[group[0].step.index] = function
        calls |= {shape.step.index: call for shape, call in zip(group, called, strict=True)}
    return tuple(functions[at] for at in sorted(functions)), tuple(calls[at] for at in sorted(calls))


def _alone(step: StepView) -> tuple[FunctionView, list[str]]:
    """The function of a single step, with everything inside."""
    name, flag = identifier(f"step_{step.index:02d}"), _flag(step)
    parameters = code(f"uint32_t {flag}" if flag else "void")
    loop = step.loop.mapped(lambda text: SIZE.sub(r"\1", text))
    title = c_comment(step.title)
    return FunctionView(title, name, parameters, code(str(step.index)), loop), [f"{name}({flag});"]


def _shared(group: Sequence[_Shape]) -> tuple[FunctionView, list[str]]:
    """The function of several steps: what they differ in are parameters."""
    first = group[0].step
    name, flag, sizes = identifier(f"step_{first.index:02d}_like"), _flag(first), _varying(group)
    declared = ["uint32_t step", f"{first.kernel}_args_t *args", *(f"{kind} *{n}" for n, kind in group[0].parameters)]
    declared += [f"uint32_t {n}" for n in (*sizes.values(), *filter(None, [flag]))]
    calls = []
    for at, shape in enumerate(group):
        given = [str(shape.step.index), f"&{shape.step.table}", *shape.addresses]
        given += [*(size.values[at] for size in sizes), *filter(None, [flag])]
        calls.append(f"{name}({', '.join(given)});")
    title = c_comment(f"{first.title} and {len(group) - 1} more like it")
    return FunctionView(title, name, code(", ".join(declared)), code("step"), _filled(group, sizes)), calls


def _varying(group: Sequence[_Shape]) -> dict[_Size, str]:
    """The sizes that differ between steps, with a parameter's name for each."""
    names: dict[_Size, str] = {}
    for size in _sizes(group):
        if len(set(size.values)) > 1 and size not in names:
            free = (size.name if n == 1 else f"{size.name}_{n}" for n in count(1))
            names[size] = next(n for n in free if n not in names.values())
    return names


def _sizes(group: Sequence[_Shape]) -> list[_Size]:
    """The sizes in the order of the text."""
    columns = zip(*(shape.sizes for shape in group), strict=True)
    return [_Size(column[0][0], tuple(value for _, value in column)) for column in columns]


def _filled(group: Sequence[_Shape], names: dict[_Size, str]) -> LoopView:
    """The loop of a group with each size in place: a parameter where it differs, else its value."""
    sizes = iter(_sizes(group))

    def filled(_: re.Match[str]) -> str:
        size = next(sizes)
        return names.get(size, size.values[0])

    return group[0].loop.mapped(lambda text: HOLE.sub(filled, text))


def _flag(step: StepView) -> str:
    """The flag's name where the step reads it."""
    return FLAG_PARAMETER if any(FLAG_PARAMETER in text for text in step.loop.texts) else ""


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
    """Parameters stand for addresses in the order in which the text mentions them, holes for sizes.

    The pointer to the argument table is a parameter of a shared function.
    """
    names = {address: (parameter, kind) for address, parameter, kind in step.addresses}
    found: dict[str, tuple[str, str]] = {}
    sizes: list[tuple[str, str]] = []

    def emptied(size: re.Match[str]) -> str:
        sizes.append((size[2], size[1]))
        return f"@{size[2]}"

    def renamed(text: str) -> str:
        for address in ADDRESS.findall(text):
            found.setdefault(address, names[address])
        text = ADDRESS.sub(lambda m: found[m[0]][0], text)
        return SIZE.sub(emptied, re.sub(rf"&{step.table}\b", "args", text))

    loop = _without_table(step.loop).mapped(renamed)
    return _Shape(step, loop, tuple(found.values()), tuple(found), tuple(sizes))


def _without_table(view: LoopView) -> LoopView:
    """The view without the definition of the pointer to the argument table."""
    body = _without_table(view.body) if isinstance(view.body, LoopView) else view.body
    return replace(view, body=body, variables=tuple(x for x in view.variables if " *args = " not in x))
