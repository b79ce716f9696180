"""Record of the right program: transfers and kernel calls of each execution of a step."""

from dataclasses import dataclass, field
from pathlib import Path

Place = tuple[int, int]
"""Level and byte offset in its array; level -1 is none."""


@dataclass(frozen=True)
class Move:
    """A transfer: the operand's region in its step, source and destination, and the box that the HAL gets."""

    region: int
    inward: int
    hop: int
    inner: Place
    outer: Place
    run: int
    count: int
    stride: int
    planes: int
    pitch: int
    form: int


@dataclass(frozen=True)
class Call:
    """A kernel call: the kernel's number and each field of its arguments, a place or the bits of a scalar."""

    kernel: int
    values: tuple[Place | int, ...]


@dataclass
class Execution:
    """One execution of a step; `moves` may start in an earlier step, `tables` are bytes of tables that it fetches."""

    moves: list[Move] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)


@dataclass
class Census:
    """The events of one run. `reads` holds place, bytes and file offset, `writes` place and bytes."""

    executions: dict[int, list[Execution]] = field(default_factory=dict)
    reads: list[tuple[Place, int, int]] = field(default_factory=list)
    writes: list[tuple[Place, int]] = field(default_factory=list)

    def moves(self, step: int) -> dict[tuple[int, int], list[Move]]:
        """By region and direction, the transfers of the execution that has most of them."""
        moves_by_key: dict[tuple[int, int], list[Move]] = {}
        for execution in self.executions[step]:
            of: dict[tuple[int, int], list[Move]] = {}
            for move in execution.moves:
                of.setdefault((move.region, move.inward), []).append(move)
            for key, moves in of.items():
                if len(moves) > len(moves_by_key.get(key, ())):
                    moves_by_key[key] = moves
        return moves_by_key

    def tables(self, step: int) -> list[int]:
        """The bytes of the argument tables that its first execution fetches: of none, or of one group."""
        return self.executions[step][0].tables

    def calls(self, step: int) -> list[Call]:
        """The kernel calls of its first execution."""
        return self.executions[step][0].calls


def read(path: Path, kinds: dict[int, str]) -> Census:
    """Parse a census; `kinds` has a letter per argument field of each step, p for a pointer."""
    census, current, step = Census(), Execution(), -1
    early: dict[int, list[Move]] = {}
    for line in path.read_text().splitlines():
        word, *rest = line.split()
        numbers = [int(n) for n in rest]
        if word == "step":
            step = numbers[0]
            current = Execution(early.pop(step, []))
            if step >= 0:
                census.executions.setdefault(step, []).append(current)
        elif word == "move":
            current.moves.append(_move(numbers))
        elif word == "early":
            early.setdefault(numbers[0], []).append(_move(numbers[1:]))
        elif word == "call":
            current.calls.append(Call(numbers[0], _values(numbers[1:], kinds[step])))
        elif word == "tables":
            current.tables.append(numbers[0])
        elif word == "read":
            census.reads.append(((numbers[0], numbers[1]), numbers[2], numbers[3]))
        else:
            census.writes.append(((numbers[0], numbers[1]), numbers[2]))
    return census


def _move(numbers: list[int]) -> Move:
    region, inward, hop, *ends = numbers[:7]
    return Move(region, inward, hop, (ends[0], ends[1]), (ends[2], ends[3]), *numbers[7:])


def _values(numbers: list[int], kinds: str) -> tuple[Place | int, ...]:
    values: list[Place | int] = []
    at = 0
    for kind in kinds:
        if kind == "p":
            values.append((numbers[at], numbers[at + 1]))
            at += 2
        else:
            values.append(numbers[at])
            at += 1
    return tuple(values)
