"""The kernels of a target of one level leave the bits of the portable ones, whose sums they have in one call."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deployer.calibration import measure
from deployer.calibration.measure import KernelJob, Measured
from deployer.core import target
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import registry
from deployer.testing.bench import kernel_model
from DeployTest.targets.test_siracusa_kernels import all_jobs, compare

pytestmark = [pytest.mark.host, pytest.mark.kernels]
MODEL = kernel_model()
POINTER_BYTES = np.dtype(np.uintp).itemsize
TARGET = replace(target.load("host_flat"), pointer_bytes=POINTER_BYTES)
"""The machine as it is; its file has the pointers of what it stands for."""
OWN = sorted(path.stem for path in (target.TARGETS_DIR / "host_flat" / "kernels").glob("*.c"))
LARGE: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, AttrValue]], ...] = (
    ((1, 1, 36, 34), (3, 1, 33, 33), {}),
    ((1, 2, 40, 5), (4, 2, 40, 3), {"pads": (3, 1, 20, 1), "strides": (3, 1)}),
    ((2, 3, 5, 700), (20, 3, 1, 600), {"pads": (0, 30, 0, 7), "strides": (1, 3)}),
    ((2, 18, 4, 1100), (18, 1, 2, 3), {"group": 18, "pads": (1, 1, 0, 1), "strides": (1, 2)}),
    ((1, 5, 36, 34), (5, 1, 35, 30), {"group": 5, "pads": (1, 2, 1, 0)}),
)
"""X, W and attributes of convolutions with more taps, or longer rows, than are packed."""


def _large_jobs() -> Iterator[KernelJob]:
    for number, (x, w, attrs) in enumerate(LARGE):
        y = registry()["Conv"].infer(
            Node("", "Conv", ("x", "w"), ("y",), attrs), [TensorType("float32", s) for s in (x, w)]
        )[0]
        for name, shapes, more in (
            ("Conv", (x, w), {}),
            ("ConvGradX", (y.shape, w), {"input_shape": x[2:]}),
            ("ConvGradW", (y.shape, x), {"kernel_shape": w[2:]}),
        ):
            node = Node(f"large{number}", name, ("x0", "x1"), ("o",), {**attrs, **more})
            types = {n: TensorType("float32", shape) for n, shape in zip(node.inputs, shapes, strict=True)}
            types["o"] = registry()[name].infer(node, list(types.values()))[0]
            tile = {d.name: (0, d.size) for d in registry()[name].access(node, types).dims}
            yield measure.kernel_job(f"{name}-large{number}", node, types, {}, tile, MODEL)


def jobs_of(symbol: str) -> list[KernelJob]:
    """Calls of a kernel on all shapes, with sums that begin and end in them."""
    jobs = [job for job in (*all_jobs().values(), *_large_jobs()) if job.kernel.symbol == symbol]
    whole = {"first": 1, "last": 1, "single": 0}
    return [replace(job, scalars={name: whole.get(name, value) for name, value in job.scalars.items()}) for job in jobs]


@pytest.mark.slow
def test_whole_sums(tmp_path: Path) -> None:
    """The target names each kernel of its own to which it is all one whether its sum began in an earlier call."""
    jobs = [replace(jobs_of(symbol)[0], label=symbol) for symbol in OWN]
    jobs = [job for job in jobs if "first" in job.scalars]
    later = [replace(job, label=f"{job.label} later", scalars={**job.scalars, "first": 0}) for job in jobs]
    found = {result.label: result for result in measure.measure_jobs(TARGET, [*jobs, *later], tmp_path)}
    symbols = [job.label for job in jobs]
    same = [symbol for symbol in symbols if _written(found[symbol]) == _written(found[f"{symbol} later"])]
    assert same == sorted(TARGET.whole_sums)


def _written(result: Measured) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in result.operands.items()}


@pytest.mark.parametrize("cores", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_same_bits(cores: int, tmp_path: Path) -> None:
    """Every operand, read or written, is what the portable kernel leaves, however many threads share the work."""
    jobs = [job for symbol in OWN for job in jobs_of(symbol)]
    found = Counter(job.kernel.symbol for job in jobs)
    assert sorted(found) == OWN
    assert all(found[symbol] > 20 for symbol in TARGET.whole_sums)
    results = measure.measure_jobs(replace(TARGET, cores=cores), jobs, tmp_path)
    compare(jobs, {result.label: result for result in results})
