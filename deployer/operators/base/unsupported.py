"""ONNX operators that are not supported for a reason of their own, and what to do instead."""

from collections.abc import Mapping, Sequence

_REASONS: Mapping[tuple[str, str], Sequence[str]] = {
    (
        "the shape of its result depends on the values of its inputs, and every tensor has a place and a size here",
        "a mask of the same shape, as Where and comparisons make it",
    ): ("Compress", "NonMaxSuppression", "NonZero", "Unique"),
    (
        "it is of a quantized model, and numbers are float32 here",
        "the model before it was quantized",
    ): (
        "ConvInteger",
        "DynamicQuantizeLinear",
        "MatMulInteger",
        "QLinearConv",
        "QLinearMatMul",
        "QuantizeLinear",
    ),
    (
        "it differentiates a part of the graph that it stands in",
        "the forward model alone: train-graph makes its gradients",
    ): ("Gradient",),
    (
        "it draws numbers that no seed gives again",
        "the numbers as an input; Dropout in training has a seed",
    ): ("Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
}
ABSENT: Mapping[str, tuple[str, str]] = {name: why for why, names in _REASONS.items() for name in names}
"""Reason and way out by operator."""
