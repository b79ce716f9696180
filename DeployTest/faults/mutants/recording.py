"""A pytest plugin that notes, per test, the compiler's lines it runs, the C files it compiles, and how long it takes.

Switched on by the environment variable MUTANTS_RECORD: the path of the record, without the endings of its two files.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

from DeployTest.faults.mutants.selection import INCLUDE


class Recorder:
    """Coverage with a context per test, and what no line shows: C files on compilers' command lines."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path, self.root = path, root
        data = str(path.with_suffix(".lines"))
        self.coverage = coverage.Coverage(data_file=data, source=[str(root / n) for n in ("deployer", "tilers")])
        self.compiled: dict[str, set[str]] = {}
        self.headers: dict[str, list[Path]] = {}
        for header in sorted((root / "targets").rglob("*.h")):
            self.headers.setdefault(header.name, []).append(header)
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.test = ""

    def start(self) -> None:
        """Start the measurement of a test."""
        self.coverage.start()
        self._watch_commands()

    def _watch_commands(self) -> None:
        """Every command that names C files below the targets counts for the running test."""
        from deployer.running import build

        start, lasting = subprocess.Popen.__init__, build.lasting_sources

        def started(process: Any, args: Any, *more: Any, **options: Any) -> None:
            words = args if isinstance(args, list | tuple) else [args]
            sources = (Path(str(word)) for word in words if str(word).endswith((".c", ".S")))
            self.note(sources, Path(options.get("cwd") or "."))
            start(process, args, *more, **options)

        def listed(*args: Any) -> list[Path]:
            commands = lasting(*args)
            self.note(commands, Path())
            return commands

        subprocess.Popen.__init__ = started  # type: ignore[method-assign]
        build.lasting_sources = listed

    def note(self, sources: Iterable[Path], folder: Path) -> None:
        """Files of a command in a folder: those below the targets, and what printed ones include from there."""
        noted = self.compiled.setdefault(self.test, set())
        waiting, seen = [folder / source for source in sources], set[Path]()
        while waiting:
            path = waiting.pop().absolute()
            if path in seen or not path.is_file():
                continue
            seen.add(path)
            if path.is_relative_to(self.root / "targets"):
                noted.add(str(path.relative_to(self.root)))
                continue
            for name in INCLUDE.findall(path.read_text(errors="replace")):
                waiting += [path.parent / name, *self.headers.get(name, [])]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Everything until the next test is this test's."""
        self.test, begin = item.nodeid, time.perf_counter()
        self.coverage.switch_context(item.nodeid)
        yield
        self.seconds[item.nodeid] = time.perf_counter() - begin
        self.test = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails without any mutant kills none."""
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write all files, the readable one last, so that its presence marks a complete record."""
        self.coverage.stop()
        self.coverage.save()
        compiled = {test: sorted(files) for test, files in self.compiled.items() if test}
        record = {"seconds": self.seconds, "compiled": compiled, "failed": sorted(self.failed)}
        unready = self.path.with_suffix(".unready")
        unready.write_text(json.dumps(record))
        unready.replace(self.path.with_suffix(".json"))


def pytest_configure(config: pytest.Config) -> None:
    """Register the recorder if the environment variable is set."""
    path = os.environ.get("MUTANTS_RECORD")
    if path:
        recorder = Recorder(Path(path), config.rootpath)
        config.pluginmanager.register(recorder)
        recorder.start()
