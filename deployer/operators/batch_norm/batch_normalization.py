"""BatchNormalization: with given statistics, or in training mode with the batch's."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Rule, without
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Sample, register, rng, unsupported
from deployer.operators.batch_norm.channels import BatchNorm
from deployer.operators.inputs import normal, operands


def _inference(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 14 Y alone is inference, more outputs are training; `spatial` 0 has statistics per element."""
    if any(node.outputs[1:]):
        raise unsupported(node, f"it has {len(node.outputs)} outputs, which before version 14 is training", "Y alone")
    if node.attr_int("spatial", 1) != 1 and len(operands(node, types, 1)[0].shape) > 2:
        raise unsupported(node, "spatial is 0: it has statistics for each element of a channel", "spatial 1")
    return [without(node, "consumed_inputs", "is_test", "spatial")]


def _tested(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 7 attribute `is_test` tells inference from training as well."""
    if not node.attr_int("is_test", 0):
        raise unsupported(node, "is_test is 0: it is in training mode", "is_test 1 and Y alone")
    return _inference(node, types)


@register
class BatchNormalization(BatchNorm):
    """Y alone in inference form; Y, running_mean', running_var' under `training_mode`."""

    name = "BatchNormalization"
    versions = (14, 15)
    older: ClassVar[dict[int, Rule]] = {1: _tested, 6: _tested, 7: _inference, 9: _inference}

    def training(self, node: Node) -> bool:
        """Whether attribute `training_mode` is set."""
        return bool(node.attr_int("training_mode", 0))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X; in training form two types of one element per channel as well."""
        return super().infer(node, inputs)[:3]

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Y, in training form with the running mean and variance, but without the saved statistics."""
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
