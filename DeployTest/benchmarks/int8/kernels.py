"""Convolutions of 8-bit numbers on Siracusa under GVSoC, and on a Cortex-M4 under its emulator.

`python -m DeployTest.benchmarks.int8.kernels` writes kernels.json and the table of docs/fine-tuning.md, in a minute. It
needs GVSoC. Siracusa's operands lie in L1, all eight cores take part, and the dispatch is counted; the Cortex-M4's
figures are instructions, which its emulator counts. Each call has the bits of the portable kernel, as the run checks.
"""

import math
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from deployer.calibration import measure
from deployer.calibration.measure import KernelJob
from deployer.core import target
from deployer.core.ir import AttrValue
from deployer.core.operator import registry
from deployer.core.samples import Sample
from deployer.sizing.boards import core_of
from deployer.testing.bench import kernel_model, step_of
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.documents.cycle_tables import end, simulator_named, write_rows
from DeployTest.support.kernels.comparing import on_host
from DeployTest.support.kernels.core_programs import run_on_core

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "fine-tuning.md"
MARKS = ("<!-- kernels table -->", "<!-- end of kernels table -->")
CORE = "cortex-m4"
MODEL = kernel_model()
LAYERS = (
    *((3, 16, 16, 16), (3, 32, 32, 16), (3, 64, 64, 8)),
    *((1, 16, 16, 32), (1, 16, 96, 16), (1, 32, 32, 16), (1, 64, 64, 16), (1, 96, 16, 16), (1, 128, 64, 8)),
)
"""Sides of the kernel, channels, filters, and sides of the image, padded to the same."""


@dataclass(frozen=True)
class Row:
    """A layer's products, cycles on the cluster and instructions on the core."""

    layer: str
    image: int
    macs: int
    cycles: int
    instructions: int


def job_of(side: int, channels: int, filters: int, image: int) -> tuple[KernelJob, int]:
    """The call of a layer on drawn numbers, and its products."""
    draw = np.random.default_rng(side * channels + filters)
    pad = side // 2
    ratios = draw.uniform(0.2, 1.8, filters) * 0.006 / math.sqrt(channels * side**2)
    bias = draw.integers(-20000, 20000, filters).astype(np.int32)
    shapes = (1, image, image, channels), (filters, side, side, channels)
    x, w = (draw.integers(-128, 128, shape).astype(np.int8) for shape in shapes)
    attrs: dict[str, AttrValue] = {"pads": (pad,) * 4, "x_zero": -9, "zero": -7}
    step = step_of(registry()["Int8Conv"], Sample("layer", (x, w, bias, ratios.astype(np.float32)), attrs))
    tile = {dim.name: (0, dim.size) for dim in step.access.dims}
    job = measure.kernel_job(f"{side}x{side} {channels}", step.node, step.types, step.values, tile, MODEL)
    return job, w.size * image**2


def main() -> int:
    """Measure all layers, check their bits, and renew the result and the page."""
    simulator = simulator_named(__doc__)
    jobs, macs = zip(*(job_of(*layer) for layer in LAYERS), strict=True)
    machine, core = target.load("siracusa"), core_of(CORE)
    with tempfile.TemporaryDirectory() as folder:
        clustered = measure.measure_jobs(machine, jobs, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        emulated = run_on_core(core, jobs, Path(folder))
    rows = []
    for layer, job, count, cluster, call in zip(LAYERS, jobs, macs, clustered, emulated, strict=True):
        assert np.array_equal(cluster.operands["y"], on_host(job)["y"]), f"{job.label} differs on the cluster"
        assert call.equal, f"{job.label} differs on {CORE}"
        name = f"{layer[0]}x{layer[0]}, {layer[1]} to {layer[2]}"
        rows.append(Row(name, layer[3], count, cluster.warm, call.instructions))
    print(markdown(rows))
    head = {"target": machine.name, "cores": machine.cores, "core": CORE}
    write_rows(RESULT, head, simulator, "layers", [asdict(row) for row in rows])
    publish(__file__, PAGE, MARKS, markdown(rows))
    return 0


def markdown(rows: list[Row]) -> str:
    """A line per layer, with the rounding to 8 bits."""
    heads = ("layer", "image", "Siracusa, cycles", "products a cycle", "Cortex-M4, instructions", "a product")
    lines = [f"| {' | '.join(heads)} |", f"|---|---|{'---:|' * (len(heads) - 2)}"]
    for r in rows:
        cells = (f"{r.cycles}", f"{r.macs / r.cycles:.1f}", f"{r.instructions}", f"{r.instructions / r.macs:.2f}")
        lines.append(f"| {' | '.join((r.layer, f'{r.image}x{r.image}', *cells))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    end(main)
