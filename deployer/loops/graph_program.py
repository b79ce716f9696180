"""Loop programs of whole graphs: steps in order, transfers across them, and their runs on the virtual clock.

Where a first fetch starts in an earlier step, the graph starts that of the same operand in all steps of equal form;
where a last egress is awaited in a later step, it waits for those of all. So these steps still share a function. A
step in which others' fetches start has its own started before them.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from deployer.core.cost import Clock
from deployer.core.level import L_HOME, L_INNER, CrossStepTransfer, followers
from deployer.core.plan import Plan, PlanStep, Timeline, target_of
from deployer.core.target import Target
from deployer.loops.loop_program import (
    ArgumentTable,
    AssignEachStmt,
    AssignStmt,
    Block,
    CallEachStmt,
    Direction,
    Fetch,
    LoopProgram,
    StartStmt,
    Ticket,
    Wait,
)
from deployer.loops.lower import lower
from deployer.loops.moves import copies
from deployer.loops.program_run import Key, ProgramRun, Running
from deployer.loops.tile_loop import FLAG
from deployer.tilers.levels.tables import fetch_cycles, fetched_bytes, fixed_addresses, sharers

TICKETS = "tickets"
"""The graph's array of the tickets that steps leave."""
ENDS = {"in": "first", "out": "last"}
"""Suffixes of the names of tickets of cross-step transfers."""

Moments = Mapping[tuple[int, str], int]
"""By step and name of the ticket, the other step of a cross-step transfer."""


@dataclass(frozen=True)
class GraphStep:
    """Step of a graph: transfers that start when it begins, tickets for its body, and transfers awaited at its end.

    A ticket is given by value, or where the body is to leave some, as the first element of an array for them. A graph
    that starts transfers tells (`told`) the HAL of each of its steps that it begins, and no function of a step does. A
    step that `follows` runs in the start of an earlier one, whose program calls the kernels of the whole fused launch.
    """

    program: LoopProgram
    told: bool = False
    starts: tuple[StartStmt, ...] = ()
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
        opened = frozenset(opens.get(structure_of(s), ()))
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
        begun[copy.start].append(StartStmt(ticket, copy.transfer))
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
    """The program of a fused launch, from its first step's and the functions that its steps call."""
    kernel, table, count = program.kernel.symbol, ArgumentTable(program.step), len(functions)
    nodes = list(program.body.walk())
    fetched = tuple(s for s in nodes if isinstance(s, Fetch))
    assigned = tuple(s for s in nodes if isinstance(s, AssignStmt))
    called = functions[:1] if len(set(functions)) == 1 else functions
    each = (AssignEachStmt(kernel, table, count, assigned),) if assigned else ()
    name = f"{program.name} and {count - 1} more, in one start of the cores"
    body = Block((*fetched, *each, CallEachStmt(program.step, tuple(called), kernel, table, count)))
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
    """By the forms of steps the transfers whose ends the graph handles."""
    opens: dict[Hashable, set[tuple[Direction, str]]] = {}
    for c in cross_step_transfers:
        opens.setdefault(structure_of(steps[c.step]), set()).add((c.direction, c.arg))
    for host in {c.at for c in cross_step_transfers if c.direction == "in"}:
        opens.setdefault(structure_of(steps[host]), set()).update(("in", o.arg) for o in steps[host].operands)
    return opens


def structure_of(step: PlanStep) -> Hashable:
    """Key of a step's loop structure, excluding sizes; steps with equal keys can share a C function."""
    split = tuple(d.name for d in step.dims if d.tile < d.outer)
    staging = step.staging
    staged_dims = [d.name for d in step.dims if d.outer < d.size]
    staged = tuple(name for name in staging.order if name in staged_dims) if staging else None
    stage = (staged, staging.buffering if staging and staged else "")
    # Of one whole tile, a step's program moves operands that have slots, and names no other.
    looped = split or staged
    slots = tuple((o.arg, o.slots, o.stage_slots) for o in step.operands if looped or o.slots)
    return step.function, split, step.buffering if split else "", stage, slots


