"""Cost of canonical order: predicted cycles of an update of eight samples on Siracusa, by how they are split.

`python -m DeployTest.benchmarks.cluster.canonical` writes canonical.json and the table of docs/cluster.md, in some five
minutes. Eight passes of one sample and one pass of eight are planned without --canonical-batch, and the latter with it.
"""

import importlib
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from deployer import pipeline
from deployer.core.plan import Options
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.documents.cycle_tables import end, write_rows

RESULT = Path(__file__).with_name("canonical.json")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "cluster.md"
MARKS = ("<!-- canonical table -->", "<!-- end of canonical table -->")
SAMPLES, L1 = 8, 128_000
MODELS: dict[str, dict[str, Any]] = {
    "simple_mlp": {},
    "autoencoder": {},
    "lstm": {},
    "transformer": {},
    "dscnn": {"batch_norm": False},
    "mobilenet_v1": {"batch_norm": False},
}


@dataclass(frozen=True)
class Row:
    """Cycles and steps of one model: of eight passes, of one pass, and of one pass in canonical order."""

    model: str
    passes: int
    batch: int
    canonical: int
    batch_steps: int
    canonical_steps: int


def planned(model: str, batch: int, folder: Path, canonical: bool) -> tuple[int, int]:
    """Cycles of an update of all samples in passes of so many, and the steps of the plan."""
    passes = SAMPLES // batch
    generate = importlib.import_module(f"DeployTest.models.{model}").generate
    words = {"batch": batch, "n_accum": passes, "n_batches": passes, "samples": 1, **MODELS[model]}
    case = pipeline.load_training(generate(folder, **words))
    options = Options("siracusa", "auto", {"L1": L1}, outermost="L3", canonical_batch=canonical)
    _, plan = pipeline.plan_case(case, options)
    return passes * plan.cycles("train") + plan.cycles("optimizer"), len(plan.steps)


def measured(model: str) -> Row:
    """All plans of a model."""
    found = []
    for batch, canonical in ((1, False), (SAMPLES, False), (SAMPLES, True)):
        with tempfile.TemporaryDirectory() as folder:
            found.append(planned(model, batch, Path(folder), canonical))
    (passes, _), (whole, whole_steps), (canonical_cycles, canonical_steps) = found
    return Row(model, passes, whole, canonical_cycles, whole_steps, canonical_steps)


def markdown(rows: Sequence[Row]) -> str:
    """A line per model."""
    names = ("model", "8 passes of 1", "1 pass of 8", "in canonical order", "more", "steps", "in canonical order")
    lines = [f"| {' | '.join(names)} |", "|---|---:|---:|---:|---:|---:|---:|"]
    for row in rows:
        more = f"{100 * (row.canonical - row.batch) / row.batch:+.0f} %"
        cells = [row.model, row.passes, row.batch, row.canonical, more, row.batch_steps, row.canonical_steps]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    """Plan all, and renew the result and the page."""
    console, found = Console(stderr=True), []
    for model in MODELS:
        with console.status(model):
            found.append(measured(model))
    write_rows(RESULT, {"target": "siracusa", "l1": L1}, "none: cost model", "rows", [asdict(row) for row in found])
    print(markdown(found))
    publish(__file__, PAGE, MARKS, markdown(found))
    return 0


if __name__ == "__main__":
    end(main)
