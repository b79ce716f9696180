"""Runs the tests that can notice a mutant in a copy of the checkout with the mutant in it."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from DeployTest.faults.mutants.selection import Record
from DeployTest.faults.mutants.site import Mutant

COPIED = ("deployer", "tilers", "targets", "templates", "DeployTest", "docs", "examples", ".github", ".ci")
FIRST, REST = 20.0, 240.0
"""Seconds of test time (as recorded) in the first round of tests, and in the second."""
START, SLACK = 60.0, 4.0
"""A round may take START seconds and SLACK times what was recorded; a mutant that takes longer hangs."""


@dataclass(frozen=True)
class Verdict:
    """Outcome of a mutant: `killed` by a test or at import, `hangs`, or it survived so many tests."""

    mutant: Mutant
    outcome: str
    tests: int
    by: str = ""

    @property
    def killed(self) -> bool:
        """Whether something noticed it."""
        return self.outcome != "survived"


class Overlay:
    """A copy of the checkout in which one file at a time is changed, with a cache of objects of its own.

    `unsound` are tests that fail there without any mutant; they kill none.
    """

    def __init__(self, root: Path, folder: Path, python: str, rest: float = REST) -> None:
        self.folder, self.python, self.rest = folder, python, rest
        self.unsound: set[str] = set()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in root.iterdir():
            if path.is_file():
                shutil.copy(path, folder)
        shared, link = (root.parent / "shared").resolve(), folder.parent / "shared"
        if shared.is_dir() and not link.is_symlink():
            link.symlink_to(shared)

    def judge(self, mutant: Mutant, record: Record) -> Verdict:
        """Run the quick tests that can notice the mutant, then the others."""
        count = 0
        for selection, seconds in rounds(record.tests(mutant), record.seconds, self.rest):
            tests = [test for test in selection if test not in self.unsound]
            count += len(tests)
            outcome, by = self._mutated(mutant, tests, seconds)
            if outcome and (by in tests or not self._ends_so(outcome, tests, seconds)):
                return Verdict(mutant, outcome, count, by)
        return Verdict(mutant, "survived", count)

    def _ends_so(self, outcome: str, tests: Sequence[str], seconds: float) -> bool:
        """Whether the tests hang, or are not even collected, without any mutant too."""
        clean, by = self._run(tests, seconds)
        return clean == outcome and by not in tests

    def find_unsound(self, tests: Sequence[str], seconds: float) -> None:
        """Note which of the tests fail without any mutant."""
        self._run(tests, seconds, "--maxfail=1000")
        self.unsound.update(self.failures())

    def failures(self) -> list[str]:
        """The tests that failed in the last run."""
        return (self.folder / "out" / "tests.failed").read_text().splitlines()

    def _mutated(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> tuple[str, str]:
        """Run the tests with the mutant in its file."""
        path = self.folder / mutant.file
        source = path.read_text()
        path.write_text(mutant.apply(source))
        try:
            return self._run(tests, seconds)
        finally:
            path.write_text(source)

    def _run(self, tests: Sequence[str], seconds: float, until: str = "-x") -> tuple[str, str]:
        """Run the tests: empty if they pass, else the cause that killed the mutant, and the test."""
        listed = self.folder / "out" / "tests.txt"
        listed.parent.mkdir(exist_ok=True)
        listed.write_text("".join(f"{test}\n" for test in by_file(tests)))
        files = list(dict.fromkeys(test.split("::")[0] for test in tests))
        plugins = ["-p", "DeployTest.faults.mutants.choosing", "-p", "no:cacheprovider", "-p", "no:xdist"]
        temporary = ["--basetemp", str(self.folder / "out" / "tmp")]
        process = subprocess.Popen(
            [self.python, "-m", "pytest", until, "-q", *plugins, *temporary, *files], cwd=self.folder,
            env=self._environment(listed), start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            stdout, _ = process.communicate(timeout=START + SLACK * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self._end_programs()
            process.communicate()
            return "hangs", ""
        if process.returncode in (0, 5):
            return "", ""
        failed = self.failures()
        return "killed", failed[0] if failed else "".join(stdout.strip().splitlines()[-1:])[:120]

    def _end_programs(self) -> None:
        """End what the tests had built and started in sessions of its own: it outlives them, and may never end."""
        for link in Path("/proc").glob("[0-9]*/exe"):
            with contextlib.suppress(OSError):
                if link.readlink().is_relative_to(self.folder):
                    os.kill(int(link.parent.name), signal.SIGKILL)

    def _environment(self, listed: Path) -> dict[str, str]:
        """A faulty compiler may spoil neither the user's cache nor the copy's bytecode."""
        ours = {"MUTANTS_CHOSEN": str(listed), "XDG_CACHE_HOME": str(self.folder / "out" / "cache")}
        return {**os.environ, **ours, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def by_file(tests: Sequence[str]) -> list[str]:
    """The tests grouped by file, files in order of their first test, so that pytest builds a file's fixtures once."""
    grouped: dict[str, list[str]] = {}
    for test in tests:
        grouped.setdefault(test.split("::")[0], []).append(test)
    return [test for group in grouped.values() for test in group]


def rounds(tests: Sequence[str], seconds: dict[str, float], rest: float = REST) -> list[tuple[list[str], float]]:
    """The first tests up to FIRST seconds, then more of them up to `rest`, at least one each; each with its seconds."""
    batches, at = [], 0
    for budget in (FIRST, rest):
        selection, spent = [], 0.0
        while at < len(tests) and (not selection or spent + seconds[tests[at]] <= budget):
            selection.append(tests[at])
            spent += seconds[tests[at]]
            at += 1
        if selection:
            batches.append((selection, spent))
    return batches