def _begun(programs: Sequence[LoopProgram], moments: Moments) -> dict[int, list[StartStmt]]:
    """Return the transfers that start when each step begins: its own first fetches, then those of later steps."""
    begun: dict[int, list[StartStmt]] = {program.step: [] for program in programs}
    later: list[tuple[int, StartStmt]] = []
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


def _own_first(program: LoopProgram) -> tuple[tuple[str, StartStmt], ...]:
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


# The timeline of a whole plan: the programs of its graphs run on one clock, as transfers go from step to step.


def timed(plan: Plan, lowered: Lowered | None = None) -> Plan:
    """The plan with the cycles and waits that its steps have with its cross-step transfers; `lowered` is for speed."""
    steps = [step for graph in plan.graphs for step in _GraphRun(plan, graph, lowered).timed()]
    return replace(plan, steps=tuple(steps))


class _GraphRun:
    """A run of one graph; a wait for an egress of an earlier step is the step's in which it is awaited."""

    def __init__(self, plan: Plan, graph: str, lowered: Lowered | None) -> None:
        self.plan, self.target = plan, target_of(plan.options)
        self.steps = graph_program(plan, graph, lowered).steps
        self.clock = Clock(self.target.hops)
        variables = {FLAG.name: int(plan.options.updates_every_pass)}
        self.runs = {
            s.program.step: ProgramRun(self.clock, plan.steps[s.program.step].tile_cycles, variables)
            for s in self.steps
        }
        self.tickets: dict[Key, Running] = {}
        self.copied = ProgramRun(self.clock, (0,), variables)
        self.owner = {ticket.name: s.program.step for s in self.steps for _, ticket in s.given}
        self.begins = begin_cycles(plan, self.target)

    def timed(self) -> list[PlanStep]:
        """The steps with their cycles and waits."""
        began = [self._run(step) for step in self.steps]
        return [self._step(index, cycles) for index, cycles in began]

    def _run(self, step: GraphStep) -> tuple[int, int]:
        """Run a step; its index and its cycles."""
        index, clock = step.program.step, self.clock
        plan_step, run, begin = self.plan.steps[index], self.runs[index], clock.now
        clock.contention = contention_of(plan_step, self.target)
        clock.run(self.begins[index])
        for start in step.starts:
            self._start(start)
        run.tickets.update({(name, (0,)): self.tickets.pop((ticket.name, (0,))) for name, ticket in step.given})
        run.block(step.program.body)
        for name, count, ticket in step.left:
            base = _number(ticket)
            self.tickets.update({(ticket.name, (base + i,)): run.tickets[name, (i,)] for i in range(count)})
        for wait in step.waits:
            run.tickets[TAKEN] = self._taken(wait)
            run.block(Block((Wait(Ticket(TAKEN[0], "out", TAKEN[1])),)))
        return index, clock.now - begin

    def _start(self, start: StartStmt) -> None:
        if start.ticket.index:
            self.copied.block(Block((start,)))
            self.tickets.update(self.copied.tickets)
            self.copied.tickets.clear()
            return
        run = self.runs[self.owner[start.ticket.name]]
        run.block(Block((replace(start, ticket=replace(start.ticket, index=(0,))),)))
        self.tickets[start.ticket.name, (0,)] = run.tickets.pop((start.ticket.name, (0,)))

    def _taken(self, wait: Wait) -> Running:
        assert isinstance(wait.awaited, Ticket)
        return self.tickets.pop((wait.awaited.name, (_number(wait.awaited),)))

    def _step(self, index: int, cycles: int) -> PlanStep:
        """The step with what the run has shown."""
        step, run = self.plan.steps[index], self.runs[index]
        timeline = Timeline(tuple(run.waits["in"]), tuple(run.waits["out"]))
        staging = replace(step.staging, wait=run.stage_wait) if step.staging else None
        inner = run.moved[L_INNER]
        assert (inner["in"], inner["out"]) == (step.bytes_in, step.bytes_out), step.name
        assert not staging or run.moved[L_HOME] == {"in": staging.bytes_in, "out": staging.bytes_out}, step.name
        return replace(step, cycles=cycles, timeline=timeline, staging=staging)


TAKEN = ("taken", (0,))
"""The ticket under which a step waits for one that it did not start."""


def _number(ticket: Ticket) -> int:
    number = ticket.index[0]
    assert isinstance(number, int)
    return number
