"""The cells of the contract, read from their file, and what one of them shows."""

import fnmatch
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from deployer.core.errors import DeployerError
from deployer.core.target import load
from deployer.running import build
from deployer.running.run import available
from DeployTest.consistency.observed import EVALUATED, GRADIENT, UPDATED, Key, Laboratory, Observed
from DeployTest.consistency.pairwise import Row, covering_rows
from DeployTest.consistency.settings import Setting, Workload
from DeployTest.consistency.subjects import LOG_PROBABILITY, PART, SCORES, SELECTED_SCORES

FILE = Path(__file__).with_name("cells.toml")
KINDS = (PART, SCORES, SELECTED_SCORES, LOG_PROBABILITY, EVALUATED, GRADIENT, UPDATED)
PAIRWISE = "pairwise"
EQUAL, DIFFERENT, OPEN, ABSENT = "equal", "different", "open", "absent"
Table = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """A subject, under a level of a factor: the setting that is compared with the reference, and what both read."""

    subject: str
    factor: str
    level: str
    setting: Setting
    workload: Workload

    def __str__(self) -> str:
        """Its name, as lists have it."""
        return f"{self.subject} / {self.factor} / {self.level}"

    @property
    def reference(self) -> Setting:
        """The setting that it is compared with."""
        return Setting(context=0)


@dataclass(frozen=True)
class Result:
    """The comparison of a cell: numbers of keys and of bytes, the keys that differ, and faults besides."""

    cell: Cell
    status: str
    keys: int
    bytes: int
    different: tuple[Key, ...] = ()
    faults: tuple[str, ...] = ()
    digest: str = ""
    reason: str = ""

    @property
    def holds(self) -> bool:
        """Whether the contract has the cell as it is."""
        return not self.faults and self.status != DIFFERENT


@cache
def contract() -> Table:
    """The file of cells."""
    return tomllib.loads(FILE.read_text())


def split_fields(level: Table) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a setting and those of a workload; ValueError for others."""
    own = [{f.name for f in fields(kind)} for kind in (Setting, Workload)]
    unknown = level.keys() - own[0] - own[1]
    if unknown:
        raise ValueError(f"no field of a setting or a workload: {', '.join(sorted(unknown))}")
    return ({n: x for n, x in level.items() if n in own[0]}, {n: x for n, x in level.items() if n in own[1]})


def cell_of(subject: str, factor: str, level: str, given: Table) -> Cell:
    """The cell of a level's fields."""
    setting, workload = split_fields(given)
    return Cell(subject, factor, level, Setting(**setting), Workload(**workload))


def excused(cell_name: Sequence[str], table: Table) -> str:
    """Why a factor does not apply to a subject; empty where it does."""
    subject, factor = cell_name[:2]
    entries = table.get("not_applicable", ())
    return next((e["reason"] for e in entries if subject in e["subjects"] and factor in e["factors"]), "")


def pairwise_rows(table: Table) -> list[Row]:
    """The rows of the covering array."""
    return covering_rows(table[PAIRWISE]["factors"], table[PAIRWISE]["only"])


def all_cells(table: Table | None = None) -> list[Cell]:
    """Every cell, besides those that do not apply."""
    table = contract() if table is None else table
    found = [
        cell_of(subject, factor, level, given)
        for subject in table["subjects"]
        for factor, levels in table["factors"].items()
        for level, given in levels.items()
        if not excused((subject, factor), table)
    ]
    if PAIRWISE in table:
        rows = pairwise_rows(table)
        found += [
            cell_of(subject, PAIRWISE, str(number), {**table[PAIRWISE]["workload"], **row})
            for subject in table[PAIRWISE]["subjects"]
            for number, row in enumerate(rows)
        ]
    return found


def listed(name: str, table: Table | None = None) -> list[Cell]:
    """The cells of a list; nightly are all but those of the target that needs its own machine."""
    table = contract() if table is None else table
    lists, cells = table["lists"], all_cells(table)
    if name == "nightly":
        return [cell for cell in cells if not _is_among(cell, lists["fast"]) and not _is_among(cell, lists["siracusa"])]
    return [cell for cell in cells if _is_among(cell, lists[name])]


def _is_among(cell: Cell, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(str(cell), pattern) for pattern in patterns)


