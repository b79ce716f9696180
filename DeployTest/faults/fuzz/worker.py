"""A process that judges inputs and can die of one: tasks as lines of JSON come in, verdicts go out."""

import contextlib
import gc
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from .draw import Draw
from .register import kinds
from .trial import Kind, Trial, Verdict, run

MEMORY = 3 << 30
"""Address space beyond what the process has when it starts, in bytes."""


def kind_of(seed: int, index: int) -> tuple[str, Kind]:
    """The kind of an input."""
    table = kinds()
    draw = Draw(seed, index, "kind")
    names = [name for name, (weight, _) in table.items() for _ in range(weight)]
    name = draw.one(names)
    return name, table[name][1]


def limit_memory() -> None:
    """Keep an input from taking the machine's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    size = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.getrlimit(resource.RLIMIT_AS)[1]))


class Worker:
    """Judges inputs of a seed in a folder of its own; verdicts go to `sink`."""

    def __init__(self, seed: int, folder: Path, sink: TextIO) -> None:
        """Make the folders, and keep temporary files and fault reports in them."""
        self.seed, self.folder, self.sink = seed, folder.resolve(), sink
        self.known: set[str] = set()
        scratch = self.folder / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        tempfile.tempdir = str(scratch)
        os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
        os.environ["XDG_STATE_HOME"] = str(scratch / "state")

    def say(self, **words: Any) -> None:
        """One line to the campaign."""
        self.sink.write(json.dumps(words) + "\n")
        self.sink.flush()

    def judge(self, index: int, build: bool = False, keep: tuple[int, ...] | None = None) -> tuple[Trial, Verdict]:
        """One input, alone."""
        _, kind = kind_of(self.seed, index)
        trial = Trial(self.seed, index, self.folder / "trial", keep, build, lambda text: self.say(phase=text))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return trial, run(trial, kind)

    def report(self, index: int, build: bool) -> None:
        """Judge an input and send the verdict; reduce a finding that is new to this worker, and save its files."""
        self.say(start=index)
        began = time.process_time()
        trial, verdict = self.judge(index, build)
        spent = time.process_time() - began
        words: dict[str, Any] = {"index": index, "kind": kind_of(self.seed, index)[0], "build": build, "seconds": spent}
        words |= {"end": verdict.end, "sort": verdict.sort, "place": verdict.place}
        if verdict.end == "finding" and verdict.key not in self.known:
            self.known.add(verdict.key)
            trial, verdict = self.smaller(trial, verdict)
            words |= {"text": verdict.text, "log": trial.log, "replay": trial.replay()}
            copy = self.folder.parent / "findings" / f"{index}{'-built' if build else ''}"
            shutil.rmtree(copy, ignore_errors=True)
            with contextlib.suppress(OSError, shutil.Error):
                shutil.copytree(trial.folder, copy, symlinks=True)
            words["files"] = str(copy)
            with contextlib.suppress(OSError):
                (copy / "verdict.json").write_text(json.dumps(words, indent=1) + "\n")
        self.say(**words)

    def smaller(self, trial: Trial, verdict: Verdict) -> tuple[Trial, Verdict]:
        """Leave out edits one by one as long as the finding stays."""
        keep = tuple(range(trial.drawn))
        for number in reversed(keep):
            fewer = tuple(n for n in keep if n != number)
            _, other = self.judge(trial.index, trial.build, fewer)
            if other.key == verdict.key:
                keep = fewer
        last, outcome = self.judge(trial.index, trial.build, keep)
        if outcome.key != verdict.key:
            return self.judge(trial.index, trial.build)
        return last, outcome


def serve(seed: int, folder: Path, tasks: Iterable[str], sink: TextIO) -> None:
    """Judge what the tasks name, each a list of inputs."""
    worker = Worker(seed, folder, sink)
    kinds()
    limit_memory()
    for line in tasks:
        task = json.loads(line)
        for index in task["inputs"]:
            worker.report(index, task["build"])
        gc.collect()
        worker.say(done=True)


def main() -> None:
    """Seed and folder are the arguments; the campaign holds both ends of the pipe."""
    sys.dont_write_bytecode = True
    sink = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    serve(int(sys.argv[1]), Path(sys.argv[2]), sys.stdin, sink)


if __name__ == "__main__":
    main()
