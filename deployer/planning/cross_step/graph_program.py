"""A graph as a program: its steps in order, with the transfers that it starts and waits for around them.

Where a first fetch starts in an earlier step, the graph starts that of the same operand in all steps of equal form;
where a last egress is awaited in a later step, it waits for those of all. So these steps still share a function. A step
in which others' fetches start has its own started before them.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from deployer.core.level import CrossStepTransfer, followers
from deployer.core.plan import Plan, PlanStep, target_of
from deployer.core.target import Target
from deployer.planning.cross_step.copies import copies
from deployer.planning.loop_program import (
    Assign,
    AssignEach,
    Block,
    CallEach,
    Direction,
    Fetch,
    LoopProgram,
    Start,
    Table,
    Ticket,
    Wait,
)
from deployer.planning.lower import lower
from deployer.tilers.levels.tables import fetch_cycles, fetched_bytes, fixed_addresses, sharers

TICKETS = "tickets"
"""The graph's array of the tickets that steps leave."""
ENDS = {"in": "first", "out": "last"}
"""The ends of the names of tickets that cross steps."""

Moments = Mapping[tuple[int, str], int]
"""By step and name of the ticket, the other step of a transfer that crosses."""


@dataclass(frozen=True)
class GraphStep:
    """Step of a graph: transfers that start when it begins, tickets for its body, and transfers awaited at its end.

    A ticket is given by value, or where the body is to leave some, as the first element of an array for them. A graph
    that starts transfers tells (`told`) the HAL of each of its steps that it begins, and no function of a step does. A
    step that `follows` runs in the start of an earlier one, whose program calls the kernels of their whole bundle.
    """

    program: LoopProgram
    told: bool = False
    starts: tuple[Start, ...] = ()
    given: tuple[tuple[str, Ticket], ...] = ()
    left: tuple[tuple[str, int, Ticket], ...] = ()
    waits: tuple[Wait, ...] = ()
    follows: bool = False


@dataclass(frozen=True)
class GraphProgram:
    """The steps of a graph in order, and the length of the array of tickets that they leave."""

    steps: tuple[GraphStep, ...]
    tickets: int


Lowered = dict[Hashable, LoopProgram]
"""Programs of steps by what their cycles depend on, which is no name and no address."""


def graph_program(plan: Plan, graph: str, lowered: Lowered | None = None) -> GraphProgram:
    """The program of one graph of a plan.

    With `lowered` it is for the clock alone: names, addresses and tables are those of any step with the same cycles.
    """
    steps = [step for step in plan.steps if step.graph == graph]
    fetched, sharing = fetched_bytes(plan.groups, plan.steps, target_of(plan.options)), sharers(plan.tables)
    own = [c for c in plan.cross_step_transfers if plan.steps[c.step].graph == graph]
    moved = [c for c in copies(plan) if plan.steps[c.start].graph == graph]
    opens, told = _opens(plan.steps, own), bool(moved) or any(c.direction == "in" for c in own)
    programs = []
    for s in steps:
        opened = frozenset(opens.get(form_of(s), ()))
        if lowered is None:
            programs.append(lower(s, fetched.get(s.index, 0), sharing.get(s.index), opened))
            continue
        key = _timing(s), opened
        if key not in lowered:
            lowered[key] = lower(s, opens=opened)
        programs.append(replace(lowered[key], step=s.index))
    # A ticket is named after its operand and, where that comes through a stage, the stage.
    moments = {(c.step, f"{c.arg}{stage}_{ENDS[c.direction]}"): c.at for c in own for stage in ("", "_stage")}
    begun = _begun(programs, moments)
    numbers = _Numbers()
    left, ended = _left(programs, moments, numbers)
    for copy in moved:
        ticket = Ticket(TICKETS, copy.direction, (numbers.taken(1, copy.start, copy.end),))
        begun[copy.start].append(Start(ticket, copy.transfer))
        ended[copy.end].append(Wait(ticket))
    output, following = [], followers(plan.fused_launches)
    firsts = {launch.first: [plan.steps[at].function for at in launch.steps] for launch in plan.fused_launches}
    for step, program in zip(steps, programs, strict=True):
        if step.index in following:
            output.append(GraphStep(program, follows=True))
            continue
        if step.index in firsts:
            program = _launched_together(program, firsts[step.index])
        given = tuple((name, start.ticket) for name, start in _own_first(program))
        starts, waits = begun[program.step], ended[program.step]
        output.append(GraphStep(program, told, tuple(starts), given, tuple(left[program.step]), tuple(waits)))
    return GraphProgram(tuple(output), numbers.count)


def _timing(step: PlanStep) -> Hashable:
    """Equal for steps whose programs take equal cycles on the clock, beside those of kernels."""
    operands = tuple(
        (o.arg, o.mode, o.view, o.axes, o.overwrite_on_first_pass, o.slots, o.stage_slots) for o in step.operands
    )
    staging = step.staging and (step.staging.order, step.staging.buffering)
    return step.kernel, tuple(sorted(step.args.items())), step.dims, step.buffering, operands, staging


def _launched_together(program: LoopProgram, functions: Sequence[str]) -> LoopProgram:
    """The program of a bundle's first step as that of all, which call these: each has the same to assign."""
    kernel, table, count = program.kernel.symbol, Table(program.step), len(functions)
    nodes = list(program.body.walk())
    fetched = tuple(s for s in nodes if isinstance(s, Fetch))
    assigned = tuple(s for s in nodes if isinstance(s, Assign))
    called = functions[:1] if len(set(functions)) == 1 else functions
    each = (AssignEach(kernel, table, count, assigned),) if assigned else ()
    name = f"{program.name} and {count - 1} more, in one start of the cores"
    body = Block((*fetched, *each, CallEach(program.step, tuple(called), kernel, table, count)))
    return replace(program, name=name, body=body)


