"""BatchNormalization: with given statistics, or in training mode with the batch's."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.inputs import normal
from deployer.ir import Node, TensorType
from deployer.normalization import BatchNorm
from deployer.operator import Array, Sample, register, rng


@register
class BatchNormalization(BatchNorm):
    """Y alone in inference form; Y, running_mean', running_var' under `training_mode`."""

    name = "BatchNormalization"

    def training(self, node: Node) -> bool:
        """As `training_mode` says."""
        return bool(node.attr_int("training_mode", 0))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """One or three outputs."""
        return super().infer(node, inputs)[:3]

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Without the saved statistics."""
        return super().reference(node, inputs)[:3]

    def samples(self) -> Iterator[Sample]:
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
