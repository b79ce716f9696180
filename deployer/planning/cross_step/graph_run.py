"""The timeline of a whole plan: the programs of its graphs run on one clock, as transfers go from step to step."""

from dataclasses import replace

from deployer.core.cost import Clock
from deployer.core.level import L_HOME, L_INNER
from deployer.core.plan import Plan, PlanStep, Timeline, target_of
from deployer.planning.cross_step.graph_program import GraphStep, Lowered, begin_cycles, contention_of, graph_program
from deployer.planning.loop_program import Block, Start, Ticket, Wait
from deployer.planning.program_run import Key, ProgramRun, Running
from deployer.planning.tile_loop import FLAG


def timed(plan: Plan, lowered: Lowered | None = None) -> Plan:
    """The plan with the cycles and waits that its steps have with its crossing transfers; `lowered` is for speed."""
    steps = [step for graph in plan.graphs for step in _GraphRun(plan, graph, lowered).timed()]
    return replace(plan, steps=tuple(steps))


class _GraphRun:
    """A run of one graph; a wait for an egress of an earlier step is the step's in which it is awaited."""

    def __init__(self, plan: Plan, graph: str, lowered: Lowered | None) -> None:
        self.plan, self.target = plan, target_of(plan.options)
        self.steps = graph_program(plan, graph, lowered).steps
        self.clock = Clock(self.target.hops)
        variables = {FLAG.name: int(plan.options.sole_pass)}
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

    def _start(self, start: Start) -> None:
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
