"""BatchNormInternal: batch normalization in training, with the batch's mean and inv_std as further outputs."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Sample, register, rng, unsupported
from deployer.operators.batch_norm.channels import BatchNorm
from deployer.operators.inputs import normal


@register
class BatchNormInternal(BatchNorm):
    """Biased variance over all axes but the channels; `momentum` is the weight of the old running statistics."""

    name = "BatchNormInternal"
    custom = Form((5, 5), (1, 5), {"epsilon": "FLOAT", "momentum": "FLOAT", "training_mode": "INT"})

    def training(self, node: Node) -> bool:
        """Always."""
        return True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Y, running_mean', running_var', mean, inv_std."""
        if not node.attr_int("training_mode", 1):
            raise unsupported(node, "it is not in training mode", "BatchNormalization for inference")
        return super().infer(node, inputs)

    def samples(self) -> Iterator[Sample]:
        """All outputs, and fewer."""
        r = rng(72)
        for label, shape, outputs in (("all", (3, 4, 5, 2), 5), ("image", (1, 3, 4, 5), 5), ("y", (4, 3, 5), 1)):
            c = shape[1]
            statistics = (normal(r, c), np.abs(normal(r, c)))
            values = (normal(r, *shape), normal(r, c), normal(r, c), *statistics)
            yield Sample(label, values, {"momentum": 0.75, "epsilon": 0.01}, outputs, onnx=False)
