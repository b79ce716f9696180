"""Which tests can notice a mutant: those that run its line, or compile its C file."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import coverage

from DeployTest.faults.mutants.site import Mutant

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Record:
    """What a run of the whole suite showed: tests by file and line, tests by C file, seconds by test."""

    lines: dict[str, dict[int, set[str]]]
    compiled: dict[str, set[str]]
    seconds: dict[str, float]

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that can notice a mutant: those that reach it, then the others of their files.

        What a file's first test builds for all others counts for the first alone in the record. Of each kind the
        likeliest come first, then the quickest.
        """
        in_c = mutant.file.startswith("targets/")
        reaching = self.compiled.get(mutant.file, set()) if in_c else self._running(mutant)
        files = {test.split("::")[0] for test in reaching}
        others = {test for test in self.seconds if test.split("::")[0] in files} - reaching
        if in_c:
            reaching, others = reaching | others, set()
        operators = _operators_of(mutant.file)

        def order(test: str) -> tuple[bool, float, str]:
            return (not any(f"[{name}-" in test for name in operators), self.seconds.get(test, 0.0), test)

        return [*sorted(reaching, key=order), *sorted(others, key=order)]

    def _running(self, mutant: Mutant) -> set[str]:
        """Tests that run the mutant's line, or the one further up where its statement begins.

        A line that only an import runs counts for every test of its file.
        """
        lines = self.lines.get(mutant.file, {})
        for line in range(mutant.line, max(0, mutant.line - 12), -1):
            tests = lines.get(line)
            if tests is not None:
                named = {test for test in tests if test}
                return named or {test for of_line in lines.values() for test in of_line if test}
        return set()


def _operators_of(file: str) -> list[str]:
    """The operators that a kernel's or an operator's file is about."""
    from deployer.operator import registry

    found = []
    for name, operator in registry().items():
        symbol = operator.kernel.symbol if operator.kernel else ""
        module = type(operator).__module__.rsplit(".", 1)[-1]
        if Path(file).stem in (symbol, module):
            found.append(name)
    return found


def record_suite(root: Path, folder: Path, python: str, processes: int) -> None:
    """Run the suite once under the recorder, its files dealt to so many processes."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.iterdir():
        stale.unlink()
    files = sorted(str(p.relative_to(root)) for p in (root / "DeployTest").rglob("test_*.py"))
    shares = [share for i in range(processes) if (share := files[i::processes])]
    environment = {**os.environ, "MUTANTS_RECORD": str(folder), "OMP_NUM_THREADS": "1"}
    words = [
        python,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not slow",
        "-p",
        "DeployTest.faults.mutants.recording",
        "-p",
        "no:cacheprovider",
    ]
    running = [subprocess.Popen([*words, *share], cwd=root, env=environment) for share in shares]
    for process in running:
        if process.wait() not in (0, 5):
            sys.exit("mutants: the suite fails without any mutant; mend it first")


def load_record(root: Path, folder: Path) -> Record:
    """The record that `record_suite` left."""
    seconds: dict[str, float] = {}
    compiled: dict[str, set[str]] = {}
    for path in sorted(folder.glob("tests-*.json")):
        part = json.loads(path.read_text())
        seconds |= part["seconds"]
        for test, files in part["compiled"].items():
            for file in files:
                compiled.setdefault(file, set()).add(test)
    lines: dict[str, dict[int, set[str]]] = {}
    for path in sorted(folder.glob("lines-*")):
        data = coverage.CoverageData(str(path))
        data.read()
        for file in data.measured_files():
            name = str(Path(file).relative_to(root))
            of_file = lines.setdefault(name, {})
            for line, tests in data.contexts_by_lineno(file).items():
                of_file.setdefault(line, set()).update(tests)
    return Record(lines, _with_headers(root, compiled), seconds)


def _with_headers(root: Path, compiled: dict[str, set[str]]) -> dict[str, set[str]]:
    """A header counts for every file that includes it, directly or not."""
    by_name: dict[str, list[str]] = {}
    includes: dict[str, set[str]] = {}
    for path in sorted((root / "targets").rglob("*.[ch]")):
        file = str(path.relative_to(root))
        by_name.setdefault(path.name, []).append(file)
        includes[file] = set(INCLUDE.findall(path.read_text()))
    found = {file: set(tests) for file, tests in compiled.items()}
    for file, tests in compiled.items():
        waiting, seen = [file], {file}
        while waiting:
            for name in includes.get(waiting.pop(), ()):
                for header in by_name.get(name, ()):
                    if header not in seen:
                        seen.add(header)
                        waiting.append(header)
                        found.setdefault(header, set()).update(tests)
    return found
