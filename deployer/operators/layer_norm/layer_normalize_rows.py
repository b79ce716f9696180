"""LayerNormalizeRows: layer normalization by rows, which ChannelMoments and LayerNormalize compute in two walks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.declarations import ACTIVATION
from deployer.core.ir import Node, TensorType
from deployer.core.operator import ArgValue, Array, Const, Sample, register
from deployer.operators.batch_norm.channel_moments import ChannelMoments
from deployer.operators.finishing import RELU, RELU_SCALAR, finished, relu_args
from deployer.operators.layer_norm.layer_normalize import LayerNormalize
from deployer.operators.layer_norm.rows_by_columns import EPSILON, first_axis, layer_kernel
from deployer.operators.layer_norm.whole_rows import SCALARS, WholeRows, may_be_whole


@register
class LayerNormalizeRows(WholeRows):
    """X, scale[, bias] to Y, mean, inv_std and rest; the last three may be absent."""

    name = "LayerNormalizeRows"
    layout: ClassVar[dict[str, str]] = {
        **{"x": "rc", "scale": "c", "bias": "c"},
        **{"y": "rc", "mean": "r", "inv_std": "r", "rest": "r"},
    }
    kernel = layer_kernel(
        "layer_rows_f32", layout, ("y", "mean", "inv_std", "rest"), *SCALARS, "epsilon", RELU_SCALAR[0]
    )
    spared: ClassVar[dict[str, int]] = {"mean": 1, "inv_std": 2, "rest": 3}
    joins = LayerNormalize.name
    walks = 3

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X, and three times a number for each row, as the moments of channels are."""
        y, *_ = super().infer(node, inputs)
        rows = TensorType("float32", (math.prod(y.shape[: first_axis(node, y.shape)]),))
        return (y, rows, rows, rows)[: len(node.outputs)]

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The formula, then Relu where it is fused."""
        y, *statistics = super().reference(node, inputs)
        return finished(node, y), *statistics

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """What both nodes compute one after the other."""
        x, *affine = operands
        moments = Node(node.name, ChannelMoments.name, (), (), {"epsilon": _epsilon(node)})
        statistics = ChannelMoments().reference(moments, (x[np.newaxis],))
        mean, inv_std, rest = (v[:, np.newaxis] for v in statistics)
        (y,) = LayerNormalize().formula(node, x, mean, inv_std, *affine, rest)
        return y, *statistics

    def joint(
        self, node: Node, near: Sequence[Node], types: Mapping[str, TensorType]
    ) -> tuple[Node, Sequence[Node]] | None:
        """Both, where the moments are those of the rows of X, which a view of it has as channels."""
        x, mean, inv_std, scale, bias, rest = (*node.inputs, "", "")[: LayerNormalize.centre.rest + 1]
        statistics, affine = (mean, inv_std, rest), (scale, bias) if bias else (scale,)
        for other in near:
            if other.op != ChannelMoments.name or other.outputs[: len(statistics)] != statistics:
                continue
            if not may_be_whole(node, types[x].shape):
                return None
            attrs = {**node.attrs, "epsilon": _epsilon(other)}
            outputs = (node.outputs[0], *statistics)
            return Node(node.name, self.name, (x, *affine), outputs, attrs), [other]
        return None

    def more_args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Epsilon, and whether Relu follows."""
        return {"epsilon": Const(_epsilon(node)), **relu_args(node)}

    def samples(self) -> Iterator[Sample]:
        """Each form with all outputs; without bias; Y alone; with Relu."""
        for sample in super().samples():
            yield replace(sample, attrs={**sample.attrs, "epsilon": 0.01})
            yield replace(sample, label=f"{sample.label}_unbiased", inputs=sample.inputs[:2])
            yield replace(sample, label=f"{sample.label}_alone", outputs=1)
            yield replace(sample, label=f"{sample.label}_relu", attrs={**sample.attrs, ACTIVATION: RELU})


def _epsilon(node: Node) -> float:
    return node.attr_float("epsilon", EPSILON)
