"""Verdicts over seeds: how many right runs pass, need an explanation, or fail; writes the table of docs/verdict.md.

Run as `python -m DeployTest.benchmarks.verdicts`, about 15 minutes; `--seeds 3` and `--only WORD` make less, and print
it alone. Beside each generated program stands numpy's float32 on the same case. Exit code 1 where a run fails.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from deployer import pipeline
from deployer.judging import judge_of
from deployer.pipeline import Case
from deployer.running.report import make_report
from deployer.running.run import Outcome
from deployer.verify.checks import Checks, Judge
from deployer.verify.same_state import recorded_passes
from deployer.verify.tolerances import TOLERANCES
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.models import dscnn, mobilenet_v1
from DeployTest.models.parts.generator import Generate
from DeployTest.support.building.cases import Built, compile_case, worst_difference
from DeployTest.support.graphs.turned import recorded_run

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "verdict.md"
MARKS = ("<!-- verdicts -->", "<!-- end of verdicts -->")
L1 = 128000


@dataclass(frozen=True)
class Net:
    """A generated network; its case has so many passes, each with an update, at that rate."""

    name: str
    generate: Generate
    fresh: bool
    passes: int
    rate: float

    def case(self, folder: Path, seed: int) -> Case:
        """The case of a seed: other weights, other samples, the same graph."""
        options = {"samples": self.passes, "n_batches": self.passes, "learning_rate": self.rate}
        return pipeline.load_training(self.generate(folder, seed=seed, fresh_norms=self.fresh, **options))


NETS = (
    Net("MobileNetV1, 4 passes", mobilenet_v1.generate, False, 4, 0.002),
    Net("MobileNetV1, fresh norms, 4 passes", mobilenet_v1.generate, True, 4, 0.002),
    Net("DSCNN, 6 passes", dscnn.generate, False, 6, 0.05),
    Net("DSCNN, fresh norms, 6 passes", dscnn.generate, True, 6, 0.05),
)


@dataclass
class Count:
    """Verdicts of a net's runs, and the number of runs that ended further from float64 than the tolerance."""

    verdicts: list[str] = field(default_factory=list)
    drifted: int = 0
    severity: float = 0.0

    def add(self, checks: Checks, distance: float, verdict: str) -> str:
        """Count a run; a line about it."""
        self.verdicts.append(verdict)
        self.drifted += not distance <= TOLERANCES.loss
        right = [row.severity for row in checks.rows if not row.explained]
        self.severity = max([self.severity, *right])
        return f"{verdict}, {distance:.1e} from float64, {100 * max(right, default=0.0):.2g} % of the bounds"

    def cells(self) -> list[str]:
        """The table's cells."""
        counts = [str(self.verdicts.count(verdict)) for verdict in ("passed", "explained", "failed")]
        return [*counts, str(self.drifted), f"{100 * self.severity:.2g} %"]


def runs(net: Net, seeds: int, folder: Path) -> Iterator[tuple[int, Case, Built, Outcome]]:
    """The runs of a net; the program is planned and built once, its input file is of each seed."""
    built: Built | None = None
    for seed in range(seeds):
        case = net.case(folder / str(seed), seed)
        if built is None:
            built = compile_case(case, folder / "c", "auto", L1, outermost="L3")
        pipeline.write_case(case, built.tiling, built.plan, built.directory)
        pipeline.build_case(built.plan, built.directory)
        yield seed, case, built, pipeline.execute(case, built.plan, built.directory)


def judged(net: Net, seeds: int, folder: Path) -> tuple[Count, Count]:
    """Ours and numpy's runs."""
    ours, theirs = Count(), Count()
    for seed, case, built, outcome in runs(net, seeds, folder):
        judge = judge_of(case, built.plan, outcome, TOLERANCES.loss)
        expected = pipeline.expectation(case, built.plan)
        report = make_report(built.plan, outcome, expected, TOLERANCES.loss, judge=judge)
        said = ours.add(report.checks, worst_difference(case, outcome), report.verdict)
        print(f"{net.name}, seed {seed}, ours: {said}", *report.faults[:2], sep="\n  ", flush=True)
        assert case.dataset is not None
        recorded = recorded_run(case)
        passes = recorded_passes(case.program, case.dataset, recorded, case.dataset.n_batches)
        checks = Judge(case.program, case.dataset, TOLERANCES.loss, passes).checks()
        arrays = {name: np.asarray(array) for name, array in recorded.final.items() if name in case.expected}
        distance = worst_difference(case, Outcome("", recorded.losses, {**case.expected, **arrays}, {}, 0))
        verdict = "failed" if checks.faults else "explained" if checks.explained else "passed"
        said = theirs.add(checks, distance, verdict)
        print(f"{net.name}, seed {seed}, numpy: {said}", *checks.faults[:2], sep="\n  ", flush=True)
    return ours, theirs


def main(words: Sequence[str] | None = None) -> int:
    """Run, and write or print the table."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.benchmarks.verdicts", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="runs of each net (default 20)")
    parser.add_argument("--only", metavar="WORD", default="", help="nets with this in their name")
    a = parser.parse_args(words)
    rows = ["| net | float32 of | passed | explained | failed | beyond 1e-5 of float64's run | worst, of the bounds |"]
    rows.append("|---" * 7 + "|")
    failed = 0
    for net in NETS:
        if a.only in net.name:
            with tempfile.TemporaryDirectory() as folder:
                counts = judged(net, a.seeds, Path(folder))
            failed += counts[0].verdicts.count("failed")
            for whose, count in zip(("ours", "numpy"), counts, strict=True):
                rows.append(f"| {net.name} | {whose} | {' | '.join(count.cells())} |")
    print("\n".join(rows))
    if a.seeds == parser.get_default("seeds") and not a.only:
        publish(__file__, PAGE, MARKS, "\n".join(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
