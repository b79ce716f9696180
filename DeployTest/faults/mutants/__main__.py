"""`python -m DeployTest.faults.mutants`: draw mutants of the compiler, run the tests on each, list what survives.

The exit code is 1 where fewer than 95 % are killed or argued equivalent.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import SimpleQueue

from DeployTest.faults.mutants.c_sites import c_mutants
from DeployTest.faults.mutants.python_sites import is_python, python_mutants
from DeployTest.faults.mutants.runner import FIRST, REST, Overlay, Verdict
from DeployTest.faults.mutants.selection import load_record, record_suite
from DeployTest.faults.mutants.site import Mutant, sources

ROOT = Path(__file__).resolve().parents[3]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
AREAS: dict[str, tuple[tuple[str, ...], float]] = {
    "compiler": (("deployer",), 0.45),
    "tilers": (("tilers",), 0.2),
    "kernels": (("targets/common",), 0.15),
    "a target's kernels": (("targets/siracusa/kernels",), 0.05),
    "simulator": (("targets/host",), 0.15),
}
"""Folders of each area, and its share of the mutants."""
WANTED = 0.95


@cache
def all_mutants(root: Path, folders: tuple[str, ...]) -> tuple[Mutant, ...]:
    """Every mutant of the files below the folders."""
    mutants: list[Mutant] = []
    for path in sources(root, folders, (".py", ".c", ".h")):
        file = str(path.relative_to(root))
        mutants += python_mutants(path, file) if path.suffix == ".py" else c_mutants(path, file)
    return tuple(mutants)


def drawn(root: Path, seed: int, count: int) -> list[Mutant]:
    """So many mutants: areas by their shares; within an area every operator equally often, then every place."""
    draw = random.Random(seed)
    by_key: dict[str, Mutant] = {}
    for folders, share in AREAS.values():
        by_operator: dict[str, list[Mutant]] = {}
        for mutant in all_mutants(root, folders):
            by_operator.setdefault(mutant.operator, []).append(mutant)
        quota = round(share * count)
        area: dict[str, Mutant] = {}
        while len(area) < min(quota, sum(map(len, by_operator.values()))):
            mutant = draw.choice(by_operator[draw.choice(sorted(by_operator))])
            if not mutant.file.endswith(".py") or is_python(mutant.apply((root / mutant.file).read_text())):
                area[mutant.key] = mutant
        by_key |= area
    return list(by_key.values())


def equivalents() -> dict[str, str]:
    """Mutants that change nothing a user could notice, each with the reason."""
    return {str(x["key"]): str(x["reason"]) for x in tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])}


def judged(
    mutants: Sequence[Mutant], before: Sequence[Verdict], folder: Path, jobs: int, rest: float
) -> Iterator[Verdict]:
    """The verdict of each mutant, from so many copies of the checkout, those `before` first.

    In the end the tests that killed run without any mutant; whom one killed that fails then too is judged again.
    """
    record = load_record(ROOT, folder / "record")
    free: SimpleQueue[Overlay] = SimpleQueue()
    copies = [Overlay(ROOT, folder / f"copy{job}", sys.executable, rest) for job in range(jobs)]
    for copy in copies:
        free.put(copy)

    def judge(mutant: Mutant) -> Verdict:
        copy = free.get()
        try:
            return copy.judge(mutant, record)
        finally:
            free.put(copy)

    verdicts, waiting = {v.mutant.key: v for v in before}, list(mutants)
    yield from before
    with ThreadPoolExecutor(jobs) as pool:
        while waiting:
            for verdict in pool.map(judge, waiting):
                verdicts[verdict.mutant.key] = verdict
                yield verdict
            killers = sorted({v.by for v in verdicts.values() if v.by in record.seconds})
            copies[0].find_unsound(killers, sum(record.seconds[test] for test in killers))
            for copy in copies:
                copy.unsound |= copies[0].unsound
            waiting = [v.mutant for v in verdicts.values() if v.by in copies[0].unsound]


def main(argv: Sequence[str] | None = None) -> int:
    """Draw, run, report."""
    p = argparse.ArgumentParser(prog="mutants", description=__doc__)
    p.add_argument("--seed", type=int, default=1, help="of the draw (default 1)")
    p.add_argument("--count", type=int, default=160, help="mutants to draw (default 160)")
    p.add_argument("--only", nargs="+", default=[], metavar="KEY", help="these mutants alone, drawn or not")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="copies of the checkout at work")
    p.add_argument("--folder", type=Path, default=ROOT / "out" / "mutants", help="where records and copies go")
    p.add_argument("--record", action="store_true", help="record every test again, not only those of changed files")
    p.add_argument("--resume", action="store_true", help="believe the kills of the last run with this seed")
    p.add_argument(
        "--rest", type=float, default=REST, metavar="S",
        help=f"seconds of tests that follow the quickest {FIRST:g} (default {REST:g}); few for a first look",
    )  # fmt: skip
    p.add_argument("--list", action="store_true", help="print the mutants and stop")
    a = p.parse_args(argv)
    if a.only:
        mutants = [m for folders, _ in AREAS.values() for m in all_mutants(ROOT, folders) if m.key in a.only]
    else:
        mutants = drawn(ROOT, a.seed, a.count)
    if a.list:
        print("\n".join(map(str, mutants)))
        return 0
    if a.record:
        shutil.rmtree(a.folder / "record", ignore_errors=True)
    record_suite(ROOT, a.folder / "record", sys.executable, a.jobs)
    path = a.folder / f"mutants-{a.seed}.json"
    before = killed_before(mutants, path) if a.resume else []
    waiting = [m for m in mutants if m.key not in {v.mutant.key for v in before}]
    return report(judged(waiting, before, a.folder, a.jobs, a.rest), len(mutants), path)


def killed_before(mutants: Sequence[Mutant], path: Path) -> list[Verdict]:
    """The kills among these mutants that a result tells of."""
    rows = {row["key"]: row for row in json.loads(path.read_text())} if path.exists() else {}
    verdicts = [
        Verdict(m, *(rows[m.key][name] for name in ("outcome", "tests", "by"))) for m in mutants if m.key in rows
    ]
    return [verdict for verdict in verdicts if verdict.killed]


def report(verdicts: Iterable[Verdict], count: int, path: Path) -> int:
    """Print each verdict as it arrives, then the totals; write all verdicts as JSON after each."""
    excuses, by_key = equivalents(), dict[str, Verdict]()
    for number, verdict in enumerate(verdicts, 1):
        by_key[verdict.mutant.key] = verdict
        excuse = "" if verdict.killed else excuses.get(verdict.mutant.key, "")
        outcome = "equivalent" if excuse else verdict.outcome
        print(f"{number:4}/{count} {outcome:10} {verdict.mutant}  {excuse or verdict.by}", flush=True)
        rows = [{"key": v.mutant.key, "mutant": str(v.mutant), "outcome": v.outcome, "tests": v.tests, "by": v.by}
                for v in by_key.values()]  # fmt: skip
        path.write_text(json.dumps(rows, indent=1) + "\n")
    latest = list(by_key.values())
    alive = [v for v in latest if not v.killed and v.mutant.key not in excuses]
    equal = [v for v in latest if not v.killed and v.mutant.key in excuses]
    killed = sum(v.killed for v in latest)
    share = 1.0 if len(latest) == len(equal) else killed / (len(latest) - len(equal))
    for verdict in alive:
        print(f"survived {verdict.mutant} ({verdict.tests} tests)\n         {verdict.mutant.context}")
    print(
        f"{len(latest)} mutants, {killed} killed, {len(equal)} equivalent, {len(alive)} survived: {100 * share:.1f} %"
    )
    return 0 if share >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
