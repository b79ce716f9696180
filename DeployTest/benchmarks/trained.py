"""Cycles of what training spends its time in, on Siracusa under GVSoC, beside the limit of the cluster.

`python -m DeployTest.benchmarks.trained` writes trained_siracusa.json and the table of docs/cluster.md. Operands lie
in L1, all cores take part, the dispatch is counted. The steps are those of a training graph before fusion.
"""

import itertools
import math
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from deployer.calibration import measure
from deployer.calibration.measure import KernelJob
from deployer.core import target
from deployer.core.cost import all_macs
from deployer.core.ir import Program
from deployer.core.operator import Array, operator_of
from deployer.core.plan import Options, Step
from deployer.planning.schedule import make_schedule
from deployer.testing.bench import kernel_model
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.documents.cycle_tables import end, simulator_named, write_rows
from DeployTest.support.graphs.built_cases import built, opened
from DeployTest.support.graphs.small_graphs import INT64, Model, constant, node, value

MODEL = kernel_model()

RESULT = Path(__file__).with_name("trained_siracusa.json")
LIMITS = Path(__file__).with_name("trained.toml")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "cluster.md"
MARKS = ("<!-- cluster table -->", "<!-- end of cluster table -->")
Shape = tuple[int, ...]

CHANNELS, ROWS, WIDTH = 16, 32, 64
IMAGE, SMALL, MATRIX, VECTOR = (1, CHANNELS, 16, 16), (1, CHANNELS, 8, 8), (ROWS, WIDTH), (2048,)
"""What the operators work on, of the size that small networks have."""


@dataclass(frozen=True)
class Part:
    """An operator of which all operands but ids and scales are trained: the shape of the first, and of those behind."""

    op: str
    x: Shape
    weights: tuple[Shape, ...] = ()
    attrs: dict[str, object] = field(default_factory=dict)
    ids: int = 0
    scales: Shape = ()
    opset: int = 23


NEAREST: dict[str, object] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
PARTS = (
    Part("Gather", (256, WIDTH), ids=ROWS),
    Part("Sigmoid", VECTOR),
    Part("Tanh", VECTOR),
    Part("Swish", VECTOR, opset=24),
    Part("RMSNormalization", MATRIX, ((WIDTH,),)),
    Part("GroupNormalization", IMAGE, ((CHANNELS,), (CHANNELS,)), {"num_groups": 4}),
    Part("ConvTranspose", SMALL, ((CHANNELS, 8, 2, 2),), {"strides": [2, 2]}),
    Part("ConvTranspose", SMALL, ((CHANNELS, 8, 4, 4),), {"strides": [2, 2], "pads": [1] * 4}),
    Part("Resize", SMALL, scales=(1, 1, 2, 2), attrs=NEAREST),
)
UPDATES = ("sgd", "adam", "adamw")


@dataclass(frozen=True)
class Row:
    """A step: the operator and the way it belongs to, its kernel, the elements or products it works through, the
    measured cycles and the fewest the cluster could do with.
    """

    op: str
    way: str
    part: int
    kernel: str
    shape: str
    elements: int
    macs: int
    cycles: int
    limit: int
    by: str


def training(part: Part, optimizer: str, folder: Path) -> Program:
    """The training graph of a part, whose result is compared with zeros, and the update of its operands."""
    draw = np.random.default_rng(0)
    operands = {"v": part.x} | {f"w{i}": shape for i, shape in enumerate(part.weights)}
    constants = [constant(name, draw.standard_normal(shape).astype(np.float32)) for name, shape in operands.items()]
    names, inputs = list(operands), [value("offset", (1,))]
    if part.ids:
        names.append("ids")
        inputs = [value("ids", (part.ids,), INT64)]
    if part.scales:
        names += ["", "scales"]
        constants.append(constant("scales", np.array(part.scales, np.float32)))
    nodes = [node(part.op, names, ["y"], "part", **part.attrs)]
    if not part.ids:
        nodes.append(node("Add", ["y", "offset"], ["moved"]))
    model = Model(nodes, inputs, [value(nodes[-1].output[0], None)], constants, opsets=(("", part.opset),))
    report = built(folder, model, trainable="^[vw]", optimizer=optimizer, samples=1)
    return opened(report.train)[0]


@cache
def needs() -> dict[str, dict[str, int]]:
    """Return the needs of each kernel per element or product, from trained.toml."""
    return tomllib.loads(LIMITS.read_text())


