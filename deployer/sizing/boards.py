"""Boards and processor cores as data, from TOML files, of which each fault is named with its place."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from deployer.core.artefact import from_jsonable
from deployer.core.errors import OptionProblem, UserError
from deployer.core.files.reading import damage, read_toml
from deployer.core.safe_text import shortened
from deployer.core.target import TARGETS_DIR, Target, load, names

BOARDS, CORES = TARGETS_DIR / "boards", TARGETS_DIR / "cores"
MOST_BYTES = 1 << 32
"""What a 32-bit address reaches."""


class BoardInvalid(UserError):
    """A board's TOML does not describe a board."""


@dataclass(frozen=True)
class Emulator:
    """Emulator of machines: linker flags of its programs, the command that runs one, and its installation hint."""

    link: tuple[str, ...]
    run: tuple[str, ...]
    run_hint: str


@dataclass(frozen=True)
class Core:
    """A processor core: its C compiler with flags, and the emulator with its machine on which its programs run.

    `issue` is the most instructions that it begins in a cycle. `code` and `data` are origin and bytes of the machine's
    memories, `tick` nanoseconds of its clock. Without a compiler or an emulator these are empty.
    """

    name: str
    description: str
    compiler: str
    flags: tuple[str, ...]
    issue: int
    emulator: str
    machine: str
    code: tuple[int, ...]
    data: tuple[int, ...]
    tick: float


@dataclass(frozen=True)
class BoardMemory:
    """A memory whose addresses follow each other, with its bytes."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Power:
    """The current of a core that computes, at a voltage, and who says so."""

    milliamperes: float
    volts: float
    source: str


@dataclass(frozen=True)
class Board:
    """A board: a core with memories, or a target of the compiler with several levels.

    `flash` are bytes for code and constants, `mhz` is the highest clock, `source` says where sizes are from.
    """

    stem: str
    name: str
    source: str
    core: Core | None
    target: Target | None
    mhz: int
    flash: int
    memories: tuple[BoardMemory, ...]
    energy: Power | None


@cache
def cores() -> Mapping[str, Core]:
    """All cores by name."""
    path = CORES / "cores.toml"
    return {name: _record(Core, {"name": name, **row}, f"{path}: [{name}]") for name, row in _table(path).items()}


@cache
def emulators() -> Mapping[str, Emulator]:
    """All emulators by name."""
    path = CORES / "emulators.toml"
    return {name: _record(Emulator, row, f"{path}: [{name}]") for name, row in _table(path).items()}


def core_of(name: str) -> Core:
    """The core of that name; OptionProblem where there is none."""
    if name not in cores():
        raise OptionProblem(f"there is no core {name!r}", hint=f"one of {', '.join(sorted(cores()))}")
    return cores()[name]


def boards(folder: Path = BOARDS) -> tuple[Board, ...]:
    """The boards of a folder in the order of their files' names; BoardInvalid for a faulty file."""
    return tuple(read_board(path) for path in sorted(folder.glob("*.toml")))


def read_board(path: Path) -> Board:
    """The board of a file."""
    raw = _table(path)
    known = {"name", "source", "core", "target", "mhz", "flash", "memory", "energy"}
    for key in sorted(set(raw) - known):
        raise BoardInvalid(f"{path}: there is no key {key!r}", hint=f"one of {', '.join(sorted(known))}")
    for key in ("name", "source"):
        if not isinstance(raw.get(key), str) or not raw[key]:
            raise BoardInvalid(
                f"{path}: {key!r} is not text", hint="give the name of the board and the source of its sizes"
            )
    if ("core" in raw) == ("target" in raw):
        facts = [("keys", ", ".join(sorted(raw)))]
        raise BoardInvalid(f"{path}: a board has either a core or a target", facts, "one of the two keys")
    if "target" in raw:
        for key in sorted(set(raw) - {"name", "source", "target"}):
            raise BoardInvalid(f"{path}: {key!r} has no effect on a board with a target", hint="the target says it")
        if raw["target"] not in list(names()):
            cause = f"{path}: there is no target {shortened(repr(raw['target']), 60)}"
            raise BoardInvalid(cause, hint=f"one of {', '.join(names())}")
        return Board(path.stem, raw["name"], raw["source"], None, load(raw["target"]), 0, 0, (), None)
    numbers = {key: _bytes(raw.get(key), f"{path}: {key}") for key in ("mhz", "flash")}
    memories = _memories(raw.get("memory", []), path)
    energy = _power(raw["energy"], f"{path}: energy") if "energy" in raw else None
    if raw["core"] not in list(cores()):
        raise BoardInvalid(f"{path}: there is no core {raw['core']!r}", hint=f"one of {', '.join(sorted(cores()))}")
    core = cores()[raw["core"]]
    return Board(path.stem, raw["name"], raw["source"], core, None, numbers["mhz"], numbers["flash"], memories, energy)


def _memories(rows: object, path: Path) -> tuple[BoardMemory, ...]:
    """The memories of a board, the largest first."""
    if not isinstance(rows, list):
        raise BoardInvalid(f"{path}: memory is not a list of tables", hint="a table [[memory]] with name and bytes")
    memories = [_record(BoardMemory, row, f"{path}: memory") for row in rows]
    if not memories:
        raise BoardInvalid(f"{path}: the board has no memory", hint="a table [[memory]] with name and bytes")
    for memory in memories:
        _bytes(memory.bytes, f"{path}: {memory.name}")
    return tuple(sorted(memories, key=lambda memory: -memory.bytes))


def _power(row: object, where: str) -> Power:
    power: Power = _record(Power, row, where)
    for name in ("milliamperes", "volts"):
        value = getattr(power, name)
        if not 0 < value < math.inf:
            hint = "the value from the core's data sheet"
            raise BoardInvalid(f"{where}: {name} is {value!r}, which is not a number above 0", hint=hint)
    if not power.source:
        raise BoardInvalid(f"{where} has no source", hint="the document that gives the core's current")
    return power


def _bytes(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MOST_BYTES:
        cause = f"{where} is {shortened(repr(value), 60)}, which is not a whole number from 1 to {MOST_BYTES}"
        raise BoardInvalid(cause, hint="megahertz, or bytes")
    return value


def _record(kind: type, row: Any, where: str) -> Any:
    """An instance of a dataclass from a table."""
    fields = kind.__annotations__
    if not isinstance(row, dict) or set(row) != set(fields):
        hint = "each of these keys, and no other"
        raise BoardInvalid(f"{where} is not a table of {', '.join(fields)}", hint=hint)
    with damage(f"{where} has a value of another type", f"a table of {', '.join(fields)}", kind=BoardInvalid):
        return kind(**{name: from_jsonable(fields[name], value) for name, value in row.items()})


def _table(path: Path) -> dict[str, Any]:
    return read_toml(path, "a board's file, such as those in targets/boards", BoardInvalid)
