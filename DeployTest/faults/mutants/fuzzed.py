"""`python -m DeployTest.faults.mutants.fuzzed`: faults planted in what the fuzzer judges, and how many it finds.

Mutants are drawn by seed over the readers and the checks of what is read, at places that the fuzzer's kinds run. Each
is planted in a copy of the checkout, which judges the first inputs of those kinds. The exit code is 1 where fewer than
80 % are found.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from DeployTest.faults.fuzz.ledger import parsed
from DeployTest.faults.fuzz.register import kinds
from DeployTest.faults.mutants.__main__ import ROOT, equivalents
from DeployTest.faults.mutants.python_sites import is_python, python_mutants
from DeployTest.faults.mutants.runner import Overlay
from DeployTest.faults.mutants.site import Mutant

READERS = (
    "deployer/core/files",
    "deployer/training/tables.py",
    "deployer/core/artefact.py",
    "deployer/commands/config.py",
    "deployer/firmware/images.py",
    "deployer/firmware/tensors.py",
    "deployer/fitting/checkpoint.py",
    "deployer/fitting/data/images.py",
    "deployer/fitting/safetensors.py",
    "deployer/fitting/data/sources.py",
    "deployer/running/output.py",
    "deployer/sizing/boards.py",
)
"""Readers of files from outside, and the checks of what they hold."""
RECORDED = 80
"""Inputs of each kind whose lines are recorded."""
LIMIT = 900.0
"""Seconds after which a mutant's inputs count as a hang."""
WANTED = 0.8


@dataclass(frozen=True)
class Verdict:
    """Outcome of a mutant: `finding` of the fuzzer, changed `verdict`, or `survived`; and the input that found it."""

    mutant: Mutant
    outcome: str
    inputs: int
    by: str = ""


class Judge:
    """Copies of the checkout with records of what the fuzzer does there without any mutant."""

    def __init__(self, folder: Path, seed: int, inputs: int, names: Sequence[str], jobs: int) -> None:
        """Copy the checkout; nothing runs yet."""
        self.folder, self.seed, self.inputs = folder, seed, inputs
        self.names = sorted(names)
        self.jobs, self.free = jobs, SimpleQueue[Path]()
        for job in range(jobs):
            self.free.put(Overlay(ROOT, folder / f"job{job}" / "copy", sys.executable).folder)
        self.runs: dict[str, Mapping[str, list[int]]] = {}
        self.expected = folder / "expected.txt"

    def record(self) -> None:
        """Note the lines that each kind runs, and the verdicts without a mutant."""
        files = [str(path.relative_to(ROOT)) for path in _files()]

        def recorded(name: str) -> tuple[str, str]:
            with self._copy() as copy:
                return self._ledger(copy, [name], RECORDED, "--lines", *files), self._ledger(copy, [name], self.inputs)

        with ThreadPoolExecutor(self.jobs) as pool, self.expected.open("w") as sink:
            for name, (lines, rows) in zip(self.names, pool.map(recorded, self.names), strict=True):
                self.runs[name] = json.loads(lines)
                sink.write(rows)
        print(f"recorded {len(self.names)} kinds", flush=True)

    @contextmanager
    def _copy(self) -> Iterator[Path]:
        """A copy of the checkout that nobody else uses meanwhile."""
        copy = self.free.get()
        try:
            yield copy
        finally:
            self.free.put(copy)

    def reached(self, mutant: Mutant) -> list[str]:
        """The kinds that run a mutant's line, those first that run the fewest files."""
        found = [name for name in self.names if mutant.line in self.runs[name].get(mutant.file, ())]
        return sorted(found, key=lambda name: len(self.runs[name]))

    def judge(self, mutant: Mutant) -> Verdict:
        """Plant a mutant, and let the fuzzer judge inputs until one shows it."""
        with self._copy() as copy:
            path = copy / mutant.file
            source = path.read_text()
            path.write_text(mutant.apply(source))
            try:
                return self._shown(copy, mutant)
            finally:
                path.write_text(source)

    def all(self, mutants: Sequence[Mutant]) -> Iterator[Verdict]:
        """The verdict of each mutant, as they come."""
        with ThreadPoolExecutor(self.jobs) as pool:
            for judged in as_completed([pool.submit(self.judge, mutant) for mutant in mutants]):
                yield judged.result()

    def _shown(self, copy: Path, mutant: Mutant) -> Verdict:
        try:
            text = self._ledger(copy, self.reached(mutant), self.inputs, "--expected", str(self.expected))
        except subprocess.TimeoutExpired:
            return Verdict(mutant, "finding", 0, "hang")
        rows, due = parsed(text), dict(parsed(self.expected.read_text()))
        if not rows:
            return Verdict(mutant, "finding", 0, "the compiler does not start")
        other = [(at, index, row) for at, (index, row) in enumerate(rows, 1) if row != due[index]]
        shown = next((found for found in other if found[2][0] == "finding"), None)
        if shown or len(rows) < self.inputs:
            at, index, row = shown or (len(rows), -1, ["the process died"])
            return Verdict(mutant, "finding", at, f"input {index}: {' '.join(row)[:100]}")
        if other:
            at, index, row = other[0]
            told = f"input {index}: {' '.join(row)[:100]}, without the mutant {' '.join(due[index])[:100]}"
            return Verdict(mutant, "verdict", at, told)
        return Verdict(mutant, "survived", len(rows))

    def _ledger(self, copy: Path, names: Sequence[str], count: int, *more: str) -> str:
        """Lines of what the fuzzer in a copy says of inputs of some kinds."""
        words = [sys.executable, "-m", "DeployTest.faults.fuzz.ledger", "--seed", str(self.seed), "--kinds", *names]
        words += ["--inputs", str(count), "--folder", str(copy.parent / "inputs"), *more]
        done = subprocess.run(
            words, cwd=copy, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False, timeout=LIMIT,
        )  # fmt: skip
        return done.stdout