def limit(symbol: str, count: int, cores: int) -> tuple[int, str]:
    """The fewest cycles for so many elements or products, and what sets them.

    A core starts one instruction a cycle; two cores share an FPU; all share the divider, which operations can replace.
    """
    need = needs()[symbol]
    plain, fpu, divider = need["memory"] + need["fpu"], need["fpu"], need["divider"]
    ways = []
    for more, waiting in ((INSTEAD * divider, 0), (divider, DIVIDER_CYCLES * divider * count)):
        busy = (fpu + (more if not waiting else 0)) * SHARING * count // cores
        ways.append(max(((plain + more) * count // cores, "issue"), (busy, "FPU"), (waiting, "divider")))
    return min(ways)


DIVIDER_CYCLES, INSTEAD, SHARING = 14, 12, 2
"""Cycles of a quotient or a root, operations of the FPU in its place, and cores per FPU."""


@dataclass(frozen=True, eq=False)
class Call:
    """A step of a training graph and one call of its kernel for all of it."""

    op: str
    way: str
    part: int
    step: Step
    job: KernelJob

    def row(self, cycles: int, cores: int) -> Row:
        """Return the measured cycles beside the limit."""
        step, symbol = self.step, self.step.kernel.symbol
        work = operator_of(step.node).work(step.node, step.access, step.access.sizes, MODEL)
        need, macs = needs()[symbol], all_macs(work)
        sizes = [math.prod(operand.view) for operand in step.access.operands]
        elements = sizes[-1] if need.get("written") else max(sizes)
        fewest, by = limit(symbol, macs if need.get("products") else elements, cores)
        shape = "x".join(str(n) for n in step.access.sizes.values())
        return Row(self.op, self.way, self.part, symbol, shape, elements, macs, cycles, fewest, by)


def calls(part: Part, optimizer: str, folder: Path) -> Iterator[Call]:
    """The steps of a part forward and backward, and of its first operand's update."""
    program, draw = training(part, optimizer, folder), np.random.default_rng(1)
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    values: dict[str, Array] = {name: t.array for name, t in program.tensors.items() if t.data is not None}
    if part.ids:
        values["ids"] = draw.integers(0, part.x[0], part.ids).astype(np.int32)
    for step in make_schedule(program, Options("siracusa")).steps:
        name, known = step.node.name, values
        way = "update" if name == f"{optimizer}_v" else "backward" if "_Grad/" in name else "forward"
        if way == "update":  # moments as after some steps
            floats = [n for n in step.node.inputs if types[n].dtype == "float32"]
            known = values | {n: np.square(draw.standard_normal(types[n].shape)).astype(np.float32) for n in floats}
            known |= {n: np.ones(types[n].shape, np.int32) for n in step.node.inputs if n not in floats}
        if name.startswith(("part", "v_Grad")) or way == "update":
            tile = {dim: (0, size) for dim, size in step.access.sizes.items()}
            label = f"{part.op} {name}"
            yield Call(
                part.op,
                way,
                PARTS.index(part) if part in PARTS else len(PARTS),
                step,
                measure.kernel_job(label, step.node, types, known, tile, MODEL),
            )


def listed() -> Iterator[Call]:
    """All parts forward and backward, and an update by each optimizer."""
    for part in PARTS:
        with tempfile.TemporaryDirectory() as folder:
            yield from (call for call in calls(part, UPDATES[0], Path(folder)) if call.way != "update")
    for optimizer in UPDATES:
        with tempfile.TemporaryDirectory() as folder:
            found = [call for call in calls(Part("Relu", VECTOR), optimizer, Path(folder)) if call.way == "update"]
            yield from (replace(call, op=call.step.node.op) for call in found)


def markdown(found: Sequence[Row]) -> str:
    """A line for each operator and way, then one for each of its kernels."""
    lines = ["| operator | kernel | loops | elements | cycles | per element | limit | times the limit | set by |"]
    lines.append("|---|---|---|---:|---:|---:|---:|---:|---|")
    for (op, way, _), group in itertools.groupby(found, key=lambda row: (row.op, row.way, row.part)):
        steps = list(group)
        if len(steps) > 1:
            lines.append(_line(f"**{op}, {way}**", f"{len(steps)} steps", steps))
        lines += [_line(f"{op}, {way}" if len(steps) == 1 else "", f"`{row.kernel}`", [row]) for row in steps]
    return "\n".join(lines)


def _line(label: str, kernel: str, steps: Sequence[Row]) -> str:
    cycles, fewest = sum(row.cycles for row in steps), sum(row.limit for row in steps)
    elements, one = max(row.elements for row in steps), steps[0] if len(steps) == 1 else None
    cells = [label, kernel, one.shape if one else "", elements, cycles, f"{cycles / elements:.2f}"]
    cells += [f"{fewest / elements:.2f}", f"{cycles / fewest:.1f}", one.by if one else ""]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    """Measure all steps in one run of the simulator, and renew the result and the page."""
    simulator, machine, steps = simulator_named(__doc__), target.load("siracusa"), list(listed())
    with tempfile.TemporaryDirectory() as folder:
        measured = measure.measure_jobs(machine, [call.job for call in steps], Path(folder))
    found = [call.row(result.warm, machine.cores) for call, result in zip(steps, measured, strict=True)]
    rows = [asdict(row) for row in found]
    write_rows(RESULT, {"target": machine.name, "cores": machine.cores}, simulator, "steps", rows)
    print(markdown(found))
    publish(__file__, PAGE, MARKS, markdown(found))
    return 0


if __name__ == "__main__":
    end(main)
