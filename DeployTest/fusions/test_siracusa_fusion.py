"""Relu and its gradient inside Siracusa's kernels, under GVSoC: the bits of the portable kernels on the host."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deployer.calibration import measure
from deployer.calibration.measure import KernelJob
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import registry
from deployer.operators.products.convolution_geometry import geometry
from deployer.testing.bench import kernel_model
from DeployTest.support.kernels.comparing import compare
from DeployTest.support.kernels.convolution_layers import LAYERS
from DeployTest.support.kernels.kernel_jobs import SHAPES, gemm_job, hard, normal
from DeployTest.targets.simulators import needs_simulator
from DeployTest.targets.test_siracusa_kernels import CORES, NANS, TARGET

pytestmark = [pytest.mark.siracusa, pytest.mark.kernels]
MODEL = kernel_model()
GAP = 3


def _gemm_jobs() -> Iterator[KernelJob]:
    """Blocks, remainders, vectors and outer products, batches, sums that go on."""
    for m, n, k in SHAPES:
        for form, batch in (("nn", 1), ("tt", 2)):
            plain = gemm_job(m, n, k, form, batch, beta=0.5, alpha=-1.25)
            yield KernelJob(f"{plain.label}-relu", plain.kernel, plain.operands, {**plain.scalars, "relu": 1})
            for last in (0, 1):
                plain = gemm_job(m, n, k, form, batch, first=1 - last, last=last)
                strides = {"gate_m": n + GAP, "gate_b": m * (n + GAP)}
                gate = hard(1, batch * m * (n + GAP))
                operands = {**plain.operands, "gate": gate}
                yield KernelJob(f"{plain.label}-gate", plain.kernel, operands, {**plain.scalars, **strides})


def _convolution_jobs() -> Iterator[KernelJob]:
    """Every layer: Conv with Relu, its gradient with a gate, which may lie in a larger tensor than the result."""
    for number, (x, w, attrs) in enumerate(LAYERS):
        y = geometry(Node("", "Conv", (), (), attrs), x, w, ()).y_shape
        shapes = [x, w] if number % 2 else [x, w, w[:1]]
        conv = _job(f"layer{number}", "Conv", shapes, {**attrs, "activation": "Relu"})
        grad = _job(f"layer{number}", "ConvGradX", [y, w, x], {**attrs, "input_shape": x[2:]})
        for job in (conv, grad):
            yield job
            for changed in ({"first": 0}, {"first": 0, "last": 0}):
                yield KernelJob(f"{job.label}-{changed}", job.kernel, job.operands, {**job.scalars, **changed})
        gate = grad.operands["gate"]
        larger = np.pad(gate, ((0, 0), (0, 0), (0, 1), (0, 2), (0, 3)), mode="edge")
        strides = dict(zip(("gate_n", "gate_g", "gate_c", "gate_h"), larger.strides, strict=False))
        scalars = {**grad.scalars, **{name: bytes_ // 4 for name, bytes_ in strides.items()}}
        yield KernelJob(f"{grad.label}-larger", grad.kernel, {**grad.operands, "gate": larger}, scalars)


def _job(label: str, op: str, shapes: list[tuple[int, ...]], attrs: dict[str, AttrValue]) -> KernelJob:
    inputs = tuple(f"x{i}" for i in range(len(shapes)))
    node = Node(label, op, inputs, ("o",), attrs)
    types = {n: TensorType("float32", shape) for n, shape in zip(inputs, shapes, strict=True)}
    values = {"x2": hard(1, int(np.prod(shapes[2]))).reshape(shapes[2])} if op == "ConvGradX" else {}
    types["o"] = registry()[op].infer(node, list(types.values()))[0]
    tile = {d.name: (0, d.size) for d in registry()[op].access(node, types).dims}
    return measure.kernel_job(f"{op}-{label}", node, types, values, tile, MODEL)


def _other_jobs() -> Iterator[KernelJob]:
    """Sums and batch norms of every remainder, with NaNs of both signs, zeros of both signs and subnormals."""
    nans = np.resize(np.array(NANS, np.uint32), 2 * 3 * 13).view(np.float32)
    for shape in ((1, 1, 1), (1, 3, 8), (2, 3, 13), (1, 5, 21)):
        for label, x in (("hard", hard(0, int(np.prod(shape)))), ("nan", np.resize(nans, int(np.prod(shape))))):
            values = {"x0": x.reshape(shape), **{f"x{i}": normal(i, shape[1]) for i in range(1, 5)}}
            yield _with(f"{label}{shape}", "ChannelNormalize", values, {"activation": "Relu"})
            size = x.size
            sums = {"x0": x, "x1": np.full(size, -0.0, np.float32)}
            yield _with(f"{label}{shape}-relu", "Add", sums, {"activation": "Relu"})
            yield _with(f"{label}{shape}-gate", "Add", {**sums, "x2": np.roll(x, 1)}, {})


def _with(label: str, op: str, values: dict[str, np.ndarray], attrs: dict[str, AttrValue]) -> KernelJob:
    node = Node(label, op, tuple(values), ("o",), attrs)
    types = {n: TensorType("float32", v.shape) for n, v in values.items()}
    types["o"] = types["x0"]
    tile = {d.name: (0, d.size) for d in registry()[op].access(node, types).dims}
    return measure.kernel_job(f"{op}-{label}", node, types, values, tile, MODEL)


@pytest.mark.parametrize("cores", CORES)
@pytest.mark.parametrize("make", [_gemm_jobs, _convolution_jobs, _other_jobs])
def test_bits_equal_the_host(make: object, cores: int, tmp_path: Path) -> None:
    """Every operand, read or written, is what the host's kernel leaves."""
    needs_simulator(TARGET.name)
    jobs = list(make())  # type: ignore[operator]
    results = measure.measure_jobs(replace(TARGET, cores=cores), jobs, tmp_path)
    compare(jobs, {result.label: result for result in results})
