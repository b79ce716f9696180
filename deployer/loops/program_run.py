"""An interpreter of loop programs: it runs loops, transfers and waits of generated code on a clock, without data."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from deployer.core.cost import Clock
from deployer.core.errors import InternalError
from deployer.expressions.tree import Expr, Expression, Thunk, Var
from deployer.expressions.values import compiled
from deployer.loops.leaves import SizeExpr
from deployer.loops.loop_program import (
    Arguments,
    AssignEachStmt,
    AssignStmt,
    Block,
    CallEachStmt,
    CallStmt,
    Declare,
    Done,
    Fetch,
    IfStmt,
    Increase,
    Let,
    LoopStmt,
    Rotate,
    Set,
    StartStmt,
    Statement,
    Ticket,
    Tickets,
    Transfer,
    Wait,
    WaitAll,
)

Action = Callable[[], None]
Key = tuple[str, tuple[int, ...]]
"""The name and the index of a ticket: one without an index has 0."""
Running = tuple[int, int]
"""The hop of a transfer and the cycle at which it ends; 0 for nothing."""
NOTHING: Running = (0, 0)
UNTIMED = Arguments | AssignStmt | AssignEachStmt | Fetch
"""Statements whose cycles are part of the step's own."""


class ProgramRun:
    """Run of a program: `waits` are cycles lost to ingress and egress per tile, `moved` bytes by hop and direction.

    `kernels` are the cycles of each kernel call. `variables` are at first those that the program does not define, and
    `tickets`, by name and index, those of transfers that began before.
    """

    def __init__(self, clock: Clock, kernels: Sequence[int], variables: Mapping[str, int]) -> None:
        self.clock, self.kernels = clock, kernels
        self.waits = {direction: [0] * len(kernels) for direction in ("in", "out")}
        self.stage_wait = 0
        self.moved: dict[int, dict[str, int]] = defaultdict(lambda: {"in": 0, "out": 0})
        self.variables = dict(variables)
        self.tickets: dict[Key, Running] = {}
        self._calls = 0
        self._tile = 0

    def block(self, block: Block) -> None:
        """Run a program's body."""
        self._block(block.body)()

    def _block(self, body: Sequence[Statement]) -> Action:
        actions = [self._action(statement) for statement in body if not isinstance(statement, UNTIMED)]

        def run() -> None:
            for action in actions:
                action()

        return run

    def _action(self, statement: Statement) -> Action:
        """The function that runs a statement."""
        variables = self.variables
        match statement:
            case Block(body):
                return self._new_tile(self._block(body))
            case Declare(names, values):
                pairs = [(name, self._value(value)) for name, value in zip(names, values, strict=True)]
                return lambda: variables.update({name: value(variables) for name, value in pairs})
            case Tickets():
                return self._declared_tickets(statement)
            case Let(name, expression) | Set(Var(name), expression):
                return self._assignment(name, self._value(expression))
            case Increase(Var(name), by):
                step = self._value(by)
                return lambda: variables.update({name: variables[name] + step(variables)})
            case Rotate(Var(name), slots):
                return lambda: variables.update({name: (variables[name] + 1) % slots})
            case IfStmt(condition, body):
                return self._under(self._value(condition), self._block(body))
            case CallStmt() | CallEachStmt():
                return self._call
            case LoopStmt():
                return self._loop(statement)
            case _:
                return self._movement(statement)

    def _declared_tickets(self, statement: Tickets) -> Action:
        variables, tickets = self.variables, self.tickets
        none, first = dict[Key, Running](), dict[Key, Thunk]()
        for array in statement.arrays:
            for slot in range(array.slots):
                none |= {(array.name, array.index(slot, place)): NOTHING for place in range(len(array.first))}
            values = map(self._value, array.first)
            first |= {(array.name, array.index(0, place)): started for place, started in enumerate(values)}

        def declare() -> None:
            tickets.update(none)
            tickets.update({at: started(variables) for at, started in first.items()})

        return declare

    def _assignment(self, name: str, value: Thunk) -> Action:
        variables = self.variables

        def assign() -> None:
            variables[name] = value(variables)

        return assign

    def _under(self, condition: Thunk, action: Action) -> Action:
        variables = self.variables

        def run() -> None:
            if condition(variables):
                action()

        return run

    def _new_tile(self, action: Action) -> Action:
        def run() -> None:
            self._tile = self._calls
            action()

        return run

    def _call(self) -> None:
        self.clock.run(self.kernels[self._calls])
        self._calls += 1

    def _loop(self, loop: LoopStmt) -> Action:
        """The function that runs a loop; waits of `ahead` count for the tile that it prepares."""
        variables, name, count = self.variables, loop.counter.name, self._value(loop.count)
        ahead, body, late = self._block(loop.ahead), self._block(loop.body), bool(loop.ahead)

        def run() -> None:
            iterations, base = count(variables), self._calls
            for iteration in range(iterations + late):
                variables[name] = iteration
                if iteration < iterations:
                    self._tile = base + iteration
                    ahead()
                if iteration >= late:
                    self._tile = self._calls
                    body()
            self._tile = self._calls - 1

        return run

    def _movement(self, statement: Statement) -> Action:
        """The function that runs a transfer or a wait; a start counts as waiting if the same tile waits for it."""
        variables, tickets = self.variables, self.tickets
        match statement:
            case StartStmt(Ticket(name, direction, index), transfer):
                number, started, local = self._index(index), self._value(transfer), not index

                def start() -> None:
                    begin = self.clock.now
                    tickets[name, number()] = running = started(variables)
                    if local:
                        self._lost(running[0], direction, begin)

                return start
            case Wait(Transfer() as transfer):
                started = self._value(transfer)

                def move() -> None:
                    begin = self.clock.now
                    hop, end = started(variables)
                    self.clock.wait(hop, end)
                    self._lost(hop, transfer.direction, begin)

                return move
            case Wait(Ticket(name, direction, index)):
                return self._wait(name, direction, self._index(index))
            case WaitAll(Ticket(name, direction, index), count):
                return self._wait_all(name, direction, list(map(self._value, index)), count)
        raise InternalError(f"{type(statement).__name__} cannot be run")

    def _wait(self, name: str, direction: str, index: Callable[[], tuple[int, ...]]) -> Action:
        tickets = self.tickets

        def wait() -> None:
            begin, at = self.clock.now, (name, index())
            hop, end = tickets[at]
            self.clock.wait(hop, end)
            tickets[at] = NOTHING
            self._lost(hop, direction, begin)

        return wait

    def _wait_all(self, name: str, direction: str, indices: list[Thunk], count: int) -> Action:
        waits = [self._wait(name, direction, self._place(indices, place)) for place in range(count)]

        def wait_all() -> None:
            for wait in waits:
                wait()

        return wait_all

    def _place(self, indices: list[Thunk], place: int) -> Callable[[], tuple[int, ...]]:
        variables = self.variables
        return lambda: (*[value(variables) for value in indices], place)

    def _index(self, index: tuple[Expr, ...]) -> Callable[[], tuple[int, ...]]:
        """The index of a ticket among those of its name: 0 for one without an index."""
        variables, values = self.variables, list(map(self._value, index))
        return (lambda: tuple([value(variables) for value in values])) if values else lambda: (0,)

    def _lost(self, hop: int, direction: str, begin: int) -> None:
        """Count the cycles since `begin` as lost by the tile or, on an outer hop, by the stage."""
        if hop:
            self.stage_wait += self.clock.now - begin
        else:
            self.waits[direction][self._tile] += self.clock.now - begin

    def _value(self, expression: Expr) -> Thunk:
        """The function that computes a word, or starts a transfer and returns its hop and the cycle of its end."""
        return compiled(expression, self._leaf)

    def _leaf(self, value: Expression) -> Thunk:
        match value:
            case SizeExpr(number):
                return lambda _: number
            case Done():
                return lambda _: NOTHING
            case Ticket(name, _, index):
                place, tickets = self._index(index), self.tickets
                return lambda _: tickets[name, place()]
            case Transfer(direction, hop, _, _, sizes):
                run, *levels = map(self._value, sizes)
                counts, clock, moved = levels[::2], self.clock, self.moved[hop]

                def start(variables: Mapping[str, int]) -> Running:
                    lines = 1
                    for count in counts:
                        lines *= count(variables)
                    size = run(variables) * lines
                    moved[direction] += size
                    return hop, clock.start(hop, direction, size, lines)

                return start
        raise InternalError(f"{type(value).__name__} has no value")
