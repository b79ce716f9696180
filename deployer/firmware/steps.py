"""Steps of a plan of one level as data: locations of operands and sizes of each step, for a function per kernel."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deployer.codegen.argument_tables import TablesView, argument_rows, macro_text, tables_views
from deployer.codegen.c_names import Names
from deployer.codegen.c_text import Printer, wrapped
from deployer.codegen.kernel_headers import C_TYPES
from deployer.codegen.step_comment import step_rows
from deployer.core.errors import InternalError
from deployer.core.ir import DTYPES
from deployer.core.kernel import Kernel
from deployer.core.plan import Plan
from deployer.core.safe_text import CText, c_comment, code, identifier
from deployer.expressions.tree import Expr, Var
from deployer.loops.leaves import Element, HomeExpr, SizeExpr
from deployer.loops.loop_program import Arguments, AssignStmt, Block, CallStmt, LoopProgram
from deployer.loops.lower import lower
from deployer.loops.tile_loop import FLAG, NUMBERS

ONCE = (1,)
"""A sequence of one: a template's loop over it prints its body once, over an empty one not at all."""
TRAIN = "train"
"""The name of the graph that trains."""
NOWHERE = "NOWHERE"
"""The place of an operand that a step does not have."""
TABLE = "_at"
"""Suffix of the name of a kernel's table."""
WORD = 4
"""Bytes of a word of a table, and of the pair of numbers of a step."""
MEMBERS = {"float32": "f32", "int32": "i32", "int8": "i8", "uint8": "u8"}
"""The views of a library's memory by element type."""


@dataclass(frozen=True)
class Accessor:
    """A function that makes an address of a place: its name, the element type, and the view.

    `element` is the type without const. `reads` is there where nobody writes by the address; constants have addresses
    by such functions alone. `index` is that of the place in words, `among` that of a place among the constants.
    """

    name: CText
    dtype: str
    element: CText
    type: CText
    member: CText
    reads: tuple[int, ...]
    index: CText
    among: CText


def _accessors() -> Iterator[Accessor]:
    for dtype, member in MEMBERS.items():
        element, index, among = code(C_TYPES[dtype]), index_text(dtype, "at"), index_text(dtype, "(at - FROZEN)")
        yield Accessor(code(f"{member}_at"), dtype, element, element, code(member), (), index, among)
        yield Accessor(code(f"{member}_in"), dtype, element, code(f"const {element}"), code(member), (1,), index, among)


def index_text(dtype: str, place: str) -> CText:
    """The C index in a view of the memory of a place that counts words."""
    each = WORD // DTYPES[dtype]
    return code(f"{each}u * {place}" if each > 1 else place.strip("()"))


ACCESSORS = tuple(_accessors())
"""All such functions, of which a library has those that it uses."""


@dataclass(frozen=True)
class FirmwareKernelView:
    """The function that calls a kernel.

    `places` are pointers, each with the function that makes an address of a place. `sizes` are constant scalars with
    their C types; steps with equal ones share one of the `rows`, which are there if there are sizes (`sized`). `given`
    are the parameters with their types: what a call says, as it is not the same in all passes.
    """

    symbol: CText
    places: tuple[tuple[CText, CText], ...]
    sizes: tuple[tuple[CText, CText], ...]
    given: tuple[tuple[CText, CText], ...]
    rows: tuple[CText, ...]

    @property
    def sized(self) -> tuple[int, ...]:
        """Present if the kernel has sizes."""
        return ONCE if self.sizes else ()

    @property
    def parameters(self) -> CText:
        """The declarations of the parameters, behind those that all such functions have."""
        return code("".join(f", {kind} {name}" for name, kind in self.given))


@dataclass(frozen=True)
class FirmwareGraphView:
    """Function that runs the `count` steps of a graph from number `first` on."""

    name: CText
    first: int
    count: int


@dataclass(frozen=True)
class StepsView:
    """All steps of a plan: the graph that may stop after each of its steps, the others; `bytes` of their tables.

    The `paced` graph is that of training, the plan's first; without one it has no steps. `rows` describe the steps.
    Each is a pair of numbers in the lines of `places`, those of its call among the `calls` and of its row in the
    kernel's table; `fresh` is there if a call asks whether the pass is the first of its update.
    """

    rows: tuple[CText, ...]
    kernels: tuple[FirmwareKernelView, ...]
    macros: tuple[CText, ...]
    tables: tuple[TablesView, ...]
    places: tuple[CText, ...]
    calls: tuple[tuple[int, CText], ...]
    fresh: tuple[CText, ...]
    paced: FirmwareGraphView
    graphs: tuple[FirmwareGraphView, ...]
    bytes: int


