"""Code of RISC-V objects: bytes of all code, and the innermost loops, by branches and by hardware loops."""

import re
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LOOP_SETUP, LOOP_FUNCTION = 0x7B, 4
"""Opcode and function number of `lp.setup`, whose immediate counts half words from it to the last one of the body."""
_SYMBOL = re.compile(r"^([0-9a-f]{8}) .{6}F (\S+)\s+([0-9a-f]{8}) (\S+)$", re.M)
_SECTION = re.compile(r"^Disassembly of section (\S+):$")
_LINE = re.compile(r"^\s*([0-9a-f]+):\s+([0-9a-f]+)\s+(\S+)\s*(.*)$")
_CALL = re.compile(r"^\s+[0-9a-f]+: R_RISCV_CALL\w*\s+(\S+)$")
_FILLING = ("nop", "unimp")
_TARGET = re.compile(r"(?:^|,)([0-9a-f]+) <")


@dataclass
class Instruction:
    """One instruction of a function: bytes, and where it may go on; `called` is what it calls, or jumps to for good."""

    bytes: int
    follows: list[int] = field(default_factory=list)
    called: str = ""


@dataclass(frozen=True)
class Code:
    """Code of an object: bytes of all of it and of its largest innermost loop, and the functions with the loop.

    Code that assembly puts behind all functions counts; what fills the place up to the next one does not. A loop has
    the bytes of what it calls, too; one that calls a function with a loop is not an innermost one.
    """

    bytes: int
    block: int
    place: str


def read_object(path: Path, objdump: str) -> Code:
    """The code of an object; ValueError where it jumps to an address that the disassembly does not show."""

    def dumped(*flags: str) -> str:
        return subprocess.run([objdump, *flags, str(path)], capture_output=True, text=True, check=True).stdout

    return read_code(dumped("--syms"), dumped("--disassemble", "--reloc"))


def read_code(symbols: str, disassembly: str) -> Code:
    """The code of an object by the texts of its symbols and of its disassembly, as GNU's `objdump` prints them."""
    spans = {
        (section, int(begin, 16)): (name, int(size, 16)) for begin, section, size, name in _SYMBOL.findall(symbols)
    }
    bodies = _functions(spans, disassembly)
    sizes = {name: size for name, size in spans.values()}
    loops = {name: list(innermost(body)) for name, body in bodies.items()}
    looping = {name for name in bodies if loops[name]}
    while more := {name for name, body in bodies.items() if _calls(body.values()) & looping} - looping:
        looping |= more
    found = [(0, "")]
    for name, body in bodies.items():
        for loop in loops[name]:
            called = _calls(body[at] for at in loop)
            if not called & looping:
                reached = _reached(called, bodies)
                found.append((sum(body[at].bytes for at in loop) + sum(sizes.get(c, 0) for c in reached), name))
    block, place = max(found)
    return Code(sum(sizes.values()) + _behind(spans, disassembly), block, place)


def _calls(instructions: Collection[Instruction] | Iterator[Instruction]) -> set[str]:
    return {one.called for one in instructions if one.called}


def _reached(names: set[str], bodies: Mapping[str, dict[int, Instruction]]) -> set[str]:
    """These functions and all that they call."""
    found = set(names)
    while more := {c for name in found for c in _calls(bodies.get(name, {}).values())} - found:
        found |= more
    return found


def _behind(spans: Mapping[tuple[str, int], tuple[str, int]], text: str) -> int:
    """The bytes of instructions that lie in no function, but for those that do nothing."""
    section, total = "", 0
    for line in text.splitlines():
        if begun := _SECTION.match(line):
            section = begun[1]
        elif (found := _LINE.match(line)) is not None and found[3] not in _FILLING:
            at = int(found[1], 16)
            inside = (begin <= at < begin + size for (of, begin), (_, size) in spans.items() if of == section)
            total += 0 if any(inside) else len(found[2]) // 2
    return total


def _functions(spans: Mapping[tuple[str, int], tuple[str, int]], text: str) -> dict[str, dict[int, Instruction]]:
    """The instructions of each function by address."""
    bodies: dict[str, dict[int, Instruction]] = {name: {} for name, _ in spans.values()}
    section, name, end, setups, last = "", "", 0, list[tuple[int, int]](), Instruction(0)
    for line in text.splitlines():
        if begun := _SECTION.match(line):
            section, name = begun[1], ""
        elif made := _CALL.match(line):
            last.called = made[1]
        elif (found := _LINE.match(line)) is not None:
            at = int(found[1], 16)
            if (section, at) in spans:
                name, size = spans[section, at]
                end = at + size
            if name and at < end:
                last = bodies[name][at] = _instruction(at, found[2], found[3], found[4], last, setups)
    for begin, tail in setups:
        owner = next(body for body in bodies.values() if begin in body)
        owner[tail].follows.append(begin)
    return bodies


def _instruction(
    at: int, word: str, name: str, operands: str, before: Instruction, setups: list[tuple[int, int]]
) -> Instruction:
    """One line of the disassembly; a hardware loop adds its first and its last instruction to `setups`."""
    length, code = len(word) // 2, int(word, 16)
    following, target = at + length, _TARGET.search(operands)
    if length == 4 and code & 0x7F == LOOP_SETUP and code >> 12 & 7 == LOOP_FUNCTION:
        setups.append((following, at + 2 * (code >> 20)))
    if name == "ret":
        return Instruction(length)
    if name == "jr":
        if not before.called:
            raise ValueError(f"{at:x}: {name} {operands} jumps by a table")
        return Instruction(length)
    if name == "j" and target:
        return Instruction(length, [int(target[1], 16)])
    if name.startswith("b") and target:
        return Instruction(length, [following, int(target[1], 16)])
    return Instruction(length, [following])


def innermost(body: Mapping[int, Instruction]) -> Iterator[set[int]]:
    """Loops that have none inside, as sets of addresses.

    A loop is a largest set of instructions each of which leads to all others; those inside of it are found without
    the instructions by which it is entered.
    """
    waiting = [set(loop) for loop in _cycles(body, set(body))]
    while waiting:
        loop = waiting.pop()
        entered = {to for at, one in body.items() if at not in loop for to in one.follows}
        entries = (loop & entered) or {min(loop)}
        inner = [set(one) for one in _cycles(body, loop - entries)]
        waiting += inner
        if not inner:
            yield loop


def _cycles(body: Mapping[int, Instruction], among: set[int]) -> Iterator[Sequence[int]]:
    """Strongly connected parts of more than one instruction, or of one that leads to itself (Tarjan's algorithm)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on: set[int] = set()
    for root in sorted(among):
        if root in number:
            continue
        path = [(root, iter(body[root].follows))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on.add(root)
        while path:
            at, rest = path[-1]
            to = next((t for t in rest if t in among), None)
            if to is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[at])
                if low[at] == number[at]:
                    part = stack[stack.index(at) :]
                    del stack[-len(part) :]
                    on -= set(part)
                    if len(part) > 1 or at in body[at].follows:
                        yield part
            elif to not in number:
                number[to] = low[to] = len(number)
                stack.append(to)
                on.add(to)
                path.append((to, iter(body[to].follows)))
            elif to in on:
                low[at] = min(low[at], number[to])
