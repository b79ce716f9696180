"""Steps of a plan of one level as data: locations of operands and sizes of each step, for a function per kernel."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deployer.codegen.c_names import Names
from deployer.codegen.c_text import Printer, wrapped
from deployer.codegen.kernel_headers import C_TYPES
from deployer.core.errors import InternalError
from deployer.core.kernel import Kernel
from deployer.core.plan import Plan
from deployer.core.safe_text import CText, c_comment, code, identifier
from deployer.expressions.tree import Expr
from deployer.loops.leaves import Element, SizeExpr
from deployer.loops.loop_program import Arguments, AssignStmt, Block, CallStmt, LoopProgram
from deployer.loops.lower import lower
from deployer.loops.tile_loop import FLAG, NUMBERS

TRAIN = "train"
"""The name of the graph that trains."""
NOWHERE = "NOWHERE"
"""The place of an operand that a step does not have."""
MEMBERS = {"float32": "f32", "int32": "i32"}
"""The views of a library's memory by element type."""


@dataclass(frozen=True)
class Accessor:
    """A function that makes an address of a place: its name, the element type, and the view.

    `reads` is there where nobody writes by the address; constants have addresses by such functions alone.
    """

    name: CText
    type: CText
    member: CText
    reads: tuple[int, ...]


def _accessors() -> Iterator[Accessor]:
    for dtype, member in MEMBERS.items():
        yield Accessor(code(f"{member}_at"), code(C_TYPES[dtype]), code(member), ())
        yield Accessor(code(f"{member}_in"), code(f"const {C_TYPES[dtype]}"), code(member), (1,))


ACCESSORS = tuple(_accessors())
"""All such functions, of which a library has those that it uses."""


@dataclass(frozen=True)
class FirmwareKernelView:
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
class StepTableView:
    """The constants of a step: its kernel, the name of its table, and what stands in it."""

    title: CText
    kernel: CText
    name: CText
    fields: tuple[CText, ...]


@dataclass(frozen=True)
class FirmwareGraphView:
    """Function that runs a graph; `fresh` is set if a step asks whether the pass is the first of its update.

    `calls` are numbered from 0 on.
    """

    name: CText
    fresh: tuple[CText, ...]
    calls: tuple[tuple[int, CText], ...]


@dataclass(frozen=True)
class StepsView:
    """All steps of a plan: the graph that may stop after each of its steps, the others; `bytes` of their tables.

    The first is that of training; without it, it has no steps.
    """

    kernels: tuple[FirmwareKernelView, ...]
    tables: tuple[StepTableView, ...]
    paced: FirmwareGraphView
    graphs: tuple[FirmwareGraphView, ...]
    bytes: int


def steps_view(plan: Plan, homes: Names, names: Mapping[str, str], frozen: bool) -> StepsView:
    """The steps of a plan whose every step is one call; `homes` and `names` are those of places, and of its graphs'
    functions.

    `frozen` says that some operands are constants.
    """
    printer = Printer(homes)
    programs = [lower(step) for step in plan.steps]
    given = _given(programs)
    tables = tuple(_table(p, given[p.kernel.symbol], printer) for p in programs)
    calls: dict[str, list[str]] = {graph: [] for graph in plan.graphs}
    for step, program in zip(plan.steps, programs, strict=True):
        words = ["model", f"&{_name(program)}", *_values(program, given[step.kernel.symbol], printer)]
        calls[step.graph].append(f"{step.kernel.symbol}_call({', '.join(words)});")
    kernels = {program.kernel.symbol: program.kernel for program in programs}
    paced = _graph(names[TRAIN], calls.pop(TRAIN)) if TRAIN in calls else FirmwareGraphView(code(""), (), ())
    graphs = [_graph(names[graph], lines) for graph, lines in calls.items()]
    return StepsView(
        kernels=tuple(_kernel(kernels[symbol], given[symbol], frozen) for symbol in sorted(kernels)),
        tables=tables,
        paced=paced,
        graphs=tuple(graphs),
        bytes=sum(4 * (len(p.kernel.pointers) + len(p.kernel.scalars) - len(given[p.kernel.symbol])) for p in programs),
    )


def _given(programs: Sequence[LoopProgram]) -> dict[str, tuple[str, ...]]:
    """By kernels the scalars that are not the same in all passes, in some step that calls it."""
    changing: dict[str, set[str]] = {program.kernel.symbol: set() for program in programs}
    for program in programs:
        changing[program.kernel.symbol].update(name for name, _ in _assigned(program.body))
    kernels = {program.kernel.symbol: program.kernel for program in programs}
    given = {symbol: tuple(n for n, _ in kernel.scalars if n in changing[symbol]) for symbol, kernel in kernels.items()}
    for symbol, names in given.items():
        if changing[symbol] - set(names):
            raise InternalError(f"{symbol}: addresses change within the step")
    return given


def _values(program: LoopProgram, given: Sequence[str], printer: Printer) -> list[str]:
    """The C of what a call says of its step."""
    fixed, own = dict(program.arguments), dict(_assigned(program.body))
    return [_changing(own[name]) if name in own else printer.text(fixed.get(name, 0)) for name in given]


def _assigned(body: Block) -> Iterator[tuple[str, Expr]]:
    """The arguments that the program assigns before its only call; InternalError for anything else in it."""
    for statement in body.body:
        match statement:
            case Block():
                yield from _assigned(statement)
            case AssignStmt(argument, value):
                yield argument, value
            case Arguments() | CallStmt():
                pass
            case _:
                raise InternalError(f"a step of one level has a {type(statement).__name__}")


def _changing(value: Expr) -> str:
    """The C of an argument that changes from pass to pass."""
    if value == FLAG:
        return "fresh"
    if isinstance(value, Element) and value.array == NUMBERS and isinstance(value.index, int | SizeExpr):
        return f"model->numbers[{value.index if isinstance(value.index, int) else value.index.value}]"
    raise InternalError(f"argument {value} of a step of one level is not known before it runs")


def _name(program: LoopProgram) -> str:
    return f"step_{program.step:02d}"


def _table(program: LoopProgram, given: Sequence[str], printer: Printer) -> StepTableView:
    fixed = dict(program.arguments)
    fields = [
        f".{name} = {printer.text(fixed[name]) if name in fixed else NOWHERE}" for name, _, _ in program.kernel.pointers
    ]
    fields += [
        f".{name} = {printer.text(fixed[name])}"
        for name, _ in program.kernel.scalars
        if name in fixed and name not in given
    ]
    return StepTableView(
        c_comment(program.title), identifier(program.kernel.symbol), identifier(_name(program)), wrapped(fields)
    )


def _kernel(kernel: Kernel, given: Sequence[str], frozen: bool) -> FirmwareKernelView:
    scalars = [(identifier(name), code(C_TYPES[kind]), name in given) for name, kind in kernel.scalars]
    return FirmwareKernelView(
        identifier(kernel.symbol),
        tuple(
            (identifier(name), code(f"{MEMBERS[dtype]}_{'in' if frozen and not written else 'at'}"))
            for name, dtype, written in kernel.pointers
        ),
        tuple((name, kind) for name, kind, changes in scalars if not changes),
        tuple((name, kind) for name, kind, changes in scalars if changes),
    )


def _graph(name: str, calls: Sequence[str]) -> FirmwareGraphView:
    asks = any("fresh" in call.split("(", 1)[1] for call in calls)
    return FirmwareGraphView(identifier(name), (code("fresh"),) if asks else (), tuple(enumerate(map(code, calls))))
