"""Cycles of Siracusa's kernels under GVSoC: `python -m DeployTest.benchmarks.kernels` writes kernels_siracusa.json.

Operands lie in L1, all cores take part, and the dispatch is counted; the same sources give the same cycles.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from deployer.calibration import measure
from deployer.calibration.measure import Job
from deployer.core import target
from deployer.core.cost import all_macs
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import operator_of
from deployer.operators.products.convolution_geometry import geometry
from deployer.testing.bench import kernel_model
from DeployTest.benchmarks.upkeep.commits import stamp
from DeployTest.support.documents.cycle_tables import end, simulator_named, write_rows

MODEL = kernel_model()

RESULT = Path(__file__).with_name("kernels_siracusa.json")
Shape = tuple[int, ...]


PAD: dict[str, AttrValue] = {"pads": (1, 1, 1, 1)}
STRIDED: dict[str, AttrValue] = {"strides": (2, 2)}
LAYERS: tuple[tuple[str, Shape, Shape, dict[str, AttrValue]], ...] = (
    ("3x3", (1, 16, 32, 32), (16, 16, 3, 3), PAD),
    ("3x3", (1, 32, 16, 16), (32, 32, 3, 3), PAD),
    ("3x3", (1, 64, 8, 8), (32, 64, 3, 3), PAD),
    ("3x3", (1, 16, 4, 32), (4, 16, 3, 3), PAD),
    ("3x3 /2", (1, 16, 32, 32), (32, 16, 3, 3), {**PAD, **STRIDED}),
    ("3x3 /2", (1, 3, 40, 96), (8, 3, 3, 3), {**PAD, **STRIDED}),
    ("10x4 /2", (1, 1, 49, 10), (64, 1, 10, 4), {"pads": (5, 1, 4, 1), **STRIDED}),
    ("1x1", (1, 64, 25, 5), (64, 64, 1, 1), {}),
    ("1x1", (1, 64, 16, 16), (64, 64, 1, 1), {}),
    ("1x1", (1, 8, 24, 48), (16, 8, 1, 1), {}),
    ("1x1", (1, 128, 3, 3), (128, 128, 1, 1), {}),
    ("1x1", (1, 16, 5, 5), (8, 16, 1, 1), {}),
    ("1x1 /2", (1, 16, 32, 32), (32, 16, 1, 1), STRIDED),
    ("depthwise", (1, 64, 25, 5), (64, 1, 3, 3), {"group": 64, **PAD}),
    ("depthwise", (1, 32, 16, 16), (32, 1, 3, 3), {"group": 32, **PAD}),
    ("depthwise", (1, 128, 6, 6), (128, 1, 3, 3), {"group": 128, **PAD}),
    ("depthwise", (1, 8, 5, 8), (8, 1, 3, 3), {"group": 8, **PAD}),
    ("depthwise /2", (1, 32, 16, 16), (32, 1, 3, 3), {"group": 32, **PAD, **STRIDED}),
)
"""X, W and attributes of convolutions in small networks, and of parts of them."""
PLANES: tuple[Shape, ...] = ((1, 16, 32, 32), (1, 64, 25, 5), (1, 64, 8, 8), (1, 8, 24, 48))
"""X of batch normalization and pooling."""


@dataclass(frozen=True)
class Row:
    """Benchmark row: a job, and the count and unit of its work."""

    kernel: str
    shape: str
    form: str
    job: Job
    count: int
    unit: str


def _row(
    op: str, shapes: Mapping[str, Shape], form: str = "", flag: int = 0, outputs: int = 1, **attrs: AttrValue
) -> Row:
    """A node over named inputs; "labels" and "flag" are integers."""
    types = {n: TensorType("int32" if n in ("labels", "flag") else "float32", s) for n, s in shapes.items()}
    node = Node(op, op, tuple(shapes), tuple(f"out{i}" for i in range(outputs)), dict(attrs))
    operator = operator_of(node)
    types.update(zip(node.outputs, operator.infer(node, [types[n] for n in shapes]), strict=False))
    access = operator.access(node, types)
    tile = {name: (0, size) for name, size in access.sizes.items()}
    work = operator.work(node, access, access.sizes, MODEL)
    job = measure.kernel_job(f"{op} {form}", node, types, {}, tile, MODEL, flag)
    shape = " ".join("x".join(map(str, s)) or "1" for s in shapes.values())
    if op.startswith("Conv") or (op == "Gemm" and access.sizes["k"] > 1):
        return Row(job.kernel.symbol, shape, form, job, all_macs(work), "macs")
    return Row(job.kernel.symbol, shape, form, job, max(kind.size for kind in types.values()), "elements")


def rows() -> Iterator[Row]:
    """Every kernel the targets name, and the shapes of small training graphs."""
    yield Row("", "", "dispatch", measure.DISPATCH, 0, "")
    for m, n, k in ((64, 64, 64), (1, 64, 128), (1, 32, 64), (1, 16, 128), (1, 10, 64), (16, 10, 64), (4, 128, 64)):
        for a in (0, 1) if m > 1 else (0,):
            for b in (0, 1):
                inputs = {"a": (k, m) if a else (m, k), "b": (n, k) if b else (k, n)}
                yield _row("Gemm", inputs, f"{'nt'[a]}{'nt'[b]}", transA=a, transB=b)
    yield _row("Gemm", {"a": (1, 128), "b": (64, 128), "c": (64,)}, "nt bias", transB=1)
    for m, n in ((64, 128), (128, 64), (64, 32), (32, 32), (10, 64)):
        yield _row("Gemm", {"a": (1, m), "b": (1, n)}, "outer", transA=1)
    for size in (64, 1024, 4096):
        yield _row("Relu", {"x": (size,)})
        for op in ("ReluGrad", "SGD", "Add", "Mul", "Div", "MSELoss", "MSELossGrad"):
            yield _row(op, {"a": (size,), "b": (size,)})
        for flag in (0, 1):
            yield _row("InPlaceAccumulatorV2", {"a": (size,), "b": (size,), "flag": (1,)}, ("add", "copy")[flag], flag)
    yield _row("Add", {"a": (64, 64), "b": (64,)}, "row")
    yield _row("ReduceSum", {"x": (64, 64)}, "columns", axes=(0,))
    yield _row("ReduceSum", {"x": (64, 64)}, "rows", axes=(1,))
    for batch, classes in ((1, 10), (16, 100)):
        yield _row("LogSoftmax", {"x": (batch, classes)}, axis=1)
        yield _row("NegativeLogLikelihoodLoss", {"x": (batch, classes), "labels": (batch,)})
        yield _row("SoftmaxCrossEntropyLossGrad", {"dloss": (), "x": (batch, classes), "labels": (batch,)})


def convolutions() -> Iterator[Row]:
    """Each layer and its gradients."""
    for form, x, w, attrs in LAYERS:
        shape = geometry(Node("", "Conv", (), (), attrs), x, w, ())
        y, reach = shape.y_shape, {**attrs, "input_shape": shape.input_shape}
        yield _row("Conv", {"x": x, "w": w}, form, **attrs)
        yield _row("ConvGradX", {"dy": y, "w": w}, form, **reach)
        yield _row("ConvGradW", {"dy": y, "x": x}, form, **{**attrs, "kernel_shape": w[2:]})


def planes() -> Iterator[Row]:
    """Batch normalization step by step, forward and backward, and pooling."""
    for x in PLANES:
        c = x[1:2]
        yield _row("ChannelMoments", {"x": x}, outputs=3)
        yield _row("ChannelVariance", {"x": x, "mean": c})
        yield _row("ChannelNormalize", {"x": x, "scale": c, "bias": c, "mean": c, "inv_std": c, "rest": c})
        yield _row("ChannelGradSums", {"dy": x, "x": x, "mean": c, "inv_std": c, "rest": c}, outputs=2)
        yield _row(
            "ChannelNormalizeGrad", {"dy": x, "x": x, "s": c, "mean": c, "inv_std": c, "ds": c, "db": c, "rest": c}
        )
        yield _row("GlobalAveragePoolGrad", {"dy": (*x[:2], 1, 1)}, kernel_shape=x[2:])
        window: dict[str, AttrValue] = {"kernel_shape": (2, 2), "strides": (2, 2)}
        y = (*x[:2], x[2] // 2, x[3] // 2)
        yield _row("MaxPool", {"x": x}, "2x2", **window)
        yield _row("MaxPoolGrad", {"dy": y, "x": x}, "2x2", **window)
        yield _row("AveragePool", {"x": x}, "2x2", **window)
        yield _row("AveragePoolGrad", {"dy": y}, "2x2", input_shape=x, **window)


def main() -> int:
    """Measure everything in one run of the simulator and print it."""
    simulator = simulator_named(__doc__)
    listed, machine = [*rows(), *convolutions(), *planes()], target.load("siracusa")
    with tempfile.TemporaryDirectory() as folder:
        measured = measure.measure_jobs(machine, [row.job for row in listed], Path(folder))
    entries = []
    for row, found in zip(listed, measured, strict=True):
        rate = round(row.count / found.warm, 2)
        entry = {"kernel": row.kernel, "shape": row.shape, "form": row.form, "cold": found.cold, "cycles": found.warm}
        entries.append(entry | ({row.unit: row.count, "per_cycle": rate} if row.unit else {}))
        name = row.kernel or row.form
        print(f"{name:22s} {row.shape:26s} {row.form:12s} {found.warm:7d} cycles {rate:6.2f} {row.unit} per cycle")
    write_rows(RESULT, {"target": machine.name, "cores": machine.cores}, simulator, "kernels", entries)
    stamp(__file__)
    return 0


if __name__ == "__main__":
    end(main)
