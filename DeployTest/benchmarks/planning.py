"""Cost of planning: processor time, peak memory and bytes of the artefacts; writes planning.json and its table.

Run as `python -m DeployTest.benchmarks.planning`, some five minutes; `--only WORD` measures cases with that in their
name, and prints them alone. Each case is written in a process and planned in another. `--run` also builds and runs
each program on the host's simulator and judges it. `--against CHECKOUT` instead plans networks drawn by seed with the
code of another checkout and with this one's, in turns, and prints the figures of both.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from deployer import pipeline
from deployer.core.artefact import digest
from deployer.core.plan import Options
from DeployTest.benchmarks.drawn import compare
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.models import mobilenet_v1, resnet8, transformer
from DeployTest.support.building.cases import SHARED, Built, faults
from DeployTest.support.building.other_levels import ROOMY, add_targets

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "testing.md"
MARKS = ("<!-- planning table -->", "<!-- end of planning table -->")
LARGEST = 300_000
"""Layers times width squared, above which weights and gradients of an encoder take more than 32 MB."""
PAIR: dict[str, Any] = {"samples": 2, "n_batches": 2}


@dataclass(frozen=True)
class Job:
    """A case to plan with `auto`; `make` writes it, or it is one of those from outside, and absent without them."""

    name: str
    make: Callable[..., Path] | None
    words: dict[str, Any]
    l1: int = 128000
    l2: int = 1800000
    fused: bool = False

    def folder(self, root: Path) -> Path:
        """Its *_train folder."""
        if self.make is None:
            return next((SHARED / "training" / self.name).glob("*_train"))
        return self.make(root / "case", **self.words)

    @property
    def available(self) -> bool:
        """Whether it can be planned here."""
        return self.make is not None or (SHARED / "training" / self.name).is_dir()


def encoder(layers: int, width: int) -> Job:
    """A transformer of 64 tokens. All gradients of the largest do not fit the third level beside the weights, so each
    weight is updated as soon as its gradient is known."""
    words = {"layers": layers, "width": width, "hidden": 4 * width, "tokens": 64, **PAIR}
    fused = layers * width * width > LARGEST
    name = f"transformer, {layers} layers of {width}{', fused' if fused else ''}"
    return Job(name, transformer.generate, words, fused=fused)


JOBS = (
    Job("MobileNetV1", mobilenet_v1.generate, PAIR, l2=512000),
    Job("ResNet-20", resnet8.generate, {"blocks": 3, **PAIR}),
    Job("ResNet-32", resnet8.generate, {"blocks": 5, **PAIR}),
    Job("ResNet-56", resnet8.generate, {"blocks": 9, **PAIR}),
    Job("CCT_LoRA", None, {}),
    *(encoder(layers, width) for layers in (12, 24) for width in (64, 128)),
)


@dataclass(frozen=True)
class Row:
    """A case's figures; seconds are of processor time, and of the clock on a machine that may do other work."""

    name: str
    steps: int
    seconds: float
    clock: float
    megabytes: int
    plan_bytes: int
    tiling_bytes: int
    train_cycles: int
    digest: str
    verdict: str

    def cells(self) -> list[str]:
        """The table's cells."""
        sizes = [f"{size / self.steps:.0f}" for size in (self.plan_bytes, self.tiling_bytes)]
        times = [f"{seconds:.1f}" for seconds in (self.seconds, self.clock)]
        return [self.name, str(self.steps), *times, str(self.megabytes), *sizes, self.verdict]


def written(number: int, root: Path) -> Path:
    """The folder of a case, which this process writes; what that takes is no part of planning it."""
    return JOBS[number].folder(root)


def measured(number: int, folder: Path, run: bool) -> Row:
    """Plan a case in this process."""
    job = JOBS[number]
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        root = Path(name)
        add_targets(root / "targets", patch)
        case = pipeline.load_training(folder)
        begin, clock = time.process_time(), time.monotonic()
        options = Options(ROOMY, "auto", {"L1": job.l1, "L2": job.l2}, outermost="L3", fuse_update=job.fused)
        tiling, plan = pipeline.plan_case(case, options)
        seconds, clock = time.process_time() - begin, time.monotonic() - clock
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        pipeline.write_case(case, tiling, plan, root / "c")
        sizes = [(root / "c" / f"{file}.json").stat().st_size for file in ("plan", "tiling")]
        verdict = ""
        if run:
            pipeline.build_case(plan, root / "c")
            built = Built(case, tiling, plan, root / "c")
            found = faults(built, built.run())
            verdict = found[0] if found else "right"
        return Row(
            job.name, len(plan.steps), round(seconds, 2), round(clock, 2), peak, *sizes,
            plan.cycles(plan.graphs[0]), digest(plan), verdict,
        )  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and write or print the table."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.benchmarks.planning", description=__doc__)
    parser.add_argument("--only", metavar="WORD", default="", help="cases with this in their name")
    parser.add_argument("--run", action="store_true", help="build and run each program too, and judge it")
    parser.add_argument("--against", metavar="CHECKOUT", type=Path, help="plan drawn networks with this other code too")
    a = parser.parse_args(words)
    if a.against:
        return compare(a.against.resolve())
    rows = []
    for number, job in enumerate(JOBS):
        if a.only in job.name and job.available:
            with tempfile.TemporaryDirectory() as name, get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
                folder = pool.apply(written, (number, Path(name)))
                rows.append(pool.apply(measured, (number, folder, a.run)))
            print(rows[-1], flush=True)
    heads = ("network", "steps", "processor s", "clock s", "MB", "plan, B a step", "tiling, B a step", "run")
    lines = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 2) + "---|"]
    lines += [f"| {' | '.join(row.cells())} |" for row in rows]
    print("\n".join(lines))
    if not a.only:
        RESULT.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
        publish(__file__, PAGE, MARKS, "\n".join(lines))
    return 0 if all(row.verdict in ("", "right") for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
