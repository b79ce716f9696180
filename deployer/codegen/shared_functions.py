"""Functions of steps: steps that differ in addresses and a few sizes share one, so equal blocks are printed once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple, TypeVar

from deployer.codegen.c_text import Printer, TileView
from deployer.codegen.call_loops import StepCall
from deployer.codegen.kernel_headers import C_TYPES
from deployer.core.ir import DTYPES
from deployer.core.safe_text import CText, c_comment, code, identifier
from deployer.expressions.tree import Expression, Tree, Var, variables
from deployer.expressions.words import word
from deployer.loops.graph_program import GraphStep
from deployer.loops.leaves import HomeExpr, SizeExpr, SlotExpr
from deployer.loops.loop_program import (
    Arguments,
    ArgumentTable,
    Block,
    Fetch,
    Group,
    GroupSize,
    HeldArgument,
    IfStmt,
    Increase,
    Let,
    LoopProgram,
    LoopStmt,
    Rotate,
    Set,
    StartStmt,
    Statement,
    Transfer,
    Wait,
)
from deployer.loops.tile_loop import FLAG

T = TypeVar("T", bound=Tree)
ADDRESSES = (HomeExpr, SlotExpr, Group, GroupSize)
"""Nodes that differ between steps of one shape; each is a parameter of a shared function."""
WORD = DTYPES["float32"]
"""Bytes of an element whose size in bytes needs no parameter beside its number."""
MOST_SIZES = 8
"""Most sizes in which steps that share a function may differ, so that calls stay readable."""


@dataclass(frozen=True)
class FunctionView:
    """C function that runs one or several steps; `steps` is reported to the HAL, unless the graph reports it."""

    title: CText
    name: CText
    parameters: CText
    steps: tuple[CText, ...]
    body: tuple[TileView, ...]


@dataclass(frozen=True)
class _Hole(Expression):
    """A placeholder for a size: its position among all sizes of the program, and its name."""

    place: int
    name: str


class _Size(NamedTuple):
    """A size with a name, and its values in the steps that share a function."""

    name: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class _Shape:
    """A step without its addresses and sizes: `body` has parameters for the former and holes for the latter.

    `parameters` are (name, C type and what follows it) of each of the `addresses`, and `order` are the positions of the
    `sizes`; all three are in the order of the function's parameters.
    """

    step: GraphStep
    program: LoopProgram
    body: Block
    parameters: tuple[tuple[str, str], ...]
    addresses: tuple[Expression, ...]
    sizes: tuple[SizeExpr, ...]
    order: tuple[int, ...]


def functions_and_calls(
    steps: Sequence[GraphStep], printer: Printer
) -> tuple[tuple[FunctionView, ...], tuple[StepCall, ...]]:
    """The functions of a graph in the order of their first step, and a call per step."""
    shapes: dict[tuple[str, Block, tuple[tuple[str, str], ...]], list[list[_Shape]]] = {}
    for shape in map(_shape, steps):
        groups = shapes.setdefault((shape.program.kernel.symbol, shape.body, shape.parameters), [])
        partners = next((group for group in groups if len(_parameters(_varying([*group, shape]))) <= MOST_SIZES), None)
        if partners is None:
            groups.append([shape])
        else:
            partners.append(shape)
    functions: dict[int, FunctionView] = {}
    calls: dict[int, StepCall] = {}
    for group in (group for groups in shapes.values() for group in groups):
        function, group_calls = _shared(group, printer) if len(group) > 1 else _alone(group[0].step, printer)
        functions[group[0].program.step] = function
        calls |= {shape.program.step: call for shape, call in zip(group, group_calls, strict=True)}
    return tuple(functions[at] for at in sorted(functions)), tuple(calls[at] for at in sorted(calls))


def _alone(step: GraphStep, printer: Printer) -> tuple[FunctionView, list[StepCall]]:
    """The function of a single step, which has no parameters but tickets and the flag, and its call."""
    program = step.program
    name, flag = identifier(f"step_{program.step:02d}"), _flag(program)
    parameters = [*_ticket_parameters(step), *([f"uint32_t {flag}"] if flag else [])]
    arguments = [*_ticket_arguments(step, printer), *filter(None, [flag])]
    body = tuple(map(printer.view, program.body.body))
    number = () if step.told else (code(str(program.step)),)
    view = FunctionView(c_comment(program.title), name, code(", ".join(parameters) or "void"), number, body)
    return view, [StepCall(name, program.step, False, None, tuple(arguments))]


def _ticket_parameters(step: GraphStep) -> list[str]:
    """The parameters for the tickets that the graph gives to a step, and for those that it leaves to the graph."""
    return [f"hal_ticket_t {name}" for name, _ in step.given] + [f"hal_ticket_t *{name}" for name, _, _ in step.left]


def _ticket_arguments(step: GraphStep, printer: Printer) -> list[str]:
    """The arguments for these parameters."""
    left = [f"{ticket.name} + {printer.text(ticket.index[0])}" for _, _, ticket in step.left]
    return [printer.text(ticket) for _, ticket in step.given] + left


def _shared(group: Sequence[_Shape], printer: Printer) -> tuple[FunctionView, list[StepCall]]:
    """The function of several steps, with a parameter for each difference, and the call of each step."""
    first = group[0].program
    name, flag, sizes = identifier(f"step_{first.step:02d}_like"), _flag(first), _varying(group)
    told = group[0].step.told
    declared = [*([] if told else ["uint32_t step"]), f"{first.kernel.symbol}_args_t *args"]
    declared += _ticket_parameters(group[0].step)
    declared += [f"{kind}{n}" for n, kind in group[0].parameters]
    parameters = _parameters(sizes)
    declared += [f"uint32_t {n}" for n in (*parameters, *filter(None, [flag]))]
    names = tuple(text.split()[-1].lstrip("*") for text in declared[2 - told :])
    calls = []
    for at, shape in enumerate(group):
        program = shape.program
        tickets = _ticket_arguments(shape.step, printer)
        arguments = [*tickets, *map(printer.text, shape.addresses)]
        arguments += [*(str(size.values[at]) for size in parameters.values()), *filter(None, [flag])]
        values = (*[None] * len(tickets), *shape.addresses, *[None] * (len(arguments) - len(tickets)))[: len(arguments)]
        table = printer.tables[program.table]
        calls.append(StepCall(name, program.step, not told, table, tuple(arguments), names, values))
    title = c_comment(f"{first.operator}, {len(group)} steps")
    body = tuple(map(printer.view, _filled(group, sizes).body))
    return FunctionView(title, name, code(", ".join(declared)), () if told else (code("step"),), body), calls


def _varying(group: Sequence[_Shape]) -> dict[_Size, Expression]:
    """The sizes that differ between steps, in the order of the parameters, as expressions of parameters.

    Sizes of one kind that are the same in each step, such as the bytes of two operands, are one parameter with the
    first one's name; bytes of as many elements as a slot has are that many elements times four.
    """
    found: dict[_Size, Expression] = {}
    kinds: dict[tuple[str, tuple[int, ...]], Var] = {}
    sizes = _sizes(group)
    for size in (sizes[place] for place in group[0].order):
        if len(set(size.values)) == 1 or size in found:
            continue
        kind = size.name.rpartition("_")[2]
        elements = kinds.get(("size", tuple(value // WORD for value in size.values)))
        if (kind, size.values) in kinds:
            found[size] = kinds[kind, size.values]
        elif kind == "bytes" and elements and not any(value % WORD for value in size.values):
            found[size] = word("mul", elements, WORD)
        else:
            names = {node.name for node in kinds.values()}
            free = (size.name if n == 1 else f"{size.name}_{n}" for n in count(1))
            found[size] = kinds[kind, size.values] = Var(next(n for n in free if n not in names))
    return found


def _parameters(sizes: dict[_Size, Expression]) -> dict[str, _Size]:
    """The parameters for these sizes, and the size behind each."""
    parameters = dict[str, _Size]()
    for size, value in sizes.items():
        if isinstance(value, Var):
            parameters.setdefault(value.name, size)
    return parameters


def _sizes(group: Sequence[_Shape]) -> list[_Size]:
    """The sizes of a group, by their positions."""
    columns = zip(*(shape.sizes for shape in group), strict=True)
    return [_Size(column[0].name, tuple(size.value for size in column)) for column in columns]


def _filled(group: Sequence[_Shape], varying: dict[_Size, Expression]) -> Block:
    """The body of a group with each hole filled: with parameters if the size differs, else with its value."""
    sizes = _sizes(group)

    def filled(tree: Tree) -> Tree:
        if isinstance(tree, _Hole):
            size = sizes[tree.place]
            return varying.get(size, SizeExpr(size.values[0], size.name))
        return tree.mapped(filled)

    return group[0].body.mapped(filled)


def _flag(program: LoopProgram) -> str:
    """The name of the lazy-reset flag if the step reads it, else an empty text."""
    return FLAG.name if FLAG.name in variables(program.body) else ""


def _shape(step: GraphStep) -> _Shape:
    """The shape of a step; references to its argument table become the parameter `args`, from which slots are read that
    it holds for the whole step.
    """
    program = step.program
    written = {name: writes for name, _, writes in program.kernel.pointers}
    held = {
        value: HeldArgument(name, not written[name]) for name, value in program.arguments if isinstance(value, SlotExpr)
    }
    kinds = {name: kind for name, kind, _ in program.kernel.pointers}
    types = {name: f"{C_TYPES[kind]} *" for name, kind in kinds.items()}
    names: dict[Expression, tuple[str, str]] = {}
    for arg, storage in program.storages:
        names[HomeExpr(storage, kinds[arg])] = f"{arg}_home", types[arg]
        names[SlotExpr(program.step, arg, False)] = f"{arg}_slot", types[arg]
        names[SlotExpr(program.step, arg, True)] = f"{arg}_stage", types[arg]
    for node in program.body.walk():
        if isinstance(node, Fetch):
            names |= {node.tables: ("tables", "const void *"), node.size: ("tables_bytes", "uint32_t ")}
    sizes: list[SizeExpr] = []

    def numbered(tree: Tree) -> Tree:
        if isinstance(tree, SizeExpr):
            sizes.append(tree)
            return _Hole(len(sizes) - 1, tree.name)
        return tree.mapped(numbered)

    def renamed(tree: Tree) -> Tree:
        if isinstance(tree, SlotExpr) and tree in held:
            return held[tree]
        if isinstance(tree, ADDRESSES):
            return Var(names[tree][0])
        return Var("args") if isinstance(tree, ArgumentTable) else tree.mapped(renamed)

    holed = _without_arguments(program.body).mapped(numbered)
    mentioned = list(_mentions(holed))
    addresses = tuple(dict.fromkeys(node for node in mentioned if isinstance(node, ADDRESSES) and node not in held))
    order = tuple(node.place for node in mentioned if isinstance(node, _Hole))
    parameters = tuple(names[address] for address in addresses)
    return _Shape(step, program, holed.mapped(renamed), parameters, addresses, tuple(sizes), order)


def _without_arguments(tree: T) -> T:
    """The tree without declarations of the argument table's short name, which is a parameter of shared functions."""
    result = tree.mapped(_without_arguments)
    if isinstance(result, Block):
        return replace(result, body=tuple(s for s in result.body if not isinstance(s, Arguments)))
    return result


def _mentions(statement: Tree) -> Iterator[Tree]:
    """The nodes of a statement in the order of the function's parameters.

    For a loop these are its count, then ingress, egress, slot rotations, advances, lengths, and last its inner loops.
    """
    if not isinstance(statement, (LoopStmt, Block)):
        yield from statement.walk()
        return
    ahead: tuple[Statement, ...] = ()
    if isinstance(statement, LoopStmt):
        ahead = statement.ahead
        yield from statement.count.walk() if isinstance(statement.count, Tree) else ()
    for entry, _ in sorted([*((s, False) for s in statement.body), *((s, True) for s in ahead)], key=_rank):
        yield from _mentions(entry)


def _rank(entry: tuple[Statement, bool]) -> int:
    statement, ahead = entry
    match statement:
        case IfStmt(_, body):
            return min(_rank((inner, ahead)) for inner in body)
        case StartStmt() | Wait(Transfer()):
            out = any(isinstance(node, Transfer) and node.direction == "out" for node in statement.walk())
            return 1 if out else 0
        case Rotate():
            return 2
        case Increase() | Set():
            return 4 if ahead else 3
        case Let():
            return 6 if ahead else 5
        case Block() | LoopStmt():
            return 7
    return 0
