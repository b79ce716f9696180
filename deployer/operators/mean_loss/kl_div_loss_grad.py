"""KLDivLossGrad: dpred = -target / batch."""

from collections.abc import Iterator, Sequence

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Sample, register
from deployer.operators.mean_loss.kl_div_loss import BATCH, FORM, KLDivLoss, check_batch
from deployer.operators.mean_loss.terms import MeanLossGrad, grad_kernel


@register
class KLDivLossGrad(MeanLossGrad):
    """Attribute `batch` is the divisor."""

    name = "KLDivLossGrad"
    custom = FORM
    kernel = grad_kernel("kl_div_loss_grad_f32")
    of = KLDivLoss

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of pred."""
        check_batch(node, 0)
        return super().infer(node, inputs)

    def slopes(self, node: Node, pred: Array, target: Array) -> Array:
        """-target."""
        return -target

    def samples(self) -> Iterator[Sample]:
        """Those of the loss, with a batch."""
        for sample in super().samples():
            yield Sample(sample.label, sample.inputs, {BATCH: 3} | sample.attrs, onnx=False)
