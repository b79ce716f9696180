"""Runs the commands of a sweep side by side, each in a process and a folder of its own, and keeps what ended."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployer.core.errors import OptionProblem, ToolFailed, ToolMissing
from deployer.core.files.reading import parse_json, real_path
from deployer.running import output
from deployer.sweeps.axes import Values
from deployer.sweeps.records import SweptResult, SweptRun, known_result, report_numbers
from deployer.sweeps.samplers import RunSampler

RUNS = "runs"
FAILED, REFUSED = 1, 2
"""Exit codes of a run that ended: a check failed, or the input was refused."""
LONGEST_CAUSE = 300
WAITS, SECONDS = 1200, 0.5
"""Attempts to get a folder that another process holds, and seconds between them: ten minutes in all."""
Ended = Callable[[SweptRun, SweptResult, bool], None]
"""(run, result, whether it was known before) -> None, in the order in which runs end."""


@dataclass(frozen=True)
class SweptRow:
    """A run and its result."""

    run: SweptRun
    digest: str
    result: SweptResult


@dataclass(eq=False)
class Sweep:
    """A command with varied options; its runs lie in `folder`/runs, each in a folder named after its digest.

    `words` is the command without its output; {NAME} in a word stands for the value of --vary NAME, which is an option
    of the command where no word has it.
    """

    folder: Path
    words: Sequence[str]
    rows: list[SweptRow] = field(default_factory=list)

    def command(self, values: Values) -> tuple[str, ...]:
        """The words of the run with these values."""
        placed = {name for name in values if any("{" + name + "}" in word for word in self.words)}
        words = [_filled(word, values) for word in self.words]
        for name, value in values.items():
            words += [] if name in placed else [f"--{name}", value]
        return tuple(words)

    def run(
        self, sampler: RunSampler, executor: Executor, ended: Ended, check: Callable[[Sequence[SweptRun]], None]
    ) -> None:
        """Run what the sampler asks for; `check` sees the runs before they begin, and `ended` each as it ends."""
        while asked := sampler.ask():
            first = len(self.rows)
            runs = [SweptRun(first + i, values, self.command(values)) for i, values in enumerate(asked)]
            check(runs)
            digests = [run.digest() for run in runs]
            results = self._results(runs, digests, executor, ended)
            rows = [SweptRow(run, digest, results[digest]) for run, digest in zip(runs, digests, strict=True)]
            sampler.tell([row.result for row in rows])
            self.rows += rows

    def _results(
        self, runs: Sequence[SweptRun], digests: Sequence[str], executor: Executor, ended: Ended
    ) -> dict[str, SweptResult]:
        """The results by digest: of folders where they lie, and of processes for the others."""
        firsts = {digest: run for run, digest in zip(reversed(runs), reversed(digests), strict=True)}
        known, waiting = dict[str, SweptResult](), dict[Any, str]()
        for digest in dict.fromkeys(digests):
            folder = real_path(self.folder) / RUNS / digest
            found = known_result(folder, digest)
            if found is None:
                waiting[executor.submit(run_in, str(folder), firsts[digest].words, os.getcwd())] = digest
            else:
                known[digest] = found
                ended(firsts[digest], found, True)
        try:
            for future in as_completed(waiting):
                digest = waiting[future]
                known[digest] = result = _checked(future)
                if result.outcome != CRASHED:
                    result.write(self.folder / RUNS / digest, digest)
                ended(firsts[digest], result, False)
        except BaseException:
            for future in waiting:
                future.cancel()
            raise
        return known


CRASHED = "crashed"
"""The outcome of a run that neither ended by itself nor is kept: it is run again when the sweep is resumed."""


def _checked(future: Any) -> SweptResult:
    try:
        return SweptResult(**future.result())
    except (OSError, RuntimeError) as error:
        return SweptResult(CRASHED, str(error)[:LONGEST_CAUSE])


def _filled(word: str, values: Mapping[str, str]) -> str:
    """The word with values in place of names in braces; other braces stay."""
    return re.sub(r"\{([^{}]+)\}", lambda found: values.get(found[1], found[0]), word)


def run_in(folder: str, words: Sequence[str], at: str) -> dict[str, Any]:
    """Run a command whose output is this folder, from the folder `at`; the fields of its result.

    On a cluster this is called on a worker, which sees the same files.
    """
    _wait_for(Path(folder))
    line = [sys.executable, "-m", "deployer", *words, "--json", "--force", "-o", folder]
    given = {**os.environ, "OMP_NUM_THREADS": "1"}
    given["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *given.get("PYTHONPATH", "").split(":")])
    done = subprocess.run(
        line, capture_output=True, text=True, check=False, cwd=at, env=given, stdin=subprocess.DEVNULL
    )
    cause = _cause(done.stdout) or done.stderr.strip().rpartition("\n")[2]
    if done.returncode in (0, FAILED):
        outcome = "failed" if done.returncode else "passed"
        return {"outcome": outcome, "cause": cause if done.returncode else "", "numbers": report_numbers(Path(folder))}
    outcome = "refused" if done.returncode == REFUSED else CRASHED
    return {"outcome": outcome, "cause": (cause or f"exit code {done.returncode}")[:LONGEST_CAUSE], "numbers": {}}


def _wait_for(folder: Path) -> None:
    """Make the folder; where a run of a sweep that was killed goes on there, wait for its end."""
    folder.mkdir(parents=True, exist_ok=True)
    for left in range(WAITS, -1, -1):
        try:
            with output.opened(folder):
                return
        except OptionProblem:
            if not left:
                raise
            time.sleep(SECONDS)


def _cause(lines: str) -> str:
    """The cause of the error, or the first fault, that the last line of JSON names."""
    last = lines.strip().rpartition("\n")[2]
    if not last.startswith("{"):
        return ""
    found = parse_json(last, nonfinite=True)
    faults = found.get("faults") or [""]
    return str(found.get("cause") or faults[0])


@contextlib.contextmanager
def workers(count: int, scheduler: str = "") -> Iterator[Executor]:
    """The place of runs: so many processes of this machine at a time, or the cluster of a Dask scheduler at an address.

    Raises ToolMissing without Dask, and ToolFailed where no scheduler answers.
    """
    if not scheduler:
        with ThreadPoolExecutor(count) as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return
    try:
        import distributed
    except ImportError as error:
        hint = "pip install distributed, or --workers N for this machine"
        raise ToolMissing("Dask is not installed", [("--scheduler", scheduler)], hint) from error
    try:
        client = distributed.Client(scheduler, timeout="10s")
    except (OSError, ValueError) as error:
        hint = "the address that `dask scheduler` prints, such as tcp://HOST:8786"
        raise ToolFailed(f"no Dask scheduler answers at {scheduler}", [("cause", str(error))], hint) from error
    with client:
        if not client.scheduler_info()["workers"]:
            raise OptionProblem(f"the scheduler at {scheduler} has no workers", hint=f"dask worker {scheduler}")
        yield client.get_executor(pure=False)
