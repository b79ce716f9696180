"""What of PyTorch can be trained: its core operators, and all samples of its own tests of operators and of modules.

Run as `python -m DeployTest.suites.aten` where PyTorch and expecttest are installed; with --write it renews
docs/pytorch-coverage.md. A sample is right where loss and every gradient of the captured step, evaluated in float64, are
those of the module itself in float64.
"""

import argparse
import multiprocessing
import re
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from deployer.core.errors import DeployerError
from deployer.torch.eager import EagerStep, eager_step
from deployer.torch.evaluate import Evaluation, Evaluator
from deployer.torch.step import capture_step
from DeployTest.suites import aten_samples
from DeployTest.suites.aten_samples import Sample

BOUND, FLOOR = 1e-9, 1e-13
"""The largest difference, as a share of a tensor's largest magnitude, and of the largest of all gradients."""
RIGHT, WRONG, REFUSED, UNFORESEEN, EMPTY = "right", "wrong", "refused", "unforeseen", "empty"
SEED = 5
Maker = Callable[[bool], Sample | None]
KINDS: dict[str, tuple[Callable[[], dict[str, Any]], Callable[[Any], Iterator[Maker]]]] = {
    "operators": (aten_samples.operators, aten_samples.samples_of),
    "modules": (aten_samples.modules, aten_samples.samples_of_module),
}


@dataclass(frozen=True)
class Result:
    """What became of an entry: of how many samples, and why one of them is not right."""

    kind: str
    entry: str
    counts: dict[str, int] = field(default_factory=dict)
    reasons: tuple[tuple[str, str], ...] = ()

    @property
    def outcome(self) -> str:
        """The worst of all samples."""
        return next((o for o in (UNFORESEEN, WRONG, REFUSED, RIGHT) if self.counts.get(o)), EMPTY)


def difference(ours: Evaluation, gold: EagerStep) -> str:
    """What is further apart than rounding in float64 accounts for; empty where nothing is."""
    if set(ours.gradients) != set(gold.gradients):
        return f"gradients of {sorted(set(ours.gradients) ^ set(gold.gradients))}"
    pairs = {"the loss": (ours.loss, gold.loss)}
    pairs |= {f"the gradient of {n}": (ours.gradients[n], g) for n, g in gold.gradients.items()}
    pairs |= {f"the next {n}": (x, gold.states[n]) for n, x in ours.states.items()}
    most = max((_most(b) for n, (_, b) in pairs.items()), default=0.0)
    for name, (a, b) in pairs.items():
        finite = np.isfinite(b)
        apart = np.abs(np.asarray(a, np.float64) - b)[finite]
        worst = float(apart.max(initial=0.0))
        if not worst <= BOUND * _most(b) + FLOOR * most:
            return f"{name} is {worst:.3g} off, of {_most(b):.3g}"
    return ""


def _most(array: Any) -> float:
    values = np.abs(np.asarray(array, np.float64))
    return float(values[np.isfinite(values)].max(initial=0.0))


def judge(make: Maker) -> tuple[str, str]:
    """What becomes of a sample, and why."""
    outcome = _judged(make, False)
    return outcome if outcome[0] != REFUSED else min(outcome, _judged(make, True), key=lambda o: o[0] == REFUSED)


def _judged(make: Maker, held: bool) -> tuple[str, str]:
    """With integers fed to the module, or held by it."""
    try:
        sample = make(held)
        if sample is None:
            return EMPTY, ""
        module, loss, data = sample.module, sample.loss, sample.data
        gold = eager_step(module, loss, data, seed=SEED)
    except Exception as error:
        return EMPTY, f"PyTorch itself: {error}"
    if not np.isfinite(gold.loss):
        return EMPTY, "the loss is not finite"
    try:
        step = capture_step(module, loss, data, seed=SEED)
        ours = Evaluator(step).run({n: x.numpy() for n, x in data.items()})
    except DeployerError as error:
        return (REFUSED if "internal" not in type(error).__name__.lower() else UNFORESEEN), _told(error)
    except Exception:
        return UNFORESEEN, traceback.format_exc(limit=-3)
    reason = difference(ours, gold)
    return (WRONG, reason) if reason else (RIGHT, "")


def _told(error: DeployerError) -> str:
    return " ".join(str(error).split())[:400]


def judge_entry(task: tuple[str, str], most: int = 0) -> Result:
    """All samples of an entry, or the first `most`."""
    kind, name = task
    found, samples = KINDS[kind]
    counts, reasons = Counter[str](), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for make in samples(found()[name]):
                outcome, reason = judge(make)
                counts[outcome] += 1
                if outcome not in (RIGHT, EMPTY):
                    reasons.append((outcome, reason))
                if most and sum(counts.values()) - counts[EMPTY] >= most:
                    break
        except Exception:  # PyTorch's own samples
            reasons.append((EMPTY, traceback.format_exc(limit=-2)))
    return Result(kind, name, dict(counts), tuple(dict.fromkeys(reasons)))


def _begin() -> None:
    torch.set_num_threads(1)


def run(tasks: Sequence[tuple[str, str]], jobs: int, most: int) -> Iterator[Result]:
    """Every entry, several at a time."""
    function = partial(judge_entry, most=most)
    if jobs == 1:
        yield from map(function, tasks)
        return
    with multiprocessing.Pool(jobs, _begin) as pool:
        yield from pool.imap_unordered(function, tasks)


def blamed(reason: str) -> list[str]:
    """The operators that a reason names."""
    return list(dict.fromkeys(re.findall(r"(?:aten|deployer|prims|torchvision)\.\w+", reason))) or [reason[:80]]


def main() -> int:
    """Judge all entries, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("entries", nargs="*", help="names of entries; all by default")
    parser.add_argument("--kind", choices=list(KINDS), action="append")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most", type=int, default=0, help="the most samples of an entry; 0 for all")
    parser.add_argument("--reasons", action="store_true", help="print each reason")
    options = parser.parse_args()
    tasks = [(kind, name) for kind in options.kind or KINDS for name in KINDS[kind][0]()]
    tasks = [t for t in tasks if not options.entries or t[1] in options.entries]
    results = []
    for result in run(tasks, options.jobs, options.most):
        results.append(result)
        print(f"{result.kind} {result.entry}: {result.outcome} {result.counts}", flush=True)
        for outcome, reason in result.reasons if options.reasons else ():
            print(f"    {outcome}: {reason}", flush=True)
    _summary(results)
    return 0


def _summary(results: Sequence[Result]) -> None:
    for kind in KINDS:
        of = [r for r in results if r.kind == kind]
        print(kind, dict(Counter(r.outcome for r in of)))
    frequency = Counter[str]()
    for r in results:
        frequency.update({name for outcome, reason in r.reasons if outcome == REFUSED for name in blamed(reason)})
    for name, count in frequency.most_common(80):
        print(f"{count:4} {name}")


if __name__ == "__main__":
    sys.exit(main())
