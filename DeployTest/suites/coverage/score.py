"""Score the coverage of PyTorch: its core operators, and all samples of its own tests of operators and of modules.

Run as `python -m DeployTest.suites.coverage` where PyTorch and expecttest are installed; with --write it renews
docs/pytorch-coverage.md. A sample is right where loss and every gradient of the captured step, evaluated in float64,
are those of the module itself in float64. Of each entry one sample is besides trained for a step in generated C.
"""

import argparse
import json
import multiprocessing
import re
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deployer import pipeline
from deployer.core.errors import CaptureMismatch, DeployerError, InternalError
from deployer.torch.check import compare
from deployer.torch.eager import EagerStep, eager_step
from deployer.torch.evaluator import Evaluation, Evaluator
from deployer.torch.step import CapturedStep, capture_step
from deployer.training.train_graph import build_train_graph
from DeployTest.suites.coverage import samples as suites
from DeployTest.suites.coverage.samples import Sample
from DeployTest.support.building.cases import compile_case, faults

RIGHT, WRONG, REFUSED, UNFORESEEN, EMPTY = "right", "wrong", "refused", "unforeseen", "empty"
SEED, RATE, L1 = 5, 0.01, 64000
TRIED = 3
"""Samples of an entry that are tried in C until one is right."""
Maker = Callable[[bool], Sample | None]
KINDS: dict[str, tuple[Callable[[], dict[str, Any]], Callable[[Any], Iterator[Maker]]]] = {
    "operators": (suites.operators, suites.samples_of),
    "modules": (suites.modules, suites.samples_of_module),
}


@dataclass(frozen=True)
class Judged:
    """Outcome of a sample, its reason, and the step and sample for a trial in C."""

    outcome: str
    reason: str = ""
    step: CapturedStep | None = None
    sample: Sample | None = None


@dataclass(frozen=True)
class Result:
    """Outcome of an entry: samples by outcome, a reason for those not right, and the outcome of a sample in C."""

    kind: str
    entry: str
    counts: dict[str, int] = field(default_factory=dict)
    reasons: tuple[tuple[str, str], ...] = ()
    in_c: str = ""
    c_reason: str = ""

    @property
    def outcome(self) -> str:
        """The worst of all samples."""
        return next((o for o in (UNFORESEEN, WRONG, REFUSED, RIGHT) if self.counts.get(o)), EMPTY)


def difference(ours: Evaluation, gold: EagerStep) -> str:
    """First tensor whose difference exceeds rounding in float64, as text; empty where none does."""
    try:
        compare(ours, gold)
    except CaptureMismatch as error:
        return _told(error)
    return ""


def judge(make: Maker) -> Judged:
    """Outcome of a sample with integers that are fed or, where that is refused, held by the module."""
    fed = _judged(make, False)
    if fed.outcome != REFUSED:
        return fed
    held = _judged(make, True)
    return fed if held.outcome == REFUSED else held


def _judged(make: Maker, held: bool) -> Judged:
    try:
        sample = make(held)
        if sample is None:
            return Judged(EMPTY)
        module, loss, data = sample.module, sample.loss, sample.data
        gold = eager_step(module, loss, data, seed=SEED)
    except Exception as error:
        return Judged(EMPTY, f"PyTorch itself: {error}")
    if not np.isfinite(gold.loss):
        return Judged(EMPTY, "the loss is not finite")
    try:
        step = capture_step(module, loss, data, seed=SEED)
        ours = Evaluator(step).run({n: x.numpy() for n, x in data.items()})
    except InternalError as error:
        return Judged(UNFORESEEN, _told(error))
    except DeployerError as error:
        return Judged(REFUSED, _told(error))
    except Exception:
        return Judged(UNFORESEEN, traceback.format_exc(limit=-3))
    reason = difference(ours, gold)
    return Judged(WRONG, reason) if reason else Judged(RIGHT, "", step, sample)


def _told(error: DeployerError) -> str:
    text = re.sub(r" at \S+:\d+ in \S+", "", " ".join(str(error).split()))
    return re.sub(r"/\S+/(?=step\.onnx)", "", text)[:2000]  # folders of this run


