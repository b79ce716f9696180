"""Runs the tests that can notice a mutant in a copy of the checkout with the mutant in it."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from DeployTest.faults.mutants.selection import Record
from DeployTest.faults.mutants.site import Mutant

COPIED = ("deployer", "tilers", "targets", "templates", "DeployTest", "docs", ".github", ".ci")
FIRST, REST = 20.0, 240.0
"""Seconds of test time (as recorded) in the first round of tests, and in the second."""
SLACK = 4.0
"""How many times longer than recorded a round may take before the mutant counts as hanging: killed."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: `killed` by a test, by the compiler, or by time; or it survived so many tests."""

    mutant: Mutant
    outcome: str
    tests: int
    by: str = ""

    @property
    def killed(self) -> bool:
        """Whether something noticed it."""
        return self.outcome != "survived"


class Overlay:
    """A copy of the checkout in which one file at a time is changed."""

    def __init__(self, root: Path, folder: Path, python: str) -> None:
        self.root, self.folder, self.python = root, folder, python
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in root.iterdir():
            if path.is_file():
                shutil.copy(path, folder)

    def judge(self, mutant: Mutant, record: Record) -> Verdict:
        """Run the quick tests that can notice the mutant, then the others."""
        source = (self.root / mutant.file).read_text()
        (self.folder / mutant.file).write_text(mutant.apply(source))
        try:
            return self._rounds(mutant, record)
        finally:
            (self.folder / mutant.file).write_text(source)

    def _rounds(self, mutant: Mutant, record: Record) -> Verdict:
        tests = record.tests(mutant)
        if not tests:
            return Verdict(mutant, "survived", 0)
        count = 0
        for chosen, seconds in rounds(tests, record.seconds):
            count += len(chosen)
            outcome, by = self._run(chosen, seconds)
            if outcome:
                return Verdict(mutant, outcome, count, by)
        return Verdict(mutant, "survived", count)

    def _run(self, tests: Sequence[str], seconds: float) -> tuple[str, str]:
        """How the tests end: nothing where they pass, else what killed the mutant and by which test."""
        listed = self.folder / "tests.txt"
        listed.write_text("\n".join(tests) + "\n")
        words = [self.python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"@{listed}"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.Popen(
            words, cwd=self.folder, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=60 + SLACK * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "hangs", ""
        if process.returncode == 0:
            return "", ""
        failed = [line.split(" ")[1] for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return "killed", failed[0] if failed else said.strip().splitlines()[-1][:120] if said.strip() else "crash"


def rounds(tests: Sequence[str], seconds: dict[str, float]) -> list[tuple[list[str], float]]:
    """The quickest tests up to FIRST seconds, then more of them up to REST; each with its seconds."""
    found, at = [], 0
    for budget in (FIRST, REST):
        chosen, spent = [], 0.0
        while at < len(tests) and (not chosen or spent + seconds.get(tests[at], 0.0) <= budget):
            chosen.append(tests[at])
            spent += seconds.get(tests[at], 0.0)
            at += 1
        if chosen:
            found.append((chosen, spent))
    return found