def observed_kinds(cell: Cell, table: Table) -> tuple[str, ...]:
    """The kinds that a cell has to compare."""
    setting, known = cell.setting, table["subjects"][cell.subject].get("observes", KINDS)
    found = (
        [PART, SCORES, SELECTED_SCORES, EVALUATED if setting.trains else LOG_PROBABILITY] if setting.evaluates else []
    )
    if setting.trains:
        found += [UPDATED] if setting.exact else [LOG_PROBABILITY, GRADIENT, UPDATED]
    return tuple(kind for kind in found if kind in known)


def missing_machine(target: str) -> str:
    """Why a target cannot run here; empty where it can."""
    tools = build.toolchain(load(target))
    return "" if available(tools) else f"{tools.run[0]} is not installed: {tools.run_hint}"


def open_differences(cell: Cell, table: Table) -> list[tuple[str, str, str]]:
    """Known differences of a cell: their kind, the pattern of their parameters, and the reason."""
    return [
        (kind, pattern, entry["reason"])
        for entry in table.get("open", ())
        if any(fnmatch.fnmatchcase(str(cell), pattern) for pattern in entry["cells"])
        for kind, pattern in entry["kinds"].items()
    ]


def status_of(cell: Cell, different: Sequence[Key], table: Table) -> str:
    """Whether keys differ, and whether that is known of all of them."""
    known = open_differences(cell, table)
    new = [
        key
        for key in different
        if not any(key[0] == kind and fnmatch.fnmatchcase(str(key[1]), pattern) for kind, pattern, _ in known)
    ]
    return DIFFERENT if new else OPEN if different else EQUAL


def compared(cell: Cell, own: Observed, reference: Observed, table: Table) -> Result:
    """The result of a cell from what it and the reference observe.

    It is wrong to compare no byte of a kind, to have a key that the reference has not, and to observe one and the same
    value everywhere: that of memory which nobody wrote.
    """
    kinds, faults, known = observed_kinds(cell, table), list[str](), open_differences(cell, table)
    if not kinds:
        faults.append("nothing is observed")
    own = {key: content for key, content in own.items() if key[0] in kinds}
    for kind in kinds:
        mine = {key: content for key, content in own.items() if key[0] == kind}
        alone = sorted(str(key) for key in mine if key not in reference)
        if not sum(map(len, mine.values())):
            faults.append(f"no byte of {kind} is compared")
        elif len(set(mine.values())) < 2 or not any(any(content) for content in mine.values()):
            faults.append(f"{kind} is the same everywhere")
        if alone:
            faults.append(f"the reference has no {alone[0]}")
        expected = [key for key in reference if key[0] == kind and key not in own]
        if expected:
            faults.append(f"{len(expected)} of {kind} are left out, such as {expected[0]}")
    shared = sorted((key for key in own if key in reference), key=str)
    different = tuple(key for key in shared if own[key] != reference[key])
    for kind, pattern, _ in known:
        if kind in kinds and not any(k[0] == kind and fnmatch.fnmatchcase(str(k[1]), pattern) for k in different):
            faults.append(f"{kind} of {pattern} is listed as an open difference, and there is none")
    status = status_of(cell, different, table)
    size = sum(len(own[key]) for key in shared)
    reason = "; ".join(dict.fromkeys(reason for *_, reason in known)) if status == OPEN else ""
    return Result(cell, status, len(shared), size, different, tuple(faults), digest_of(own), reason)


def digest_of(observed: Observed) -> str:
    """The digest of all that was observed."""
    total = sha256()
    for key in sorted(observed, key=str):
        total.update(f"{key} {len(observed[key])}\n".encode())
        total.update(observed[key])
    return total.hexdigest()


def shown(cell: Cell, laboratory: Laboratory, table: Table | None = None) -> Result:
    """Run a cell."""
    table = contract() if table is None else table
    missing = missing_machine(cell.setting.target)
    if missing:
        known = cell.setting.target in table["machines"]
        return Result(cell, ABSENT, 0, 0, faults=() if known else (missing,), reason=missing)
    try:
        own = laboratory.observed(cell.subject, cell.setting, cell.workload)
        reference = laboratory.observed(cell.subject, cell.reference, cell.workload)
    except DeployerError as error:
        return Result(cell, DIFFERENT, 0, 0, faults=(f"{type(error).__name__}: {error.cause}",))
    return compared(cell, own, reference, table)


def run_cells(cells: Sequence[Cell], laboratory: Laboratory) -> Iterator[Result]:
    """The results of cells, in their order."""
    for cell in cells:
        yield shown(cell, laboratory)
