"""Attention in steps that keep rows of scores, beside its products and softmax, on Siracusa under GVSoC.

`python -m DeployTest.benchmarks.cluster.attention` writes attention.json and the table of docs/cluster.md, in some ten
minutes. It needs GVSoC. Both forms give the same bits, which the run checks.
"""

import itertools
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from deployer import pipeline
from deployer.core.plan import Options
from deployer.fusions import attention
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.fusions.test_attention import Attention
from DeployTest.support.building.cases import Built, result_hash
from DeployTest.support.documents.cycle_tables import end, write_rows

RESULT = Path(__file__).with_name("attention.json")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "cluster.md"
MARKS = ("<!-- attention table -->", "<!-- end of attention table -->")
HEADS, SIZES = 4, ((64, 16), (64, 32), (256, 16), (256, 32))


@dataclass(frozen=True)
class Row:
    """Cycles of both forms of attention with so many keys of one width."""

    keys: int
    width: int
    causal: bool
    gradient: bool
    steps: int
    nodes: int
    chosen: bool


def measured(keys: int, width: int, causal: bool, gradient: bool) -> Row:
    """Both forms of one sample, with tensors up to L3, and which of them the cost model chooses."""
    cycles, found, chosen = [], set(), []
    usual = attention.is_quicker
    for disabled in ((), ("attention",)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            sizes = Attention(keys, (HEADS, HEADS), width=(width, width), causal=causal, batch=1)
            case = pipeline.load_inference_case(sizes.model(gradient).save(folder / "model.onnx"))
            options = Options("siracusa", disabled_rewrites=disabled, outermost="L3")
            attention.is_quicker = lambda *region: chosen.append(usual(*region)) or True  # measured in any case
            try:
                tiling, plan = pipeline.plan_case(case, options)
            finally:
                attention.is_quicker = usual
            pipeline.write_case(case, tiling, plan, folder / "code")
            pipeline.build_case(plan, folder / "code")
            outcome = Built(case, tiling, plan, folder / "code").run()
        cycles.append(int(outcome.bench["infer_cycles"]))
        found.add(result_hash(outcome))
    assert len(found) == 1, "the forms give different bits"
    return Row(keys, width, causal, gradient, cycles[0], cycles[1], all(chosen))


def markdown(rows: Sequence[Row]) -> str:
    """A line per size."""
    names = ("keys", "width", "", "causal", "products and softmax", "steps", "difference", "chosen")
    lines = [f"| {' | '.join(names)} |", "|---:|---:|---|---|---:|---:|---:|---|"]
    for row in rows:
        form = "with gradients" if row.gradient else "forward"
        difference = f"{100 * (row.steps - row.nodes) / row.nodes:+.0f} %"
        chosen = "steps" if row.chosen else "products"
        cells = [row.keys, row.width, form, "yes" if row.causal else "no", row.nodes, row.steps, difference, chosen]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    """Measure all, and renew the result and the page."""
    console, found = Console(stderr=True), []
    for (keys, width), gradient, causal in itertools.product(SIZES, (False, True), (True, False)):
        with console.status(f"{keys} keys of {width}"):
            found.append(measured(keys, width, causal, gradient))
    write_rows(RESULT, {"target": "siracusa", "heads": HEADS}, "gvsoc", "rows", [asdict(row) for row in found])
    print(markdown(found))
    publish(__file__, PAGE, MARKS, markdown(found))
    return 0


if __name__ == "__main__":
    end(main)
