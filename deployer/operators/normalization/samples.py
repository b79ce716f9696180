"""Samples of the operators of this folder: uses for tests, and calls on which kernels are measured."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from deployer.core.ir import AttrValue
from deployer.core.operator import Array, rng
from deployer.core.samples import Sample, inherited_samples, inherited_sweep, measured, samples_of, sweep_of
from deployer.core.traits.fusion import ACTIVATION
from deployer.operators.base.epilogue import GATED, RELU
from deployer.operators.base.operands import normal
from deployer.operators.base.sums import LONGEST_ROW, result_count
from deployer.operators.loss.label_loss import log_softmax
from deployer.operators.normalization.batch_norm import (
    BatchNormalization,
    BatchNormalizationGrad,
    BatchNormInternal,
    ChannelVariance,
    InvStd,
    RunningStatistics,
    RunningUpdate,
)
from deployer.operators.normalization.channels import (
    EPSILON,
    ChannelGradSums,
    ChannelMoments,
    ChannelNormalize,
    ChannelNormalizeGrad,
    ChannelStep,
    per_channel,
    sum_axes,
)
from deployer.operators.normalization.group_norm import (
    LRN,
    GroupNormalization,
    InstanceNormalization,
    LpNormalization,
    MeanVarianceNormalization,
)
from deployer.operators.normalization.layer_norm import (
    TOTAL,
    LayerNormalization,
    LayerNormalizationGrad,
    SkipNormalization,
)
from deployer.operators.normalization.layer_norm_steps import (
    AddsToDX,
    GatedByX,
    LayerNormalize,
    LayerNormalizeRows,
    LayerScaleGrad,
    Layerwise,
)
from deployer.operators.normalization.rms_norm import (
    RMSNorm,
    RMSNormalization,
    RmsRows,
    SimplifiedLayerNormalization,
    SimplifiedLayerNormalizationGrad,
)
from deployer.operators.normalization.softmax import (
    LogSoftmax,
    LogSoftmaxGrad,
    MaskedSoftmax,
    RowOperator,
    Shape,
    Softmax,
    SoftmaxGrad,
    softmax,
)


@samples_of(BatchNormInternal)
def batch_norm_internal_samples(op: BatchNormInternal) -> Iterator[Sample]:
    """All outputs, and fewer."""
    r = rng(72)
    for label, shape, outputs in (("all", (3, 4, 5, 2), 5), ("image", (1, 3, 4, 5), 5), ("y", (4, 3, 5), 1)):
        c = shape[1]
        statistics = (normal(r, c), np.abs(normal(r, c)))
        values = (normal(r, *shape), normal(r, c), normal(r, c), *statistics)
        yield Sample(label, values, {"momentum": 0.75, "epsilon": 0.01}, outputs, onnx=False)


@samples_of(BatchNormalization)
def batch_normalization_samples(op: BatchNormalization) -> Iterator[Sample]:
    """Inference form of images, signals and rows, and training form."""
    r = rng(73)
    shapes = {"image": (2, 3, 4, 5), "signal": (1, 4, 7), "rows": (5, 3), "training": (3, 4, 5, 2)}
    for label, shape in shapes.items():
        c = shape[1]
        statistics = (normal(r, c), np.abs(normal(r, c)) + np.float32(0.5))
        values = (normal(r, *shape), normal(r, c), normal(r, c), *statistics)
        if label == "training":
            yield Sample(label, values, {"training_mode": 1, "momentum": 0.75}, 3, onnx=False)
        else:
            yield Sample(label, values, {"epsilon": 0.01})


@samples_of(BatchNormalizationGrad)
def batch_normalization_grad_samples(op: BatchNormalizationGrad) -> Iterator[Sample]:
    """A batch, one image, and dX alone."""
    r = rng(74)
    for label, shape, outputs in (("batch", (3, 4, 5, 2), 3), ("image", (1, 3, 4, 5), 3), ("dx", (4, 3, 5), 1)):
        x = normal(r, *shape)
        mean = x.mean(sum_axes(x.ndim), dtype=np.float32)
        inv_std = (1 / x.std(sum_axes(x.ndim))).astype(np.float32)
        yield Sample(label, (normal(r, *shape), x, normal(r, shape[1]), mean, inv_std), {}, outputs, onnx=False)


@samples_of(RunningStatistics)
def running_statistics_samples(op: RunningStatistics) -> Iterator[Sample]:
    """Defaults, and others."""
    r = rng(124)
    given: dict[str, dict[str, AttrValue]] = {
        "default": {"count": 8},
        "given": {"count": 2, "momentum": 0.25, "epsilon": 0.01},
        "biased": {"biased": 1, "momentum": 0.75, "epsilon": 0.01},
    }
    for label, attrs in given.items():
        values = (normal(r, 37), np.abs(normal(r, 37)), normal(r, 37), r.uniform(0.5, 3, 37).astype(np.float32))
        yield Sample(label, values, attrs, 2, onnx=False)


@samples_of(RunningUpdate)
def running_update_samples(op: RunningUpdate) -> Iterator[Sample]:
    """Default and given momentum."""
    r = rng(71)
    yield Sample("default", (normal(r, 37), normal(r, 37)), onnx=False)
    yield Sample("momentum", (normal(r, 5), normal(r, 5)), {"momentum": 0.25}, onnx=False)


@samples_of(ChannelVariance)
def channel_variance_samples(op: ChannelVariance) -> Iterator[Sample]:
    """A batch, and one image."""
    r = rng(66)
    for label, shape in {"batch": (3, 5, 4, 3), "image": (1, 5, 4, 6), "long": (3, 2, 11, 13)}.items():
        yield Sample(label, (normal(r, *shape), normal(r, shape[1])), onnx=False)


@samples_of(InvStd)
def inv_std_samples(op: InvStd) -> Iterator[Sample]:
    """Default and given epsilon."""
    r = rng(70)
    yield Sample("default", (np.abs(normal(r, 37)) + np.float32(0.1),), onnx=False)
    yield Sample("epsilon", (np.abs(normal(r, 5)),), {"epsilon": 0.01}, onnx=False)


def far(r: np.random.Generator) -> tuple[Array, Array, Array]:
    """X of three channels far from zero, of deviation 1 and constant, their means and inverse deviations."""
    spread, centre = np.array([[1, 0, 1], [1013, 1e4, -1e4]], np.float32).reshape(2, 3, 1, 1)
    x = np.asarray(normal(r, 2, 3, 9, 5) * spread + centre)
    wide = x.astype(np.float64)
    mean, variance = wide.mean((0, 2, 3)), wide.var((0, 2, 3))
    return x, np.asarray(mean, np.float32), np.asarray(1 / np.sqrt(variance + EPSILON), np.float32)


@sweep_of(ChannelStep)
def step_sweep(op: ChannelStep) -> Iterator[Sample]:
    """Layers of small networks, and parts of them."""
    r = rng(72)
    for shape in measured("channels"):
        inputs: list[Array] = [normal(r, *(shape if i < op.wide else shape[1:2])) for i in range(op.input_count())]
        yield Sample("x".join(map(str, shape)), tuple(inputs), outputs=result_count(op.kernel), onnx=False)


@samples_of(ChannelGradSums)
def channel_grad_sums_samples(op: ChannelGradSums) -> Iterator[Sample]:
    """A batch, one image, and rows."""
    r = rng(68)
    for label, shape in {
        "batch": (3, 5, 4, 3),
        "image": (1, 5, 4, 6),
        "rows": (7, 3),
        "long": (3, 2, 11, 13),
    }.items():
        wide = (normal(r, *shape), normal(r, *shape))
        inputs = (*wide, normal(r, shape[1]), normal(r, shape[1]))
        yield Sample(label, inputs, outputs=2, onnx=False)
        yield Sample(f"{label}_rest", (*inputs, normal(r, shape[1])), outputs=2, onnx=False)


@samples_of(ChannelMoments)
def channel_moments_samples(op: ChannelMoments) -> Iterator[Sample]:
    """A batch, one image, and rows; a mean far larger than the deviation."""
    r = rng(65)
    for label, shape in {
        "batch": (3, 5, 4, 3),
        "image": (1, 5, 4, 6),
        "rows": (7, 3),
        "many_rows": (97, 2),
    }.items():
        yield Sample(label, (normal(r, *shape),), {"epsilon": 0.01}, 3, onnx=False)
    yield Sample("far", (normal(r, 2, 3, 9, 5) + np.float32(30),), {}, 3, onnx=False)


@sweep_of(ChannelNormalize)
def channel_normalize_sweep(op: ChannelNormalize) -> Iterator[Sample]:
    """Without and with Relu."""
    for sample in inherited_sweep(op, ChannelNormalize):
        yield sample
        yield replace(sample, label=f"{sample.label} relu", attrs={**sample.attrs, ACTIVATION: RELU})


@samples_of(ChannelNormalize)
def channel_normalize_samples(op: ChannelNormalize) -> Iterator[Sample]:
    """A batch, one image, and rows, without and with Relu; means far larger than the deviation."""
    r = rng(67)
    for label, shape in {"batch": (3, 5, 4, 3), "image": (1, 5, 4, 6), "rows": (7, 3)}.items():
        inputs = (normal(r, *shape), *(normal(r, shape[1]) for _ in range(4)))
        more = (*inputs, normal(r, shape[1]))
        yield Sample(label, inputs, onnx=False)
        yield Sample(f"{label}_relu", inputs, {ACTIVATION: RELU}, onnx=False)
        yield Sample(f"{label}_rest", more, onnx=False)
        yield Sample(f"{label}_rest_relu", more, {ACTIVATION: RELU}, onnx=False)
    x, mean, inv_std = far(r)
    inputs = (x, normal(r, 3), normal(r, 3), mean, inv_std)
    yield Sample("far", inputs, onnx=False)
    yield Sample("far_relu", inputs, {ACTIVATION: RELU}, onnx=False)


@samples_of(ChannelNormalizeGrad)
def channel_normalize_grad_samples(op: ChannelNormalizeGrad) -> Iterator[Sample]:
    """A batch, one image, and rows, without and with a gate; means far larger than the deviation."""
    r = rng(69)
    for label, shape in {"batch": (3, 5, 4, 3), "image": (1, 5, 4, 6), "rows": (7, 3)}.items():
        wide = (normal(r, *shape), normal(r, *shape))
        inputs = (*wide, *(normal(r, shape[1]) for _ in range(5)))
        yield Sample(label, inputs, onnx=False)
        yield Sample(f"{label}_gated", inputs, {GATED: 1}, onnx=False)
        yield Sample(f"{label}_rest", (*inputs, normal(r, shape[1])), onnx=False)
    x, mean, inv_std = far(r)
    centred = (x - per_channel(mean, x.ndim)) * per_channel(inv_std, x.ndim)
    dy = normal(r, *x.shape) + centred
    dscale, dbias = ((dy * factor).sum(sum_axes(x.ndim)) for factor in (centred, np.float32(1)))
    yield Sample("far", (dy, x, normal(r, 3), mean, inv_std, dscale, dbias), onnx=False)


@samples_of(GroupNormalization)
def group_normalization_samples(op: GroupNormalization) -> Iterator[Sample]:
    """Groups of several channels, of one and of all."""
    r = rng(121)
    for label, shape, groups in (
        ("image", (2, 6, 3, 4), 3),
        ("signal", (1, 4, 7), 2),
        ("one", (2, 3, 4, 3), 1),
        ("each", (2, 3, 2, 5), 3),
    ):
        inputs = (normal(r, *shape), normal(r, shape[1]), normal(r, shape[1]))
        yield Sample(label, inputs, {"num_groups": groups})


@samples_of(InstanceNormalization)
def instance_normalization_samples(op: InstanceNormalization) -> Iterator[Sample]:
    """Images and signals, one sample and several."""
    r = rng(120)
    for label, shape in (("image", (1, 3, 4, 5)), ("batch", (3, 2, 4, 3)), ("signal", (2, 3, 7))):
        yield Sample(label, (normal(r, *shape), normal(r, shape[1]), normal(r, shape[1])), {"epsilon": 0.01})
    yield Sample("default", (normal(r, 2, 3, 4, 4), normal(r, 3), normal(r, 3)))


@samples_of(LpNormalization)
def lp_normalization_samples(op: LpNormalization) -> Iterator[Sample]:
    """Both norms, along the last axis and others, and a row of zeros."""
    r = rng(136)
    yield Sample("default", (normal(r, 3, 4),))
    yield Sample("magnitudes", (normal(r, 2, 5, 3),), {"axis": 1, "p": 1})
    yield Sample("first", (normal(r, 4, 3),), {"axis": 0, "p": 2})


@samples_of(LRN)
def lrn_samples(op: LRN) -> Iterator[Sample]:
    """Windows of odd and even length, wider than the channels, with all factors."""
    r = rng(123)
    factors: dict[str, AttrValue] = {"alpha": 0.5, "beta": 0.6, "bias": 2.0}
    yield Sample("default", (normal(r, 1, 6, 3, 4),), {"size": 3})
    yield Sample("factors", (normal(r, 2, 5, 2, 3),), {"size": 3, **factors})
    yield Sample("wide", (normal(r, 1, 4, 2, 2),), {"size": 7, **factors})
    yield Sample("even", (normal(r, 1, 5, 2, 2),), {"size": 4, **factors}, onnx=False)


@samples_of(MeanVarianceNormalization)
def mean_variance_normalization_samples(op: MeanVarianceNormalization) -> Iterator[Sample]:
    """The default axes, one, and a mean far from zero."""
    r = rng(137)
    yield Sample("default", (normal(r, 2, 3, 4, 3),))
    yield Sample("one", (normal(r, 3, 7),), {"axes": (1,)}, onnx=False)
    yield Sample("far", (normal(r, 2, 3, 4, 3) + np.float32(100),), onnx=False)


@samples_of(RMSNorm)
def rms_norm_samples(op: RMSNorm) -> Iterator[Sample]:
    """Both names, and axes in the middle."""
    r = rng(142)
    yield Sample("eps", (normal(r, 7, 5), normal(r, 5)), {"eps": 0.01}, onnx=False)
    yield Sample("epsilon", (normal(r, 2, 3, 4), normal(r, 3, 4)), {"epsilon": 0.25, "axis": 1}, onnx=False)


@samples_of(RMSNormalization)
def rms_normalization_samples(op: RMSNormalization) -> Iterator[Sample]:
    """Rows, axes in the middle, a scale that broadcasts, another epsilon."""
    r = rng(122)
    for label, shape, axis in (("rows", (7, 5), -1), ("sequence", (2, 6, 9), -1), ("middle", (2, 3, 4, 5), 2)):
        yield Sample(label, (normal(r, *shape), normal(r, *shape[axis:])), {"axis": axis}, onnx=False)
    yield Sample("epsilon", (normal(r, 3, 4), normal(r, 4)), {"epsilon": 0.1}, onnx=False)
    yield Sample("number", (normal(r, 3, 4), normal(r, 1)), {}, onnx=False)
    yield Sample("places", (normal(r, 2, 3, 4), normal(r, 3, 1)), {"axis": 1}, onnx=False)


@samples_of(LayerNormalization)
def layer_normalization_samples(op: LayerNormalization) -> Iterator[Sample]:
    """Rows and axes in the middle, with and without bias and statistics."""
    r = rng(97)
    cases = (("rows", (7, 5), -1), ("row", (1, 13), 1), ("middle", (2, 3, 4, 5), 2), ("sequence", (2, 6, 9), -1))
    for label, shape, axis in cases:
        row = shape[axis:]
        inputs = (normal(r, *shape), normal(r, *row), normal(r, *row))
        yield Sample(label, inputs, {"axis": axis})
        yield Sample(f"{label}_all", inputs, {"axis": axis, "epsilon": 0.01}, outputs=3)
        yield Sample(f"{label}_unbiased", inputs[:2], {"axis": axis})


@samples_of(LayerNormalizationGrad)
def layer_normalization_grad_samples(op: LayerNormalizationGrad) -> Iterator[Sample]:
    """All gradients of rows, of one row, and of axes in the middle; dX alone, and without it."""
    r = rng(98)
    cases = (("rows", (7, 5), -1), ("row", (1, 13), 1), ("middle", (2, 3, 4, 5), 2), ("whole", (3, 4), 0))
    for label, shape, axis in cases:
        first = axis % len(shape)
        statistic = shape[:first] + (1,) * (len(shape) - first)
        wide, row = (normal(r, *shape), normal(r, *shape)), shape[first:]
        inputs = (*wide, normal(r, *row), normal(r, *statistic), np.abs(normal(r, *statistic)))
        yield Sample(label, inputs, {"axis": axis}, 3, onnx=False)
        yield Sample(f"{label}_dx", inputs, {"axis": axis}, 1, onnx=False)
        four = (*inputs[:3], normal(r, *row))
        yield Sample(f"{label}_four", four, {"axis": axis, "epsilon": 0.01}, 3, onnx=False)


@samples_of(SimplifiedLayerNormalization)
def simplified_layer_normalization_samples(op: SimplifiedLayerNormalization) -> Iterator[Sample]:
    """Rows, axes in the middle and long rows, with and without the second output."""
    r = rng(139)
    for label, shape, axis in (("rows", (7, 5), -1), ("middle", (2, 3, 4, 5), 2), ("long", (2, LONGEST_ROW + 7), 1)):
        inputs = (normal(r, *shape), normal(r, *shape[axis:]))
        yield Sample(label, inputs, {"axis": axis, "epsilon": 0.01})
        yield Sample(f"{label}_all", inputs, {"axis": axis, "epsilon": 0.01}, 2)


@samples_of(SimplifiedLayerNormalizationGrad)
def simplified_layer_normalization_grad_samples(op: SimplifiedLayerNormalizationGrad) -> Iterator[Sample]:
    """Both gradients of rows, of axes in the middle, of all and of long rows, and dX alone."""
    r = rng(140)
    cases = (("rows", (7, 5), -1), ("middle", (2, 3, 4, 5), 2), ("whole", (3, 4), 0), ("long", (2, LONGEST_ROW + 7), 1))
    for label, shape, axis in cases:
        first = axis % len(shape)
        statistic = shape[:first] + (1,) * (len(shape) - first)
        inputs = (normal(r, *shape), normal(r, *shape), normal(r, *shape[first:]), np.abs(normal(r, *statistic)))
        yield Sample(label, inputs, {"axis": axis}, 2, onnx=False)
        yield Sample(f"{label}_dx", inputs, {"axis": axis}, 1, onnx=False)


@samples_of(SkipNormalization)
def skip_normalization_samples(op: SkipNormalization) -> Iterator[Sample]:
    """With and without biases and further outputs."""
    r = rng(141 + op.factors)
    wide = (normal(r, 2, 3, 5), normal(r, 2, 3, 5))
    vectors = tuple(normal(r, 5) for _ in range(op.factors + 1))
    attrs: dict[str, AttrValue] = {"epsilon": 0.01}
    yield Sample("plain", (*wide, vectors[0]), attrs)
    yield Sample("biased", (*wide, *vectors), attrs)
    if len(op.statistics) == TOTAL - 1:
        yield Sample("all", (*wide, *vectors), attrs, TOTAL + 1, onnx=False)


@samples_of(Layerwise)
def layerwise_samples(op: Layerwise) -> Iterator[Sample]:
    """Rows, one row, rows of one element, and axes in the middle."""
    r = rng(95)
    cases = (("rows", (7, 5), -1), ("row", (1, 13), 1), ("column", (6, 1), -1), ("middle", (2, 3, 4, 5), 2))
    for label, shape, axis in (*cases, ("long", (71, 133), -1)):
        yield op._sample(r, label, shape, axis)


@sweep_of(Layerwise)
def layerwise_sweep(op: Layerwise) -> Iterator[Sample]:
    """Layers of small transformers, and parts of them."""
    r = rng(96)
    for shape in measured("rows"):
        yield op._sample(r, "x".join(map(str, shape)), shape, -1)


@samples_of(AddsToDX)
def adds_to_dx_samples(op: AddsToDX) -> Iterator[Sample]:
    """Each form, without and with another gradient that is added."""
    r = rng(143)
    for sample in inherited_samples(op, AddsToDX):
        yield sample
        yield _added(r, op, sample, f"{sample.label}_added")


@sweep_of(AddsToDX)
def adds_to_dx_sweep(op: AddsToDX) -> Iterator[Sample]:
    """The same."""
    r = rng(144)
    for sample in inherited_sweep(op, AddsToDX):
        yield sample
        yield _added(r, op, sample, f"{sample.label} added")


def _added(r: np.random.Generator, op: AddsToDX, sample: Sample, label: str) -> Sample:
    """The sample with another gradient that is added."""
    dy = sample.inputs[0]
    assert dy is not None
    return replace(sample, label=label, inputs=(*sample.inputs, normal(r, *dy.shape)))


@samples_of(GatedByX)
def gated_by_x_samples(op: GatedByX) -> Iterator[Sample]:
    """Each form, without and with a gate."""
    for sample in inherited_samples(op, GatedByX):
        yield sample
        yield replace(sample, label=f"{sample.label}_gated", attrs={**sample.attrs, GATED: 1})


@samples_of(LayerNormalize)
def layer_normalize_samples(op: LayerNormalize) -> Iterator[Sample]:
    """Each form, without rest, without bias, and with Relu."""
    for sample in inherited_samples(op, LayerNormalize):
        *operands, bias, rest = sample.inputs
        yield sample
        yield replace(sample, label=f"{sample.label}_given", inputs=(*operands, bias))
        yield replace(sample, label=f"{sample.label}_unbiased", inputs=(*operands, None, rest))
        yield replace(sample, label=f"{sample.label}_relu", attrs={**sample.attrs, ACTIVATION: RELU})


@samples_of(LayerScaleGrad)
def layer_scale_grad_samples(op: LayerScaleGrad) -> Iterator[Sample]:
    """Each form, and without the second sum."""
    for sample in inherited_samples(op, LayerScaleGrad):
        yield sample
        yield replace(sample, label=f"{sample.label}_scale", outputs=1)


@sweep_of(LayerScaleGrad)
def layer_scale_grad_sweep(op: LayerScaleGrad) -> Iterator[Sample]:
    """The same."""
    for sample in inherited_sweep(op, LayerScaleGrad):
        yield sample
        yield replace(sample, label=f"{sample.label} scale", outputs=1)


@samples_of(LayerNormalizeRows)
def layer_normalize_rows_samples(op: LayerNormalizeRows) -> Iterator[Sample]:
    """Each form with all outputs; without bias; Y alone; with Relu."""
    for sample in inherited_samples(op, LayerNormalizeRows):
        yield replace(sample, attrs={**sample.attrs, "epsilon": 0.01})
        yield replace(sample, label=f"{sample.label}_unbiased", inputs=sample.inputs[:2])
        yield replace(sample, label=f"{sample.label}_alone", outputs=1)
        yield replace(sample, label=f"{sample.label}_relu", attrs={**sample.attrs, ACTIVATION: RELU})


@samples_of(RmsRows)
def rms_rows_samples(op: RmsRows) -> Iterator[Sample]:
    """Each form with both outputs, and Y alone."""
    for sample in inherited_samples(op, RmsRows):
        yield replace(sample, attrs={**sample.attrs, "epsilon": 0.01})
        yield replace(sample, label=f"{sample.label}_alone", outputs=1)


@samples_of(LogSoftmaxGrad)
def log_softmax_grad_samples(op: LogSoftmaxGrad) -> Iterator[Sample]:
    """Last, first and middle axis."""
    r = rng(138)
    for label, shape, axis in (("last", (7, 5), -1), ("first", (5, 7), 0), ("middle", (3, 4, 5), 1)):
        y = log_softmax(normal(r, *shape), axis)
        yield Sample(label, (normal(r, *shape), y), {"axis": axis}, onnx=False)


@sweep_of(RowOperator)
def row_operator_sweep(op: RowOperator) -> Iterator[Sample]:
    """Few and many rows and classes."""
    r, count = rng(33), len(op.kernel.pointers) - 1
    for shape in measured("softmax"):
        yield Sample(f"{shape[0]}x{shape[1]}", tuple(normal(r, *shape) for _ in range(count)), onnx=False)


@samples_of(LogSoftmax)
def log_softmax_samples(op: LogSoftmax) -> Iterator[Sample]:
    """Last, first, middle axis, and values of +-1e4."""
    r = rng(32)
    yield Sample("last", (normal(r, 7, 5),))
    yield Sample("last_of_three", (normal(r, 3, 4, 5),))
    yield Sample("first", (normal(r, 5, 7),), {"axis": 0})
    yield Sample("middle", (normal(r, 3, 4, 5),), {"axis": 1})
    yield Sample("long", (normal(r, 2, LONGEST_ROW + 7),))
    yield Sample("blocks", (normal(r, 3, 150),))
    yield Sample("huge", (np.asarray(r.choice([-1e4, 0.0, 1e4], (7, 5)), np.float32),), {"axis": -1})


@samples_of(Softmax)
def softmax_samples(op: Softmax) -> Iterator[Sample]:
    """Last, first, middle axis, a row of one element, values of +-1e4, and powers down to the least above zero."""
    r = rng(93)
    yield Sample("last", (normal(r, 7, 5),))
    yield Sample("last_of_three", (normal(r, 3, 4, 5),))
    yield Sample("first", (normal(r, 5, 7),), {"axis": 0})
    yield Sample("middle", (normal(r, 3, 4, 5),), {"axis": 1})
    yield Sample("long", (normal(r, 2, LONGEST_ROW + 7),))
    yield Sample("long_middle", (normal(r, 2, LONGEST_ROW + 1, 3),), {"axis": 1})
    yield Sample("blocks", (normal(r, 3, 150),))
    yield Sample("one", (normal(r, 3, 1),))
    faint = -np.outer(np.array([1, 0.97, 0.82, 0.65, 0.4, 3]), np.linspace(0, 104, 29))
    yield Sample("faint", (faint.astype(np.float32),))
    yield Sample("huge", (np.asarray(r.choice([-1e4, 0.0, 1e4], (7, 5)), np.float32),), {"axis": -1})


@samples_of(MaskedSoftmax)
def masked_softmax_samples(op: MaskedSoftmax) -> Iterator[Sample]:
    """A factor, masks of every form, some of which leave out elements, both, and rows of several blocks."""
    r = rng(120)
    causal = np.triu(np.full((5, 5), -np.inf, np.float32), 1)
    cases: dict[str, tuple[Shape, Array | None]] = {
        "scaled": ((7, 5), None),
        "vector": ((3, 4, 6), normal(r, 6)),
        "causal": ((2, 3, 5, 5), causal),
        "heads": ((2, 3, 4, 5), normal(r, 1, 3, 4, 5)),
        "batch": ((2, 3, 4, 5), normal(r, 2, 1, 1, 5)),
        "whole": ((3, 4, 5), normal(r, 3, 4, 5)),
        "row": ((6,), normal(r, 6)),
        "blocks": ((2, 3, 150), normal(r, 3, 150)),
        "least": ((2, 4, 5), np.where(normal(r, 2, 1, 5) > 0, 0, np.finfo(np.float32).min).astype(np.float32)),
    }
    for label, (shape, mask) in cases.items():
        attrs: dict[str, AttrValue] = {} if label in ("vector", "batch") else {"alpha": 0.35}
        yield Sample(label, (normal(r, *shape), *([] if mask is None else [mask])), attrs, onnx=False)
    hidden = np.where(normal(r, 5, 7) > 0, 0, -np.inf).astype(np.float32)
    hidden[2] = -np.inf
    for label, rows in {
        "rows": (2, 5, 7),
        "more rows": (2, 3, 9, 4),
        "few": (3, 2, 9),
        "row blocks": (2, 150, 140),
    }.items():
        yield Sample(f"causal {label}", (normal(r, *rows),), {"alpha": 0.35, "causal": 1}, onnx=False)
    yield Sample("hidden", (normal(r, 3, 5, 7), hidden), {"safe": 1}, onnx=False)
    yield Sample("causal hidden", (normal(r, 3, 5, 7), hidden), {"safe": 1, "causal": 1}, onnx=False)


@sweep_of(MaskedSoftmax)
def masked_softmax_sweep(op: MaskedSoftmax) -> Iterator[Sample]:
    """Few and many rows and classes, of two heads with one mask."""
    r = rng(121)
    for rows, classes in measured("softmax"):
        inputs = (normal(r, 2, rows, classes), normal(r, rows, classes))
        yield Sample(f"{rows}x{classes}", inputs, {"alpha": 0.5}, onnx=False)


@samples_of(SoftmaxGrad)
def softmax_grad_samples(op: SoftmaxGrad) -> Iterator[Sample]:
    """Last, first and middle axis, without and with a factor."""
    r = rng(94)
    for label, shape, axis in (
        ("last", (7, 5), -1),
        ("first", (5, 7), 0),
        ("middle", (3, 4, 5), 1),
        ("blocks", (3, 150), -1),
        ("long", (2, LONGEST_ROW + 7), 1),
    ):
        inputs = (normal(r, *shape), softmax(normal(r, *shape), axis))
        yield Sample(label, inputs, {"axis": axis}, onnx=False)
    scaled = (normal(r, 7, 5), softmax(normal(r, 7, 5), 1))
    yield Sample("scaled", scaled, {"axis": 1, "alpha": 0.3}, onnx=False)