def _files() -> Iterator[Path]:
    for name in READERS:
        path = ROOT / name
        yield from sorted(path.glob("*.py")) if path.is_dir() else [path]


def drawn(judge: Judge, seed: int, count: int) -> tuple[list[Mutant], int, int]:
    """So many mutants at places that some kind runs, every operator equally often; and the places run, of all."""
    every = [mutant for path in _files() for mutant in python_mutants(path, str(path.relative_to(ROOT)))]
    able = [m for m in every if judge.reached(m)]
    by_operator: dict[str, list[Mutant]] = {}
    for mutant in able:
        by_operator.setdefault(mutant.operator, []).append(mutant)
    draw, found = random.Random(seed), dict[str, Mutant]()
    while len(found) < min(count, len(able)):
        mutant = draw.choice(by_operator[draw.choice(sorted(by_operator))])
        if is_python(mutant.apply((ROOT / mutant.file).read_text())):
            found[mutant.key] = mutant
    return list(found.values()), len(able), len(every)


def main(argv: Sequence[str] | None = None) -> int:
    """Record, draw, judge, report."""
    p = argparse.ArgumentParser(prog="fuzzed", description=__doc__)
    p.add_argument("--seed", type=int, default=1, help="of the draw and of the inputs (default 1)")
    p.add_argument("--count", type=int, default=60, help="mutants to draw (default 60)")
    p.add_argument("--inputs", type=int, default=2000, help="inputs that each meets (default 2000)")
    p.add_argument("--kinds", nargs="+", default=[], help="kinds of inputs (default: those that read no graph)")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="copies of the checkout at work")
    p.add_argument("--folder", type=Path, default=ROOT / "out" / "mutants" / "fuzzed")
    a = p.parse_args(argv)
    names = a.kinds or [name for name, (_, kind) in kinds().items() if kind.__module__.split(".")[-1] in READING]
    shutil.rmtree(a.folder, ignore_errors=True)
    judge = Judge(a.folder.resolve(), a.seed, a.inputs, names, a.jobs)
    judge.record()
    mutants, able, every = drawn(judge, a.seed, a.count)
    print(f"{able} of {every} places of readers are run by {len(names)} kinds")
    return report(judge.all(mutants), len(mutants), a.folder / f"fuzzed-{a.seed}.json")


READING = ("folders", "samples", "pictures", "records", "state", "tables")
"""Modules of kinds whose inputs are files that no graph belongs to: thousands of them take seconds."""


def report(verdicts: Iterable[Verdict], count: int, path: Path) -> int:
    """Print each verdict as it arrives, then the totals."""
    excuses, rows, found = equivalents(), list[dict[str, Any]](), dict[str, int]()
    for number, verdict in enumerate(verdicts, 1):
        excuse = excuses.get(verdict.mutant.key, "") if verdict.outcome == "survived" else ""
        outcome = "equivalent" if excuse else verdict.outcome
        found[outcome] = found.get(outcome, 0) + 1
        print(
            f"{number:3}/{count} {outcome:10} {verdict.inputs:5} inputs  {verdict.mutant}  {excuse or verdict.by}",
            flush=True,
        )
        rows.append({"key": verdict.mutant.key, "mutant": str(verdict.mutant), "outcome": outcome, "by": verdict.by})
        rows[-1] |= {"inputs": verdict.inputs, "context": verdict.mutant.context}
        path.write_text(json.dumps(rows, indent=1) + "\n")
    judged = sum(found.values()) - found.get("equivalent", 0)
    shown = found.get("finding", 0), found.get("verdict", 0)
    print(f"{sum(found.values())} mutants: {found}")
    print(f"found by a finding {shown[0]}, by another verdict {shown[1]}: {100 * sum(shown) / max(judged, 1):.1f} %")
    return 0 if sum(shown) >= WANTED * judged else 1


if __name__ == "__main__":
    sys.exit(main())
