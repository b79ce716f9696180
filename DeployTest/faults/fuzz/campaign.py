"""A campaign: it gives inputs to worker processes, counts their verdicts and saves findings; the command line."""

import argparse
import itertools
import json
import selectors
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from . import coverage
from .draw import Draw
from .trial import ROOT
from .worker import Worker, kind_of

CHUNK, FEW, LIFE = 100, 10, 3000
"""Inputs per task, inputs to build per task, and inputs after which a worker is replaced by a fresh one."""
SILENCE = 180.0
"""Seconds without a message after which a worker counts as hung."""


@dataclass
class Process:
    """A worker process and what it is at."""

    seed: int
    folder: Path
    judged: int = 0
    index: int = -1
    phase: str = ""
    queue: list[int] = field(default_factory=list)
    build: bool = False
    heard: float = 0.0

    def start(self) -> None:
        """A fresh process."""
        words = [sys.executable, "-m", "DeployTest.faults.fuzz.worker", str(self.seed), str(self.folder)]
        self.process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.judged, self.heard = 0, time.monotonic()

    def give(self, inputs: list[int], build: bool) -> None:
        """The next task."""
        self.queue, self.build, self.phase = inputs, build, ""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"inputs": inputs, "build": build}) + "\n")
        self.process.stdin.flush()
        self.heard = time.monotonic()

    def stop(self) -> int:
        """End the process; its status."""
        self.process.kill()
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


