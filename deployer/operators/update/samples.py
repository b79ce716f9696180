"""Samples of the operators of this folder: uses for tests, and calls on which kernels are measured."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from deployer.core.ir import AttrValue
from deployer.core.operator import rng
from deployer.core.samples import Sample, measured, samples_of, sweep_of
from deployer.core.traits.execution import GROUPED
from deployer.operators.base.operands import normal
from deployer.operators.update.accumulation import (
    GroupTotal,
    InPlaceAccumulatorV2,
    NormScale,
    SquareGroups,
    SquareSum,
    UpdateCount,
)
from deployer.operators.update.onnx_optimizers import TensorUpdates
from deployer.operators.update.optimizers import SGD, AdamW, WeightUpdate
from deployer.operators.update.outer_sgd import OuterSGD
from deployer.operators.update.scaled_update import ScaledUpdate


@samples_of(InPlaceAccumulatorV2)
def in_place_accumulator_v2_samples(op: InPlaceAccumulatorV2) -> Iterator[Sample]:
    """Both values of the flag."""
    r = rng(13)
    for flag in (0, 1):
        inputs = (normal(r, 5, 7), normal(r, 5, 7), np.array([flag], np.int32))
        yield Sample(f"flag{flag}", inputs, onnx=False)


@samples_of(NormScale)
def norm_scale_samples(op: NormScale) -> Iterator[Sample]:
    """Norms on both sides of the limit."""
    yield Sample("vector", (np.square(normal(rng(52), 37)),), {"limit": 0.5}, onnx=False)
    yield Sample("zero", (np.zeros((), np.float32),), {"limit": 0.25}, onnx=False)


@samples_of(SquareSum)
def square_sum_samples(op: SquareSum) -> Iterator[Sample]:
    """With and without a sum before, short and long."""
    r = rng(51)
    for label, shape in (("one", (1,)), ("vector", (37,)), ("long", (5, 67)), ("shared", (33, 71))):
        yield Sample(label, (normal(r, *shape),), onnx=False)
        yield Sample(f"{label}_behind", (normal(r, *shape), np.square(normal(r))), onnx=False)


@samples_of(SquareGroups)
def square_groups_samples(op: SquareGroups) -> Iterator[Sample]:
    """One group and several, the last of them whole or shorter."""
    r = rng(53)
    for label, shape in (("one", (512,)), ("part", (37,)), ("whole", (4, 512)), ("several", (67, 71)), ("few", (515,))):
        yield Sample(label, (normal(r, *shape),), onnx=False)


@sweep_of(SquareGroups)
def square_groups_sweep(op: SquareGroups) -> Iterator[Sample]:
    """One group for each core, fewer and more."""
    r = rng(55)
    for groups in (1, 3, 8, 13, 16, 24, 32):
        yield Sample(f"groups{groups}", (normal(r, groups * GROUPED),), onnx=False)


@samples_of(GroupTotal)
def group_total_samples(op: GroupTotal) -> Iterator[Sample]:
    """With and without a sum before."""
    r = rng(54)
    for label, count in (("one", 1), ("several", 9)):
        groups = np.square(normal(r, count))
        yield Sample(label, (groups,), onnx=False)
        yield Sample(f"{label}_behind", (groups, np.square(normal(r))), onnx=False)


@sweep_of(GroupTotal)
def group_total_sweep(op: GroupTotal) -> Iterator[Sample]:
    """Few groups and many."""
    r = rng(56)
    for count in (2, 4, 8, 16, 64, 256):
        yield Sample(f"groups{count}", (np.square(normal(r, count)),), onnx=False)


@samples_of(UpdateCount)
def update_count_samples(op: UpdateCount) -> Iterator[Sample]:
    """Before the first update, and later."""
    yield Sample("first", (np.array([0], np.int32),), onnx=False)
    yield Sample("later", (np.array([7, 1000, -1], np.int32),), onnx=False)


@samples_of(TensorUpdates)
def tensor_updates_samples(op: TensorUpdates) -> Iterator[Sample]:
    """Two tensors and one, in the first update and a later one."""
    r, both = rng(60), [(5, 7), (3,)]
    for label, shapes, count in (("first", both, 0), ("later", both, 9), ("one", both[:1], 1)):
        tensors = [normal(r, *shape) for _ in op.group for shape in shapes]
        kept = [np.square(x) for x in tensors[2 * len(shapes) :]]
        shared = np.array(0.125, np.float32), np.array(count, np.int32)
        inputs = (*shared, *tensors[: 2 * len(shapes)], *kept)
        yield Sample(label, inputs, dict(op.given), (len(op.group) - 1) * len(shapes), onnx=False)


@samples_of(SGD)
def sgd_samples(op: SGD) -> Iterator[Sample]:
    """Default and given learning rate."""
    r = rng(14)
    yield Sample("default", (normal(r, 37), normal(r, 37)), onnx=False)
    yield Sample("lr", (normal(r, 5, 7), normal(r, 5, 7)), {"lr": 0.125}, onnx=False)


@samples_of(AdamW)
def adam_w_samples(op: AdamW) -> Iterator[Sample]:
    """First and later updates, both modes, with and without correction and decay."""
    r = rng(15)
    late: dict[str, AttrValue] = {"adam_mode": 1, "weight_decay": 0.0, "epsilon": 1e-6, "lr": 0.002}
    cases: dict[str, tuple[int, dict[str, AttrValue]]] = {
        "default": (1, {}),
        "first_late": (1, late),
        "late": (40, late | {"weight_decay": 0.125}),
        "uncorrected": (3, late | {"correct_bias": 0}),
        "numbers": (1000, {"lr": 0.125, "alpha": 0.5, "beta": 0.75, "epsilon": 0.25, "weight_decay": 0.5}),
    }
    for label, (count, attrs) in cases.items():
        w, g, m, v = (normal(r, 5, 7) for _ in range(4))
        inputs = (w, g, m, np.square(v), np.array([count], np.int32))
        yield Sample(label, inputs, attrs, outputs=3, onnx=False)


@samples_of(WeightUpdate)
def weight_update_samples(op: WeightUpdate) -> Iterator[Sample]:
    """Defaults in the first update, given numbers in the first and in a later one, and a first step from zeros."""
    r = rng(50)
    outputs = 1 + len(op.training.states)
    for label, count, attrs in (("default", 1, {}), ("first", 1, op.given), ("later", 1000, op.given)):
        w, g, *states = (normal(r, 5, 7) for _ in range(1 + outputs))
        counts = [] if op.training.count is None else [np.array([count], np.int32)]
        yield Sample(label, (w, g, *map(np.square, states), *counts), dict(attrs), outputs, onnx=False)


@samples_of(ScaledUpdate)
def scaled_update_samples(op: ScaledUpdate) -> Iterator[Sample]:
    """Those of the optimizer by a factor of which no product with a gradient is exact."""
    for sample in op.of.samples():
        yield replace(sample, inputs=(*sample.inputs, np.array(0.37, np.float32)))


@samples_of(OuterSGD)
def outer_sgd_samples(op: OuterSGD) -> Iterator[Sample]:
    """Lengths with and without a rest, a single row and column, the default rate and a given one."""
    r = rng(15)
    for m, n in ((5, 19), (1, 16), (24, 1), (3, 64), (9, 8)):
        yield Sample(f"{m}x{n}", (normal(r, m), normal(r, n), normal(r, m, n)), {"lr": 0.125}, onnx=False)
    yield Sample("default", (normal(r, 1, 6), normal(r, 1, 7), normal(r, 6, 7)), onnx=False)


@sweep_of(OuterSGD)
def outer_sgd_sweep(op: OuterSGD) -> Iterator[Sample]:
    """The outer products among those on which Gemm is measured."""
    r = rng(16)
    for m, n, k in measured("products"):
        if k == 1:
            yield Sample(f"{m}x{n}", (normal(r, m), normal(r, n), normal(r, m, n)), onnx=False)