def steps_view(
    plan: Plan, homes: Names, places: Mapping[str, int], names: Mapping[str, str], frozen: bool
) -> StepsView:
    """The steps of a plan whose every step is one call.

    `homes` and `places` are the names and numbers of places by storage, `names` those of the graphs' functions.
    `frozen` says that some operands are constants.
    """
    printer = Printer(homes)
    programs = [lower(step) for step in plan.steps]
    given = _given(programs)
    sizes = {p.kernel.symbol: dict[str, int]() for p in programs}
    fields = [(p.step, p.kernel.symbol, _fields(p, given, sizes, printer)) for p in programs]
    macros, rows = argument_rows(fields, lambda value: _place(value, places), printer)
    calls: dict[str, int] = {}
    numbers, used = [], Counter[str]()
    for program in programs:
        symbol = program.kernel.symbol
        arguments = ["model", f"&{symbol}{TABLE}[row]", *_values(program, given[symbol], printer)]
        call = calls.setdefault(f"{symbol}_call({', '.join(arguments)});", len(calls))
        numbers.append(f"{{{call}, {used[symbol]}}}")
        used[symbol] += 1
    kernels = {program.kernel.symbol: program.kernel for program in programs}
    graphs = {graph: _graph(plan, graph, names) for graph in plan.graphs}
    paced = graphs.pop(TRAIN, FirmwareGraphView(code(""), 0, 0))
    views = [_kernel(kernels[symbol], given[symbol], frozen, sizes[symbol]) for symbol in sorted(kernels)]
    words = len(programs) + sum(len(row) for _, _, row in fields) + sum(len(k.sizes) * len(k.rows) for k in views)
    return StepsView(
        rows=tuple(map(c_comment, step_rows(plan.steps, {}))),
        kernels=tuple(views),
        macros=tuple(code(macro_text(name, text)) for name, text in macros.items()),
        tables=tables_views(programs, rows, TABLE),
        places=wrapped(numbers),
        calls=tuple((number, code(call)) for call, number in calls.items()),
        fresh=(code("fresh"),) if any("fresh" in call.split("(", 1)[1] for call in calls) else (),
        paced=paced,
        graphs=tuple(graphs.values()),
        bytes=WORD * words,
    )


def _graph(plan: Plan, graph: str, names: Mapping[str, str]) -> FirmwareGraphView:
    numbers = [step.index for step in plan.steps if step.graph == graph]
    return FirmwareGraphView(identifier(names[graph]), numbers[0], len(numbers))


def _place(value: Expr, places: Mapping[str, int]) -> tuple[str, int] | None:
    return ("", places[value.storage]) if isinstance(value, HomeExpr) else None


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


def _fields(
    program: LoopProgram, given: Mapping[str, Sequence[str]], sizes: Mapping[str, dict[str, int]], printer: Printer
) -> list[tuple[str, Expr]]:
    """The places of a step's operands, and the number of its sizes among those of its kernel, which it adds there."""
    fixed, symbol = dict(program.arguments), program.kernel.symbol
    places = [(name, fixed.get(name, Var(NOWHERE))) for name, _, _ in program.kernel.pointers]
    names = [name for name, _ in program.kernel.scalars if name not in given[symbol]]
    if not names:
        return places
    row = ", ".join(f".{name} = {printer.text(fixed[name])}" for name in names if name in fixed)
    return [*places, ("sizes", sizes[symbol].setdefault(row, len(sizes[symbol])))]


def _kernel(kernel: Kernel, given: Sequence[str], frozen: bool, sizes: Iterable[str]) -> FirmwareKernelView:
    scalars = [(identifier(name), code(C_TYPES[kind]), name in given) for name, kind in kernel.scalars]
    return FirmwareKernelView(
        identifier(kernel.symbol),
        tuple(
            (identifier(name), code(f"{MEMBERS[dtype]}_{'in' if frozen and not written else 'at'}"))
            for name, dtype, written in kernel.pointers
        ),
        tuple((name, kind) for name, kind, changes in scalars if not changes),
        tuple((name, kind) for name, kind, changes in scalars if changes),
        tuple(code("\n        ".join(wrapped(f"{{{row or '0'}}},".split(", ")))) for row in sizes),
    )
