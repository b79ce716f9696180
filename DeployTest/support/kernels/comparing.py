"""Compares what kernels leave on a target with what the portable ones leave on the host, bit for bit."""

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np

from deployer.calibration.measure import KernelJob, Measured
from deployer.core.operator import Array
from deployer.testing import bench
from deployer.testing.bench import canonical


def on_host(job: KernelJob) -> Mapping[str, Array]:
    """The operands as the portable kernel leaves them on one core."""
    library, kernel = bench.library(job.kernel.symbol), job.kernel
    left = {name: np.array(value, copy=True) for name, value in job.operands.items()}
    pointers = {name: left[name].ctypes.data if name in left else None for name, _, _ in kernel.pointers}
    arguments = bench.structure(kernel)(**pointers, **job.scalars)
    library.bench_core(0, 1)
    getattr(library, kernel.symbol)(ctypes.byref(arguments))
    return left


def compare(jobs: Sequence[KernelJob], measured: Mapping[str, Measured]) -> None:
    """Fails where an operand is not what the host's kernel leaves."""
    wrong = [
        f"{job.label} {name}: {measured[job.label].operands[name]} instead of {expected}"
        for job in jobs
        for name, expected in on_host(job).items()
        if canonical(measured[job.label].operands[name]) != canonical(expected)
    ]
    assert not wrong, f"{len(wrong)} operands differ\n" + "\n".join(wrong[:5])
