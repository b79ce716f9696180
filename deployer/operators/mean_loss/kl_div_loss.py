"""KLDivLoss: sum(target (log(target) - pred)) / batch, for predictions that are logarithms of probabilities.

Kullback and Leibler, On information and sufficiency, 1951: the divergence of each sample, averaged over the first axis,
as PyTorch's kl_div has it under reduction "batchmean". A target of 0 adds nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.declarations import Loss
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, GradientBuilder, Sample, register, unsupported
from deployer.operators.inputs import operands
from deployer.operators.mean_loss.terms import UNIT, MeanLoss, loss_kernel

BATCH = "batch"
FORM = Form((2, 2), (1, 1), {BATCH: "INT"})
LOGARITHMS = "logarithms of probabilities with a batch axis, whose target is from 0 to 1"


def check_batch(node: Node, absent: int) -> None:
    """UnsupportedOperator for a divisor below 1; `absent` stands for one that the node does not have."""
    batch = node.attr_int(BATCH, absent)
    if batch < 1:
        raise unsupported(node, f"its {BATCH} is {batch}", f"a {BATCH} from 1 on")


@register
class KLDivLoss(MeanLoss):
    """Attribute `batch` is the divisor, by default the length of the first axis."""

    name = "KLDivLoss"
    custom = FORM
    loss = Loss(
        "kl_div",
        "target",
        lambda output: output if output.shape else None,
        LOGARITHMS,
        arguments={"reduction": "batchmean"},
    )
    kernel = loss_kernel("kl_div_loss_f32")
    bounded: ClassVar = {1: UNIT}
    grad = "KLDivLossGrad"
    given: ClassVar[dict[str, AttrValue]] = {BATCH: 2}
    cost = FACTS.transcendental

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar."""
        check_batch(node, 1)
        return super().infer(node, inputs)

    def terms(self, node: Node, pred: Array, target: Array) -> Array:
        """Target (log(target) - pred), 0 where the target is."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(target == 0, pred.dtype.type(0), target * (np.log(target) - pred)))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The divergence of each sample in the mean."""
        pred = inputs[0]
        assert pred is not None
        batch = node.attr_int(BATCH, 0) or len(pred)
        return super().reference(Node(node.name, node.op, node.inputs, node.outputs, {BATCH: batch}), inputs)

    def divisor(self, node: Node, size: int) -> int:
        """The length of the first axis."""
        return node.attr_int(BATCH, 0)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The same with the batch as an attribute."""
        if node.attr_int(BATCH, 0):
            return None
        batch = operands(node, inputs, 1)[0].shape[0]
        return [Node(node.name, self.name, node.inputs, node.outputs, {BATCH: batch})]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """That of the node with the batch as an attribute."""
        batch = node.attr_int(BATCH, 0) or b.type(node.inputs[0]).shape[0]
        super().gradient(Node(node.name, node.op, node.inputs, node.outputs, {BATCH: batch}), douts, b)

    def slope_attrs(self, node: Node) -> dict[str, AttrValue]:
        """The batch."""
        return {BATCH: node.attr_int(BATCH, 0)}

    def drawn(self, r: np.random.Generator, *shape: int) -> tuple[Array, Array]:
        """Logarithms of probabilities, and targets from 0 to 1, both included."""
        pred, target = np.log(r.uniform(0.01, 1, shape)), r.uniform(-0.5, 1.5, shape).clip(0, 1)
        return pred.astype(np.float32), target.astype(np.float32)

    def sweep(self) -> Iterator[Sample]:
        """Those of its samples and of losses in general, with the batch that the kernel takes."""
        for sample in super().sweep():
            yield replace(sample, attrs={BATCH: 2} | sample.attrs)
