"""Cycles of one update on Siracusa under GVSoC, by optimizer, beside what the DMA needs for its bytes.

`python -m DeployTest.benchmarks.updates` writes updates_siracusa.json and the table of docs/cluster.md. The optimizer
graph runs alone, on the model's initial weights and drawn gradients and states; its results are compared with float64.
"""

import importlib
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from deployer import pipeline
from DeployTest.benchmarks.siracusa import BYTES_PER_CYCLE
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.building.cases import compile_case, faults
from DeployTest.support.documents.cycle_tables import end, simulator_named, write_rows

RESULT = Path(__file__).with_name("updates_siracusa.json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "cluster.md"
MARKS = ("<!-- updates table -->", "<!-- end of updates table -->")
MODELS, OPTIMIZERS = ("autoencoder", "resnet8"), ("sgd", "adam", "adamw")
L1 = 128000


@dataclass(frozen=True)
class Row:
    """One measured update: parameters, cycles, the cost model's, bytes towards the kernels and away from them."""

    model: str
    optimizer: str
    parameters: int
    cycles: int
    predicted: int
    bytes_in: int
    bytes_out: int

    @property
    def bound(self) -> int:
        """Cycles of the DMA, which moves both ways at once."""
        return max(self.bytes_in, self.bytes_out) // BYTES_PER_CYCLE


def measured(model: str, optimizer: str, folder: Path) -> Row:
    """Generate, compile and run the update of a model."""
    generator = importlib.import_module(f"DeployTest.models.{model}")
    train = generator.generate(folder, optimizer=optimizer, samples=1, n_batches=1)
    case = pipeline.load_optimizer_case(train)
    built = compile_case(case, folder / "c", "auto", L1, target="siracusa")
    outcome = built.run()
    wrong = faults(built, outcome)
    if wrong:
        raise SystemExit(f"{model} {optimizer}: {wrong[0]}")
    steps = built.plan.steps
    return Row(
        model=model,
        optimizer=optimizer,
        parameters=sum(case.program.tensors[gradient].type.size for gradient in case.program.data),
        cycles=next(int(outcome.bench[name]) for name in ("opt_cycles", "infer_cycles") if name in outcome.bench),
        predicted=built.plan.cycles(steps[0].graph),
        bytes_in=sum(step.bytes_in for step in steps),
        bytes_out=sum(step.bytes_out for step in steps),
    )


def markdown(found: Sequence[Row]) -> str:
    """A line per model and optimizer."""
    names = (
        "model",
        "optimizer",
        "parameters",
        "cycles",
        "predicted",
        "per parameter",
        "against SGD",
        "DMA bound",
        "share",
    )
    lines = [f"| {' | '.join(names)} |", "|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    for row in found:
        plain = next(other for other in found if other.model == row.model)
        off = 100 * (row.predicted - row.cycles) / row.cycles
        cells = [row.model, row.optimizer, row.parameters, row.cycles, f"{off:+.1f} %"]
        cells += [f"{row.cycles / row.parameters:.2f}", f"{row.cycles / plain.cycles:.1f}", row.bound]
        lines.append(f"| {' | '.join(map(str, cells))} | {100 * row.bound / row.cycles:.0f} % |")
    return "\n".join(lines)


def main() -> int:
    """Measure all, and renew the result and the page."""
    simulator = simulator_named(__doc__)
    console, found = Console(stderr=True), []
    for model in MODELS:
        for optimizer in OPTIMIZERS:
            with tempfile.TemporaryDirectory() as folder, console.status(f"{model} {optimizer}"):
                found.append(measured(model, optimizer, Path(folder)))
    write_rows(RESULT, {"target": "siracusa", "l1": L1}, simulator, "updates", [asdict(row) for row in found])
    print(markdown(found))
    publish(__file__, PAGE, MARKS, markdown(found))
    return 0


if __name__ == "__main__":
    end(main)