@dataclass
class Summary:
    """Results of all inputs."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)
    accepted: list[int] = field(default_factory=list)
    built: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)

    def add(self, words: dict[str, Any]) -> None:
        """One verdict."""
        kind, end = words["kind"], words["end"]
        self.seconds[f"{kind}{' built' if words['build'] else ''}"] += words["seconds"]
        if end == "finding":
            key = f"{words['sort']}: {words['place']}"
            finding = self.findings.setdefault(key, {"count": 0, "kind": kind})
            finding["count"] += 1
            if "replay" in words and "replay" not in finding:
                finding |= {k: words[k] for k in ("text", "log", "replay", "files", "index", "build") if k in words}
        if words["build"]:
            self.built[words["sort"] if end == "accepted" else end] += 1
            return
        self.counts[kind, end] += 1
        if end == "accepted":
            self.accepted.append(words["index"])
            self.compared[words["sort"]] += 1
        if end == "refused":
            self.refused[words["place"]] += 1


class Campaign:
    """Runs inputs of one seed on worker processes."""

    def __init__(self, seed: int, folder: Path, workers: int, quiet: bool = False) -> None:
        """Nothing runs yet."""
        self.seed, self.folder, self.workers, self.quiet = seed, folder, workers, quiet
        self.summary = Summary()
        self.began = self.shown = time.monotonic()

    def run(self, inputs: Iterator[int], total: int, build: bool = False) -> None:
        """Deal the inputs out until none is left."""
        chooser = selectors.DefaultSelector()
        for number in range(self.workers):
            self._feed(Process(self.seed, self.folder / f"worker{number}"), inputs, build, chooser)
        done = 0
        while chooser.get_map():
            ready = chooser.select(timeout=5.0)
            for key, _ in ready:
                done += self._heard(key.data, inputs, build, chooser)
                self._progress(done, total, build)
            for key in list(chooser.get_map().values()):
                process = key.data
                if time.monotonic() - process.heard > SILENCE:
                    process.process.kill()

    def _feed(
        self,
        process: Process,
        inputs: Iterator[int],
        build: bool,
        chooser: selectors.BaseSelector,
        rest: Sequence[int] = (),
    ) -> None:
        """Give a process the rest of its task or the next one; start it where it is not alive."""
        chunk = list(rest) or list(itertools.islice(inputs, FEW if build else CHUNK))
        alive = hasattr(process, "process") and process.process.poll() is None
        if alive and (not chunk or process.judged >= LIFE):
            chooser.unregister(process.process.stdout)  # type: ignore[arg-type]
            process.stop()
            alive = False
        if not chunk:
            return
        if not alive:
            process.start()
            chooser.register(process.process.stdout, selectors.EVENT_READ, process)  # type: ignore[arg-type]
        process.give(chunk, build)

    def _heard(self, process: Process, inputs: Iterator[int], build: bool, chooser: selectors.BaseSelector) -> int:
        """One line of a worker, or its end; how many inputs that settles."""
        line = process.process.stdout.readline()  # type: ignore[union-attr]
        process.heard = time.monotonic()
        if not line:
            return self._died(process, inputs, build, chooser)
        words = json.loads(line)
        if "start" in words:
            process.index, process.phase = words["start"], ""
        elif "phase" in words:
            process.phase = words["phase"]
        elif "done" in words:
            self._feed(process, inputs, build, chooser)
        else:
            process.judged += 1
            self.summary.add(words)
            return 1
        return 0

    def _died(self, process: Process, inputs: Iterator[int], build: bool, chooser: selectors.BaseSelector) -> int:
        """The process is gone: its input is a finding, unless ONNX Runtime was at work."""
        chooser.unregister(process.process.stdout)  # type: ignore[arg-type]
        status, index = process.stop(), process.index
        name, _ = kind_of(self.seed, index)
        words: dict[str, Any] = {"index": index, "kind": name, "build": build, "seconds": 0.0, "sort": "", "place": ""}
        if process.phase == "onnxruntime":
            words |= {"end": "accepted", "sort": "onnxruntime dies of it"}
        else:
            replay = f"python -m DeployTest.faults.fuzz --seed {self.seed} --only {index} --verbose"
            words |= {"end": "finding", "sort": "worker died", "place": f"status {status} {name}", "replay": replay}
        self.summary.add(words)
        at = process.queue.index(index) if index in process.queue else len(process.queue) - 1
        self._feed(process, inputs, build, chooser, process.queue[at + 1 :])
        return 1

    def _progress(self, done: int, total: int, build: bool) -> None:
        now = time.monotonic()
        if self.quiet or (now - self.shown < 5 and done < total):
            return
        self.shown = now
        what = "built" if build else "inputs"
        print(f"{what} {done} of {total}, {now - self.began:.0f} s, {len(self.summary.findings)} findings", flush=True)


def sample(summary: Summary, seed: int, count: int) -> list[int]:
    """Accepted inputs to build: forms that can be built, in a drawn order."""
    able = [i for i in sorted(summary.accepted) if kind_of(seed, i)[0] not in ("machine", "command_line", "given_data")]
    return Draw(seed, "built").some(able, count)


def run(seed: int, inputs: Sequence[int], built: int, folder: Path, workers: int, quiet: bool = False) -> Summary:
    """Judge inputs, then build and run so many of the accepted ones."""
    campaign = Campaign(seed, folder, workers, quiet)
    campaign.run(iter(inputs), len(inputs))
    order = sample(campaign.summary, seed, 10 * built)
    while order and campaign.summary.built["built and passed"] < built:
        missing = built - campaign.summary.built["built and passed"]
        size = missing + missing // 8 + 1
        batch, order = order[:size], order[size:]
        campaign.run(iter(batch), len(batch), build=True)
    return campaign.summary


def cover(summary: Summary, folder: Path, seed: int) -> None:
    """The readers under atheris, where it is installed."""
    if not coverage.available():
        print("atheris is not installed: the readers were not fuzzed by coverage")
        return
    findings = coverage.run(folder, seed)
    print(f"atheris: {coverage.RUNS} inputs each for {', '.join(coverage.READERS)}, {len(findings)} findings")
    for reader, text in findings.items():
        summary.findings[f"coverage: {reader}"] = {"count": 1, "kind": reader, "text": text, "files": str(folder)}


def show(summary: Summary, console: Console) -> None:
    """The tables of a campaign."""
    table = Table("kind", "inputs", "refused", "accepted", "findings", "ms each", box=None, header_style="bold")
    names = sorted({kind for kind, _ in summary.counts})
    for name in names:
        row = [summary.counts[name, end] for end in ("refused", "accepted", "finding")]
        table.add_row(name, str(sum(row)), *map(str, row), f"{1000 * summary.seconds[name] / max(sum(row), 1):.1f}")
    ends = [sum(n for (_, e), n in summary.counts.items() if e == end) for end in ("refused", "accepted", "finding")]
    table.add_row("all", str(sum(ends)), *map(str, ends), "")
    console.print(table)
    for title, counter in (("accepted", summary.compared), ("built", summary.built)):
        for text, count in counter.most_common():
            console.print(f"{title}: {count:6d} {text}", markup=False, soft_wrap=True)
    for key, finding in sorted(summary.findings.items(), key=lambda item: -item[1]["count"]):
        console.print(f"FINDING {finding['count']} x {finding['kind']}: {key}", markup=False, soft_wrap=True)
        console.print(f"    {finding.get('replay', '')}", markup=False, soft_wrap=True)


def write(summary: Summary, seed: int, path: Path, seconds: float) -> None:
    """The result as JSON."""
    body = {
        "seed": seed,
        "seconds": round(seconds),
        "inputs": sum(summary.counts.values()),
        "ends": {f"{kind} {end}": n for (kind, end), n in sorted(summary.counts.items())},
        "accepted": dict(summary.compared.most_common()),
        "refused": dict(summary.refused.most_common()),
        "built": dict(summary.built),
        "findings": summary.findings,
    }
    path.write_text(json.dumps(body, indent=1) + "\n")


def replay(seed: int, index: int, keep: tuple[int, ...] | None, build: bool, folder: Path) -> int:
    """One input again, in this process, with everything it says."""
    name, _ = kind_of(seed, index)
    with (folder / "phases").open("w") as sink:
        trial, verdict = Worker(seed, folder / "replay", sink).judge(index, build, keep)
    print(f"input {index} of seed {seed}: {name}, files in {trial.folder}")
    print("\n".join(f"  {line}" for line in trial.log))
    print(f"{verdict.end} {verdict.sort} {verdict.place}\n{verdict.text}")
    return int(verdict.end == "finding")


def main() -> int:
    """The command line; its exit code is 1 if there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.faults.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=int, default=100_000, help="how many, from --first on (default 100000)")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--built", type=int, default=1000, help="accepted inputs to build and run (default 1000)")
    parser.add_argument("--kinds", nargs="*", default=[], help="judge inputs of these kinds alone")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", type=int, help="this input alone, in this process")
    parser.add_argument("--edits", help="with --only: numbers of the edits to apply, or `none`")
    parser.add_argument("--build", action="store_true", help="with --only: build and run it too")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/fuzz"))
    a = parser.parse_args()
    folder = a.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if a.only is not None:
        keep = None if a.edits is None else tuple(int(n) for n in a.edits.split(",") if n.isdigit())
        return replay(a.seed, a.only, keep, a.build, folder)
    began = time.monotonic()
    inputs = range(a.first, a.first + a.inputs)
    numbers = [i for i in inputs if not a.kinds or kind_of(a.seed, i)[0] in a.kinds]
    summary = run(a.seed, numbers, a.built, folder, a.workers)
    cover(summary, folder, a.seed)
    console = Console(width=160)
    show(summary, console)
    write(summary, a.seed, folder / "result.json", time.monotonic() - began)
    console.print(f"{time.monotonic() - began:.0f} s, {len(summary.findings)} findings, {folder / 'result.json'}")
    return int(bool(summary.findings))
