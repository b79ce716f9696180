"""Calls of the kernels of convolutions: of layers, packed and as parts of larger operands, with what may follow."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from deployer.calibration import measure
from deployer.calibration.measure import KernelJob
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import registry
from deployer.operators.products.convolution_geometry import geometry
from deployer.testing.bench import kernel_model
from DeployTest.support.kernels.convolution_layers import LAYERS
from DeployTest.support.kernels.kernel_jobs import hard

MODEL = kernel_model()


def convolution_jobs() -> Iterator[KernelJob]:
    """Each layer, its gradients and its update, packed, and as a part of larger operands that continues a sum.

    An update has the whole of its sums.
    """
    for number, (x, w, attrs) in enumerate(LAYERS):
        y = geometry(Node("", "Conv", (), (), attrs), x, w, ()).y_shape
        kernels: list[tuple[str, list[tuple[int, ...]], dict[str, AttrValue]]] = [
            ("Conv", [x, w] if number % 2 else [x, w, w[:1]], attrs),
            ("ConvGradX", [y, w], {**attrs, "input_shape": x[2:]}),
            ("ConvGradW", [y, x], {**attrs, "kernel_shape": w[2:]}),
            ("ConvSGD", [y, x, w], {**attrs, "kernel_shape": w[2:], "lr": 0.3}),
        ]
        for name, shapes, node_attrs in kernels:
            inputs = tuple(f"x{i}" for i in range(len(shapes)))
            node = Node(f"layer{number}", name, inputs, ("o",), node_attrs)
            types = {n: TensorType("float32", shape) for n, shape in zip(inputs, shapes, strict=True)}
            types["o"] = registry()[name].infer(node, list(types.values()))[0]
            tile = {d.name: (0, d.size) for d in registry()[name].access(node, types).dims}
            job = measure.kernel_job(f"{name}-layer{number}", node, types, {}, tile, MODEL)
            yield job
            part = _part(job)
            if name == "ConvSGD":
                yield replace(part, scalars={**part.scalars, "first": 1})
                continue
            yield part
            if name == "Conv":
                yield replace(job, label=f"{job.label}-relu", scalars={**job.scalars, "relu": 1})
            if name == "ConvGradX":
                yield _gated(job)
                yield _gated_apart(job)
            if number % 2 and job.scalars["single"]:
                yield _part(replace(job, label=f"{job.label}-several", scalars={**job.scalars, "single": 0}))


def moved_jobs() -> Iterator[KernelJob]:
    """Layers of one tap and of strides, and their gradients, with windows a step or two further or back.

    So begin tiles in the middle of a layer, and so windows reach beyond what a function may be called for; some have so
    many outputs fewer.
    """
    for job in convolution_jobs():
        if job.kernel.symbol not in ("conv_f32", "conv_grad_x_f32") or job.label.count("-") > 1:
            continue
        if job.scalars["kh"] * job.scalars["kw"] > 1 and job.scalars["sw"] == 1:
            continue
        for down, along in ((0, 1), (0, 2), (0, -1), (1, 0), (-1, 0), (2, 3)):
            top, left = job.scalars["top"] + down, job.scalars["left"] + along
            if job.kernel.symbol == "conv_grad_x_f32" and min(top, left) < 0:
                continue
            moved = {**job.scalars, "top": top, "left": left}
            rows, columns = ("oh", "ow") if "oh" in moved else ("ih", "iw")
            yield replace(job, label=f"{job.label}-moved-{down}-{along}", scalars=moved)
            if moved[rows] > max(down, 0) and moved[columns] > max(along, 0) and max(down, along) > 0:
                fewer = {rows: moved[rows] - max(down, 0), columns: moved[columns] - max(along, 0)}
                yield replace(job, label=f"{job.label}-fewer-{down}-{along}", scalars=moved | fewer)


def _gated(job: KernelJob) -> KernelJob:
    """The same with a gate that lies like the result and has zeros of both signs and NaN."""
    shape = job.operands["dx"].shape
    gate = hard(0, math.prod(shape)).reshape(shape)
    gate.flat[::7] = np.nan
    scalars = {**job.scalars, **{f"gate_{axis}": job.scalars[f"dx_{axis}"] for axis in "ngch"}}
    return KernelJob(f"{job.label}-gated", job.kernel, {**job.operands, "gate": gate}, scalars)


def _gated_apart(job: KernelJob) -> KernelJob:
    """The same with a gate by itself, as a tile has it whose result lies in a larger one."""
    part, gated = _part(job), _gated(job)
    strides = {name: value for name, value in gated.scalars.items() if name.startswith("gate")}
    scalars = {**part.scalars, **strides, "first": 1, "last": 1}
    return KernelJob(f"{gated.label}-apart", job.kernel, {**part.operands, "gate": gated.operands["gate"]}, scalars)


def _part(job: KernelJob) -> KernelJob:
    """The same lengths in larger operands, with sums that begin and end in other tiles."""
    scalars = {**job.scalars, **{name: 0 for name in ("first", "last") if name in job.scalars}}
    operands = dict(job.operands)
    for name, value in job.operands.items():
        if value.ndim == 5:
            is_weight = name in ("w", "grad")
            gaps = ((0, 0), (0, 0), (0, 1), *(((0, 0), (0, 0)) if is_weight else ((0, 2), (0, 3))))
            larger = np.pad(value, gaps, mode="edge")
            prefix = "dw" if name == "grad" else name
            for axis, stride in enumerate(larger.strides[: 3 if is_weight else 4]):
                names = "gmc" if is_weight else "ng" + ("c" if "x" in name else "m") + "h"
                scalars[f"{prefix}_{names[axis]}"] = stride // larger.itemsize
            operands[name] = larger
    return KernelJob(f"{job.label}-part", job.kernel, operands, scalars)
