"""SoftmaxCrossEntropyLossInternalGrad: the gradient of the scores under SoftmaxCrossEntropyLossInternal."""

from collections.abc import Iterator
from typing import ClassVar

from deployer.core.forms import Form
from deployer.core.operator import Sample, register, registry
from deployer.operators.loss.softmax_cross_entropy_loss_internal import Internal


@register
class SoftmaxCrossEntropyLossInternalGrad(Internal):
    """dloss, log_prob, labels[, weights, ignored label] to dscores."""

    name = "SoftmaxCrossEntropyLossInternalGrad"
    custom = Form((3, 5), (1, 1), {"reduction": "STRING", "output_type": "INT", "ignore_index": "INT"})
    static_inputs: ClassVar[dict[int, str]] = {4: "ignore_index"}
    no_gradient = "it belongs to a backward pass"
    of = "SoftmaxCrossEntropyLossGrad"
    ignored = 4

    def samples(self) -> Iterator[Sample]:
        """Those of the other operator with a gradient of the loss."""
        full = len(("dloss", "log_prob", "labels"))
        yield from (sample for sample in registry()[self.of].samples() if len(sample.inputs) >= full)
