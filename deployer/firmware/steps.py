"""The steps of a plan of one level as data: where each one's operands lie, and its sizes, for a function per kernel."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deployer.codegen.c_names import Names
from deployer.codegen.c_text import Printer, wrapped
from deployer.codegen.kernel_headers import C_TYPES
from deployer.core.errors import InternalError
from deployer.core.operator import Kernel
from deployer.core.plan import Plan
from deployer.core.safe_text import CText, c_comment, code, identifier
from deployer.planning.expr import Element, Expr, Size
from deployer.planning.loop_program import Arguments, Assign, Block, Call, LoopProgram
from deployer.planning.lower import lower
from deployer.planning.tile_loop import FLAG, NUMBERS

NOWHERE = "NOWHERE"
"""The place of an operand that a step does not have."""
MEMBERS = {"float32": "f32", "int32": "i32"}
"""The views of a library's memory by element type."""


@dataclass(frozen=True)
class KernelView:
    """The function that calls a kernel.

    `places` are pointers, each with the function that makes an address of a place, `sizes` the scalars in the table
    with their C types, `given` the parameters with theirs: what a call says, as it is not the same in all passes.
    """

    symbol: CText
    places: tuple[tuple[CText, CText], ...]
    sizes: tuple[tuple[CText, CText], ...]
    given: tuple[tuple[CText, CText], ...]

    @property
    def parameters(self) -> CText:
        """The declarations of the parameters, behind those that all such functions have."""
        return code("".join(f", {kind} {name}" for name, kind in self.given))


@dataclass(frozen=True)
class TableView:
    """The constants of a step: its kernel, the name of its table, and what stands in it."""

    title: CText
    kernel: CText
    name: CText
    fields: tuple[CText, ...]


@dataclass(frozen=True)
class GraphView:
    """A function that runs a graph; `fresh` is there where a step asks whether the pass is the first of its update."""

    name: CText
    fresh: tuple[CText, ...]
    calls: tuple[CText, ...]


@dataclass(frozen=True)
class StepsView:
    """All steps of a plan; `bytes` is what their tables take."""

    kernels: tuple[KernelView, ...]
    tables: tuple[TableView, ...]
    graphs: tuple[GraphView, ...]
    bytes: int


def steps_view(plan: Plan, names: Mapping[str, str]) -> StepsView:
    """The steps of a plan whose every step is one call; `names` are those of its graphs' functions."""
    printer = Printer(Names(plan))
    programs = [lower(step) for step in plan.steps]
    varying = {program.step: dict(_assigned(program.body)) for program in programs}
    kernels = {program.kernel.symbol: program.kernel for program in programs}
    given: dict[str, tuple[str, ...]] = {}
    for symbol, kernel in kernels.items():
        changing = {name for p in programs if p.kernel.symbol == symbol for name in varying[p.step]}
        given[symbol] = tuple(name for name, _ in kernel.scalars if name in changing)
        if changing - set(given[symbol]):
            raise InternalError(f"{symbol}: addresses change within the step")
    tables = tuple(_table(p, given[p.kernel.symbol], printer) for p in programs)
    calls: dict[str, list[str]] = {graph: [] for graph in plan.graphs}
    for step, program in zip(plan.steps, programs, strict=True):
        fixed, own = dict(program.arguments), varying[program.step]
        values = [_given(own[n]) if n in own else printer.text(fixed.get(n, 0)) for n in given[step.kernel.symbol]]
        words = ["model", f"&{_name(program)}", *values]
        calls[step.graph].append(f"run_{step.kernel.symbol}({', '.join(words)});")
    return StepsView(
        kernels=tuple(_kernel(kernels[symbol], given[symbol]) for symbol in sorted(kernels)),
        tables=tables,
        graphs=tuple(_graph(names[graph], lines) for graph, lines in calls.items()),
        bytes=sum(4 * (len(p.kernel.pointers) + len(p.kernel.scalars) - len(given[p.kernel.symbol])) for p in programs),
    )


def _assigned(body: Block) -> Iterator[tuple[str, Expr]]:
    """The arguments that the program assigns before its only call; InternalError for anything else in it."""
    for statement in body.body:
        match statement:
            case Block():
                yield from _assigned(statement)
            case Assign(argument, value):
                yield argument, value
            case Arguments() | Call():
                pass
            case _:
                raise InternalError(f"a step of one level has a {type(statement).__name__}")


def _given(value: Expr) -> str:
    """The C of an argument that changes from pass to pass."""
    if value == FLAG:
        return "fresh"
    if isinstance(value, Element) and value.array == NUMBERS and isinstance(value.index, int | Size):
        return f"model->numbers[{value.index if isinstance(value.index, int) else value.index.value}]"
    raise InternalError(f"argument {value} of a step of one level is not known before it runs")


def _name(program: LoopProgram) -> str:
    return f"step_{program.step:02d}"


def _table(program: LoopProgram, given: Sequence[str], printer: Printer) -> TableView:
    fixed = dict(program.arguments)
    fields = [
        f".{name} = {printer.text(fixed[name]) if name in fixed else NOWHERE}" for name, _, _ in program.kernel.pointers
    ]
    fields += [
        f".{name} = {printer.text(fixed[name])}"
        for name, _ in program.kernel.scalars
        if name in fixed and name not in given
    ]
    return TableView(
        c_comment(program.title), identifier(program.kernel.symbol), identifier(_name(program)), wrapped(fields)
    )


def _kernel(kernel: Kernel, given: Sequence[str]) -> KernelView:
    scalars = [(identifier(name), code(C_TYPES[kind]), name in given) for name, kind in kernel.scalars]
    return KernelView(
        identifier(kernel.symbol),
        tuple((identifier(name), code(f"{MEMBERS[dtype]}_at")) for name, dtype, _ in kernel.pointers),
        tuple((name, kind) for name, kind, changes in scalars if not changes),
        tuple((name, kind) for name, kind, changes in scalars if changes),
    )


def _graph(name: str, calls: Sequence[str]) -> GraphView:
    asks = any("fresh" in call.split("(", 1)[1] for call in calls)
    return GraphView(identifier(name), (code("fresh"),) if asks else (), tuple(map(code, calls)))