def contention_of(step: PlanStep, target: Target) -> int:
    """Thousandths by which the bytes of a step's transfers are slower."""
    return target.contention if step.buffering == "double" else 0


def begin_cycles(plan: Plan, target: Target) -> tuple[int, ...]:
    """By step the cycles before its own transfers and kernels: its code, tables that it fetches, addresses that it
    sets, and first fetches of later steps and copies, which are code that no cache holds. A step in another's start
    has none.
    """
    fetched, sharing = fetched_bytes(plan.groups, plan.steps, target), sharers(plan.tables)
    hosted, following = (
        Counter(c.at for c in plan.cross_step_transfers if c.direction == "in"),
        followers(plan.fused_launches),
    )
    hosted.update(copy.start for copy in copies(plan))

    def cycles(step: PlanStep) -> int:
        tables = fetch_cycles(fetched.get(step.index, 0), target, contention_of(step, target))
        addresses = target.arg_patch * fixed_addresses(step) if step.index in sharing else 0
        return target.step + tables + addresses + hosted[step.index] * target.prefetch_issue

    return tuple(0 if step.index in following else cycles(step) for step in plan.steps)


def _opens(
    steps: Sequence[PlanStep], cross_step_transfers: Sequence[CrossStepTransfer]
) -> dict[Hashable, set[tuple[Direction, str]]]:
    """By the forms of steps the transfers in which the graph has a part."""
    opens: dict[Hashable, set[tuple[Direction, str]]] = {}
    for c in cross_step_transfers:
        opens.setdefault(form_of(steps[c.step]), set()).add((c.direction, c.arg))
    for host in {c.at for c in cross_step_transfers if c.direction == "in"}:
        opens.setdefault(form_of(steps[host]), set()).update(("in", o.arg) for o in steps[host].operands)
    return opens


def form_of(step: PlanStep) -> Hashable:
    """Equal for all steps that may share a function: what of a step its loops depend on, but for sizes."""
    split = tuple(d.name for d in step.dims if d.tile < d.outer)
    staging = step.staging
    parts = [d.name for d in step.dims if d.outer < d.size]
    staged = tuple(name for name in staging.order if name in parts) if staging else None
    stage = (staged, staging.buffering if staging and staged else "")
    # Of one whole tile, a step's program moves operands that have slots, and names no other.
    looped = split or staged
    slots = tuple((o.arg, o.slots, o.stage_slots) for o in step.operands if looped or o.slots)
    return step.function, split, step.buffering if split else "", stage, slots


def _begun(programs: Sequence[LoopProgram], moments: Moments) -> dict[int, list[Start]]:
    """Return the transfers that start when each step begins: its own first fetches, then those of later steps."""
    begun: dict[int, list[Start]] = {program.step: [] for program in programs}
    later: list[tuple[int, Start]] = []
    for program in programs:
        for name, start in _own_first(program):
            at = moments.get((program.step, name), program.step)
            if at == program.step:
                begun[at].append(start)
            else:
                later.append((at, start))
    for at, start in later:
        begun[at].append(start)
    return begun


def _left(
    programs: Sequence[LoopProgram], moments: Moments, numbers: "_Numbers"
) -> tuple[dict[int, list[tuple[str, int, Ticket]]], dict[int, list[Wait]]]:
    """The tickets that steps leave, which take numbers, and what is awaited when a step ends."""
    left = dict[int, list[tuple[str, int, Ticket]]]()
    ended: dict[int, list[Wait]] = {program.step: [] for program in programs}
    for program in programs:
        left[program.step] = []
        for name, count in program.lasts:
            until = moments.get((program.step, name), program.step)
            base = numbers.taken(count, program.step, until)
            left[program.step].append((name, count, Ticket(TICKETS, "out", (base,))))
            ended[until] += [Wait(Ticket(TICKETS, "out", (base + i,))) for i in range(count)]
    return left, ended


def _own_first(program: LoopProgram) -> tuple[tuple[str, Start], ...]:
    """The first fetches of a step: the names that their tickets have in it, and starts of tickets whose names no other
    step has: "x_12" of the operand x of step 12.
    """
    names = [start.ticket.name for start in program.starts]
    ending = f"_{ENDS['in']}"
    own = [f"{name.removesuffix(ending)}_{program.step:02d}" for name in names]
    starts = [
        replace(start, ticket=replace(start.ticket, name=new)) for start, new in zip(program.starts, own, strict=True)
    ]
    return tuple(zip(names, starts, strict=True))


class _Numbers:
    """Elements of an array, each taken from a step to a later one, several times if need be."""

    def __init__(self) -> None:
        self.spans: list[list[tuple[int, int]]] = []

    @property
    def count(self) -> int:
        """The length of the array."""
        return len(self.spans)

    def taken(self, count: int, first: int, last: int) -> int:
        """The first of so many neighbours that are free from step `first` to step `last`, in which they are taken."""
        free = [all(last < begin or end < first for begin, end in spans) for spans in self.spans] + [True] * count
        base = next(i for i in range(len(self.spans) + 1) if all(free[i : i + count]))
        self.spans += [[] for _ in range(base + count - len(self.spans))]
        for spans in self.spans[base : base + count]:
            spans.append((first, last))
        return base
