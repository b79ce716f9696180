"""Verdicts on the first inputs of some kinds, one line of JSON each, and which lines of the compiler each kind runs.

`python -m DeployTest.faults.fuzz.ledger` prints them for the checkout it runs in. With `--expected`, those of another
checkout, it ends at the first finding that is none there.
"""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .campaign import kind_of
from .worker import Worker, limit_memory

Row = list[str]
"""End of an input: refused, accepted or finding; its sort, and its place."""


def numbers(seed: int, kinds: Sequence[str], count: int) -> list[int]:
    """The first so many inputs of these kinds."""
    found: list[int] = []
    index = 0
    while len(found) < count:
        if kind_of(seed, index)[0] in kinds:
            found.append(index)
        index += 1
    return found


def verdicts(seed: int, inputs: Sequence[int], folder: Path) -> Iterator[tuple[int, Row]]:
    """The verdict on each input, in this process."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "phases").open("w") as sink:
        worker = Worker(seed, folder, sink)
        for index in inputs:
            _, verdict = worker.judge(index)
            yield index, [verdict.end, verdict.sort, verdict.place]


def lines_run(seed: int, inputs: Sequence[int], folder: Path, files: Sequence[str]) -> dict[str, list[int]]:
    """The lines of files of the compiler that inputs run."""
    import coverage

    record = coverage.Coverage(data_file=None, include=[f"{Path.cwd()}/{file}" for file in files])
    record.start()
    for _ in verdicts(seed, inputs, folder):
        pass
    record.stop()
    data = record.get_data()
    return {os.path.relpath(file): sorted(data.lines(file) or ()) for file in data.measured_files()}


def main(argv: Sequence[str] | None = None) -> int:
    """Print what is asked for; only lines of JSON go to standard output."""
    p = argparse.ArgumentParser(prog="ledger", description=__doc__)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--kinds", nargs="+", required=True)
    p.add_argument("--inputs", type=int, default=2000, help="how many of all these kinds (default 2000)")
    p.add_argument("--folder", type=Path, required=True, help="where the inputs' files go")
    p.add_argument("--lines", nargs="+", default=[], metavar="FILE", help="print lines that run of these files instead")
    p.add_argument("--expected", type=Path, help="lines of another checkout, for the same seed")
    a = p.parse_args(argv)
    sink = os.fdopen(os.dup(1), "w")
    inputs = numbers(a.seed, a.kinds, a.inputs)
    if a.lines:
        sink.write(json.dumps(lines_run(a.seed, inputs, a.folder, a.lines)) + "\n")
        return 0
    limit_memory()
    expected = _expected(a.expected) if a.expected else {}
    with contextlib.redirect_stdout(sys.stderr):
        for index, row in verdicts(a.seed, inputs, a.folder):
            sink.write(json.dumps([index, row]) + "\n")
            sink.flush()
            if a.expected and row[0] == "finding" and row != expected[index]:
                break
    return 0


def _expected(path: Path) -> dict[int, Row]:
    rows: list[tuple[int, Row]] = [json.loads(line) for line in path.read_text().splitlines()]
    return dict(rows)


def parsed(text: str) -> list[tuple[int, Row]]:
    """The lines of a ledger; one that is cut off is left out."""
    rows: list[Any] = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            rows.append(json.loads(line))
    return [(index, row) for index, row in rows]


if __name__ == "__main__":
    sys.exit(main())
