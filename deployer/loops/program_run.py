"""An interpreter of loop programs: it runs loops, transfers and waits of generated code on a clock, without data."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from deployer.core.cost import Clock
from deployer.core.errors import InternalError
from deployer.loops.expr import (
    All,
    AtLeast,
    Choice,
    Clipped,
    Difference,
    EqualExpr,
    Expr,
    Least,
    NotExpr,
    Product,
    Quotient,
    Reached,
    SizeExpr,
    SumExpr,
    Var,
)
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

Value = Callable[[], int]
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
                return lambda: variables.update({name: value() for name, value in pairs})
            case Tickets():
                return self._declared_tickets(statement)
            case Let(name, expression) | Set(Var(name), expression):
                return self._assignment(name, self._value(expression))
            case Increase(Var(name), by):
                step = self._value(by)
                return lambda: variables.update({name: variables[name] + step()})
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
        tickets, none, first = self.tickets, dict[Key, Running](), dict[Key, Callable[[], Running]]()
        for array in statement.arrays:
            for slot in range(array.slots):
                none |= {(array.name, array.index(slot, place)): NOTHING for place in range(len(array.first))}
            values = map(self._started, array.first)
            first |= {(array.name, array.index(0, place)): started for place, started in enumerate(values)}

        def declare() -> None:
            tickets.update(none)
            tickets.update({at: started() for at, started in first.items()})

        return declare

    def _assignment(self, name: str, value: Value) -> Action:
        variables = self.variables

        def assign() -> None:
            variables[name] = value()

        return assign

    def _under(self, condition: Value, action: Action) -> Action:
        def run() -> None:
            if condition():
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
            iterations, base = count(), self._calls
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
        tickets = self.tickets
        match statement:
            case StartStmt(Ticket(name, direction, index), transfer):
                number, started, local = self._index(index), self._started(transfer), not index

                def start() -> None:
                    begin = self.clock.now
                    tickets[name, number()] = running = started()
                    if local:
                        self._lost(running[0], direction, begin)

                return start
            case Wait(Transfer() as transfer):
                started = self._started(transfer)

                def move() -> None:
                    begin = self.clock.now
                    hop, end = started()
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

    def _wait_all(self, name: str, direction: str, part: list[Value], count: int) -> Action:
        waits = [self._wait(name, direction, self._place(part, place)) for place in range(count)]

        def wait_all() -> None:
            for wait in waits:
                wait()

        return wait_all

    def _place(self, part: list[Value], place: int) -> Callable[[], tuple[int, ...]]:
        return lambda: (*[value() for value in part], place)

    def _index(self, index: tuple[Expr, ...]) -> Callable[[], tuple[int, ...]]:
        """The index of a ticket among those of its name: 0 for one without an index."""
        values = list(map(self._value, index))
        return (lambda: tuple([value() for value in values])) if values else lambda: (0,)

    def _lost(self, hop: int, direction: str, begin: int) -> None:
        """Count the cycles since `begin` as lost by the tile or, on an outer hop, by the stage."""
        if hop:
            self.stage_wait += self.clock.now - begin
        else:
            self.waits[direction][self._tile] += self.clock.now - begin

    def _started(self, value: Expr) -> Callable[[], Running]:
        """The function that starts a transfer, if there is one, and returns its hop and the cycle of its end."""
        match value:
            case Transfer(direction, hop, _, _, sizes):
                run, *levels = map(self._value, sizes)
                counts, clock, moved = levels[::2], self.clock, self.moved[hop]

                def start() -> Running:
                    lines = 1
                    for count in counts:
                        lines *= count()
                    size = run() * lines
                    moved[direction] += size
                    return hop, clock.start(hop, direction, size, lines)

                return start
            case Choice(condition, then, other):
                holds, one, two = self._value(condition), self._started(then), self._started(other)
                return lambda: one() if holds() else two()
            case Done():
                return lambda: NOTHING
            case Ticket(name, _, index):
                number, tickets = self._index(index), self.tickets
                return lambda: tickets[name, number()]
        raise InternalError(f"{type(value).__name__} starts no transfer")

    def _value(self, expression: Expr) -> Value:
        """The function that computes an expression."""
        variables = self.variables
        match expression:
            case int():
                return lambda: expression
            case SizeExpr(number, _):
                return lambda: number
            case Var(name):
                return lambda: variables[name]
            case SumExpr(terms):
                addends = list(map(self._value, terms))
                return lambda: sum([term() for term in addends])
            case Product(factors):
                return self._product(list(map(self._value, factors)))
            case All(terms):
                conditions = list(map(self._value, terms))
                return lambda: all([condition() for condition in conditions])
            case NotExpr(inner):
                operand = self._value(inner)
                return lambda: not operand()
            case Quotient(dividend, divisor):
                numerator = self._value(dividend)
                return lambda: -(-numerator() // divisor)
            case Clipped(index, before, extent):
                at, most = self._value(index), self._value(extent)
                return lambda: min(max(at() - before, 0), most())
            case Reached(index, reach, stride, extent):
                position = self._value(index)
                return lambda: min(max(-(-(position() - reach) // stride), 0), extent)
            case Choice(condition, then, other):
                holds, one, two = map(self._value, (condition, then, other))
                return lambda: one() if holds() else two()
            case _:
                return self._of_two(expression)

    def _product(self, factors: list[Value]) -> Value:
        def product() -> int:
            value = 1
            for factor in factors:
                value *= factor()
            return value

        return product

    def _of_two(self, expression: Expr) -> Value:
        """The function that computes an expression of two values."""
        match expression:
            case Difference((first, second)):
                a, b = self._value(first), self._value(second)
                return lambda: a() - b()
            case Least(first, second):
                a, b = self._value(first), self._value(second)
                return lambda: min(a(), b())
            case EqualExpr(first, second):
                a, b = self._value(first), self._value(second)
                return lambda: a() == b()
            case AtLeast(first, second):
                a, b = self._value(first), self._value(second)
                return lambda: a() >= b()
        raise InternalError(f"{type(expression).__name__} has no number")
