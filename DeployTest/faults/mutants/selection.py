"""Select the tests that can notice a mutant: those that run its line, or compile its C file."""

import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import coverage

from DeployTest.faults.mutants.site import Mutant

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


OWN = "test_mutants.py"
"""Tests of this tool draw from the compiler's text: they would notice any mutant, and no fault."""
STRONG = "test_digests.py"
"""Compares all that is made of its cases, byte for byte: nothing notices more in as many seconds."""
CONTRACT = "test_contract.py"
"""Runs all samples of an operator in C, in several tilings: what kernels and their headers share shows there first."""
LEAST_WORD = 4
"""Letters of a word of a file's name that, in the name of a test, says what the test is about."""
BACK = 12
"""Lines above a mutant's among which its statement is taken to begin."""


@dataclass(frozen=True)
class Record:
    """Record of a run of the suite: coverage with a context per test, tests by C file, seconds by test."""

    root: Path
    data: tuple[coverage.CoverageData, ...]
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
        strong = (STRONG, CONTRACT) if in_c else (STRONG,)
        words = [word for word in Path(mutant.file).stem.split("_") if len(word) >= LEAST_WORD]

        def likely(test: str) -> bool:
            named = any(f"[{name}{end}" in test for name in operators for end in "-]")
            return named or any(word in test for word in words) or any(f"{file}::" in test for file in strong)

        def ordered(tests: set[str]) -> list[str]:
            quickest = sorted(tests & self.seconds.keys(), key=lambda test: (self.seconds[test], test))
            return [*filter(likely, quickest), *_two_transposes([test for test in quickest if not likely(test)])]

        return [*ordered(reaching), *ordered(others)]

    def _running(self, mutant: Mutant) -> set[str]:
        """Tests that run the mutant's line, or the one further up where its statement begins.

        A line that runs at import, or in processes of their own only, counts for every test of its file.
        """
        lines = self._lines(mutant.file)
        everywhere = {test for tests in lines.values() for test in tests}
        for line in range(mutant.line, max(0, mutant.line - BACK), -1):
            if line in lines:
                return lines[line] or everywhere
        return everywhere

    def _lines(self, file: str) -> dict[int, set[str]]:
        """The tests that run each line of a file; lines that run at import alone have none."""
        tests_by_line: dict[int, set[str]] = {}
        for data in self.data:
            for line, tests in data.contexts_by_lineno(str(self.root / file)).items():
                tests_by_line.setdefault(line, set()).update(test for test in tests if test)
        return tests_by_line


def _two_transposes(tests: Sequence[str]) -> list[str]:
    """The first of each file, then the second of each: tests of one file look at the same things."""
    by_file: dict[str, list[str]] = {}
    for test in tests:
        by_file.setdefault(test.split("::")[0], []).append(test)
    return [test for row in itertools.zip_longest(*by_file.values()) for test in row if test is not None]


def _operators_of(file: str) -> list[str]:
    """The operators that a kernel's or an operator's file is about."""
    from deployer.core.operator import registry

    names = []
    for name, operator in registry().items():
        symbol = operator.kernel.symbol if operator.kernel else ""
        module = type(operator).__module__.rsplit(".", 1)[-1]
        if Path(file).stem in (symbol, module):
            names.append(name)
    return names


def record_suite(root: Path, folder: Path, python: str, processes: int, files: Sequence[str] = ()) -> None:
    """Run each test file once under the recorder, so many at a time; a file whose record is of its present text stays.

    Where only some files are named, only they are looked at.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = files or sorted(str(p.relative_to(root)) for p in (root / "DeployTest").rglob("test_*.py") if p.name != OWN)
    waiting = [file for file in files if not _path_of(root, folder, file).with_suffix(".json").exists()]
    with ThreadPoolExecutor(processes) as pool:
        for file, seconds in pool.map(lambda file: _record_file(root, folder, python, file), waiting):
            print(f"recorded {file} in {seconds:.0f} s", flush=True)


def _record_file(root: Path, folder: Path, python: str, file: str) -> tuple[str, float]:
    """Run one test file under the recorder, in place of its older records."""
    path = _path_of(root, folder, file)
    for stale in folder.glob(path.name.rsplit("-", 1)[0] + "-*"):
        stale.unlink()
    plugins = ["-p", "DeployTest.faults.mutants.recording", "-p", "no:cacheprovider", "-p", "no:xdist"]
    words = [python, "-m", "pytest", "-q", "-m", "not slow", *plugins, file]
    environment = {**os.environ, "MUTANTS_RECORD": str(path), "OMP_NUM_THREADS": "1"}
    begin = time.perf_counter()
    with path.with_suffix(".log").open("w") as log:
        subprocess.run(words, cwd=root, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False)
    if not path.with_suffix(".json").exists():
        sys.exit(f"mutants: {file} gives no record, see {path.with_suffix('.log')}")
    return file, time.perf_counter() - begin


def _path_of(root: Path, folder: Path, file: str) -> Path:
    """Return the path of a test file's record, without suffix: it has the file's name and a digest of its text."""
    digest = hashlib.sha256((root / file).read_bytes()).hexdigest()[:12]
    return folder / f"{file.removesuffix('.py').replace('/', '_')}-{digest}"


def load_record(root: Path, folder: Path) -> Record:
    """The record that `record_suite` left."""
    seconds: dict[str, float] = {}
    compiled: dict[str, set[str]] = {}
    failed: set[str] = set()
    data = []
    for path in sorted(folder.glob("*.json")):
        part = json.loads(path.read_text())
        seconds |= part["seconds"]
        failed.update(part["failed"])
        for test, files in part["compiled"].items():
            for file in files:
                compiled.setdefault(file, set()).add(test)
        data.append(coverage.CoverageData(str(path.with_suffix(".lines"))))
        data[-1].read()
    if failed:
        print(
            f"mutants: {len(failed)} tests fail without any mutant and count for nothing: {', '.join(sorted(failed))}"
        )
    seconds = {test: spent for test, spent in seconds.items() if test not in failed}
    return Record(root, tuple(data), _with_headers(root, compiled), seconds)


def _with_headers(root: Path, compiled: dict[str, set[str]]) -> dict[str, set[str]]:
    """A header counts for every file that includes it, directly or not."""
    by_name: dict[str, list[str]] = {}
    includes: dict[str, set[str]] = {}
    for path in sorted((root / "targets").rglob("*.[ch]")):
        file = str(path.relative_to(root))
        by_name.setdefault(path.name, []).append(file)
        includes[file] = set(INCLUDE.findall(path.read_text()))
    by_file = {file: set(tests) for file, tests in compiled.items()}
    for file, tests in compiled.items():
        waiting, seen = [file], {file}
        while waiting:
            for name in includes.get(waiting.pop(), ()):
                for header in by_name.get(name, ()):
                    if header not in seen:
                        seen.add(header)
                        waiting.append(header)
                        by_file.setdefault(header, set()).update(tests)
    return by_file
