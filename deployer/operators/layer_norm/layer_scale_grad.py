"""LayerScaleGrad: per column the sum of dY times normal X, the gradient of layer normalization's scale."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from deployer.core.access import Access
from deployer.core.declarations import Centre, Sums
from deployer.core.ir import Node, TensorType
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, Sample, Work, register
from deployer.operators.layer_norm.rows_by_columns import Layerwise, first_axis, layer_kernel
from deployer.operators.reduction.reduce_sum import ReduceSum

BIAS = 1
"""The output that is the gradient of the bias, where the node has it."""


@register
class LayerScaleGrad(Layerwise):
    """dY, X, mean, inv_std[, rest] to dscale; the sum of dY, which is dbias, may be a second output."""

    name = "LayerScaleGrad"
    layout: ClassVar[dict[str, str]] = {
        **{"dy": "rc", "x": "rc", "mean": "r", "inv_std": "r", "rest": "r", "dscale": "c", "dbias": "c"},
    }
    kernel = layer_kernel("layer_scale_grad_f32", layout, ("dscale", "dbias"), sums=True)
    sums = Sums(("r",), together=2, results=2)
    centre = Centre(mean=2, inv_std=3, rest=4)
    spared: ClassVar[dict[str, int]] = {"dbias": BIAS}
    joins = name

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A number per column, or two."""
        return super().infer(node, inputs)[: max(len(node.outputs), 1)]

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """The sums of dY ((X - mean) inv_std + rest) and of dY over the rows."""
        dy, x, mean, inv_std, rest = operands
        return (dy * ((x - mean) * inv_std + rest)).sum(0, dtype=x.dtype), dy.sum(0, dtype=x.dtype)

    def joint(
        self, node: Node, near: Sequence[Node], types: Mapping[str, TensorType]
    ) -> tuple[Node, Sequence[Node]] | None:
        """The node with the sum of its dY over the rows as its second output, where a node makes that."""
        shape = types[node.inputs[0]].shape
        rows = tuple(range(first_axis(node, shape)))
        for total in near:
            if total.op != ReduceSum.name or total.inputs != node.inputs[:1] or _bias(node):
                continue
            axes = tuple(sorted(axis % len(shape) for axis in total.attr_ints("axes", ())))
            if axes == rows and not total.attr_int("keepdims", 1):
                return replace(node, outputs=(node.outputs[0], total.outputs[0], *node.outputs[2:])), [total]
        return None

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """That of a step of layer normalization, by columns or, where each core has some, by four neighbours.

        Each way has a form of its own, and so has each with the second sum. Each sum takes time to begin and to end.
        """
        columns, fours = tile["c"], tile["c"] // FACTS.block
        is_wide = fours >= FACTS.dealt
        parallel = fours + columns % FACTS.block if is_wide else columns
        form = "_".join(filter(None, ("fours" if is_wide else "", "biased" if _bias(node) else "")))
        return replace(super().work(node, access, tile), parallel=parallel, form=form, runs=parallel)

    def samples(self) -> Iterator[Sample]:
        """Each form, and without the second sum."""
        for sample in super().samples():
            yield sample
            yield replace(sample, label=f"{sample.label}_scale", outputs=1)

    def sweep(self) -> Iterator[Sample]:
        """The same."""
        for sample in super().sweep():
            yield sample
            yield replace(sample, label=f"{sample.label} scale", outputs=1)


def _bias(node: Node) -> str:
    return node.outputs[BIAS] if len(node.outputs) > BIAS else ""