def in_c(step: CapturedStep, sample: Sample) -> tuple[str, str]:
    """Outcome of one update by SGD in generated C on the host, whose verdict compares it with float64."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        data = {name: x.numpy()[None] for name, x in zip(step.data, sample.data.values(), strict=True)}
        try:
            report = build_train_graph(step.save(place / "step.onnx"), "model", "sgd", RATE, "", place, data=data)
            built = compile_case(pipeline.load_training(report.train), place / "c", "auto", L1)
            found = faults(built, built.run())
        except InternalError as error:
            return UNFORESEEN, _told(error)
        except DeployerError as error:
            return REFUSED, _told(error)
        except Exception:
            return UNFORESEEN, traceback.format_exc(limit=-3)
    return (WRONG, "; ".join(found)[:400]) if found else (RIGHT, "")


def judge_entry(task: tuple[str, str], most: int = 0, compiles: bool = True) -> Result:
    """All samples of an entry, or the first `most`."""
    kind, name = task
    found, samples = KINDS[kind]
    entry = found()[name]
    counts, reasons, tried = Counter[str](), [], list[tuple[str, str]]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for make in samples(entry):
                judged = judge(make)
                counts[judged.outcome] += 1
                if judged.outcome not in (RIGHT, EMPTY):
                    reasons.append((judged.outcome, judged.reason))
                if judged.step is not None and judged.sample is not None and _wants(tried) and compiles:
                    tried.append(in_c(judged.step, judged.sample))
                if most and sum(counts.values()) - counts[EMPTY] >= most:
                    break
        except Exception:  # PyTorch's own samples
            reasons.append((EMPTY, traceback.format_exc(limit=-2)))
    best = next((t for t in tried if t[0] == RIGHT), tried[0] if tried else ("", ""))
    return Result(kind, name, dict(counts), tuple(dict.fromkeys(reasons)), *best)


def _wants(tried: Sequence[tuple[str, str]]) -> bool:
    return len(tried) < TRIED and not any(outcome == RIGHT for outcome, _ in tried)


def _begin() -> None:
    torch.set_num_threads(1)


def run(tasks: Sequence[tuple[str, str]], jobs: int, most: int, compiles: bool) -> Iterator[Result]:
    """Every entry, several at a time."""
    function = partial(judge_entry, most=most, compiles=compiles)
    if jobs == 1:
        yield from map(function, tasks)
        return
    with multiprocessing.Pool(jobs, _begin) as pool:
        yield from pool.imap_unordered(function, tasks)


def blamed(reason: str) -> list[str]:
    """The operators that a reason names."""
    names = re.findall(r"(?:aten|deployer|prims|torchvision)\.\w+|node '[^']*' \((\w+)\)", reason)
    whole = re.findall(r"(?:aten|deployer|prims|torchvision)\.\w+", reason)
    return list(dict.fromkeys([*whole, *filter(None, names)])) or [reason[:80]]


def known(path: Path | None) -> list[Result]:
    """Results of an earlier run that was cut off, a line each."""
    if path is None or not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [Result(**{**row, "reasons": tuple(map(tuple, row["reasons"]))}) for row in rows]


def main() -> int:
    """Judge all entries, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("entries", nargs="*", help="names of entries; all by default")
    parser.add_argument("--kind", choices=list(KINDS), action="append", help="of which suite; of both by default")
    parser.add_argument("--jobs", type=int, default=2, help="entries that are judged at a time")
    parser.add_argument("--most", type=int, default=0, help="the most samples of an entry; 0 for all")
    parser.add_argument("--no-c", action="store_true", help="leave out generated C")
    parser.add_argument("--results", type=Path, help="a file of results, to which those of other entries are added")
    parser.add_argument("--write", action="store_true", help="renew docs/pytorch-coverage.md")
    options = parser.parse_args()
    results = known(options.results)
    done = {(r.kind, r.entry) for r in results}
    tasks = [(kind, name) for kind in options.kind or KINDS for name in KINDS[kind][0]()]
    tasks = [t for t in tasks if t not in done and (not options.entries or t[1] in options.entries)]
    for result in run(tasks, options.jobs, options.most, not options.no_c):
        results.append(result)
        if options.results:
            with options.results.open("a") as file:
                file.write(json.dumps(asdict(result)) + "\n")
        print(f"{result.kind} {result.entry}: {result.outcome} {result.counts}; in C {result.in_c or 'not tried'}")
        for outcome, reason in result.reasons:
            print(f"    {outcome}: {reason}")
        print(f"    in C: {result.c_reason}" if result.c_reason else "", end="\n" * bool(result.c_reason), flush=True)
    if options.write:
        from DeployTest.suites.coverage.tables import write

        write(results)
    summary(results)
    return 0


def summary(results: Sequence[Result]) -> None:
    """Print how many are right, and what stands in the way of the others."""
    for kind in KINDS:
        of = [r for r in results if r.kind == kind]
        print(kind, dict(Counter(r.outcome for r in of)), "in C", dict(Counter(r.in_c for r in of)))
    for name, count in refusals(results)[:80]:
        print(f"{count:4} {name}")


def refusals(results: Sequence[Result]) -> list[tuple[str, int]]:
    """The operators for whose sake entries are refused, and how many entries; the most frequent first."""
    frequency = Counter[str]()
    for r in results:
        frequency.update({name for outcome, reason in r.reasons if outcome == REFUSED for name in blamed(reason)})
    return frequency.most_common()
