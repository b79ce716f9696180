"""RunningStatistics: the running mean and variance of a batch norm after a batch, in place, as PyTorch defines them,
or as ONNX Runtime does."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import ArgValue, Array, Const, Extent, Kernel, Sample, mismatch, register, rng, unsupported
from deployer.operators.batch_norm.channels import EPSILON, MOMENTUM
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, floats, normal

OPERANDS = ("running_mean", "running_var", "mean", "inv_std")


@register
class RunningStatistics(Flat):
    """running = momentum * running + (1 - momentum) * batch.

    The batch's variance is that of a sample, of `count` elements with `count` - 1 degrees of freedom, or the biased one
    under `biased`, which needs no `count`. It is found from its inverse deviation, 1 / sqrt(variance + epsilon), as
    exactly as a norm that takes it needs.
    """

    name = "RunningStatistics"
    custom = Form((4, 4), (0, 2), {"momentum": "FLOAT", "epsilon": "FLOAT", "count": "INT", "biased": "INT"})
    flags = ("biased",)
    inplace: ClassVar[dict[int, int]] = {0: 0, 1: 1}
    no_gradient = "running statistics are not trained"
    kernel = Kernel(
        "running_statistics_f32",
        pointers=tuple((name, "float32", name.startswith("running")) for name in OPERANDS),
        scalars=(("n", "u32"), ("kept", "f32"), ("added", "f32"), ("added_var", "f32"), ("epsilon", "f32")),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of the running statistics, of which all operands are."""
        types = floats(node, inputs, len(OPERANDS))
        if len(set(types)) > 1:
            raise mismatch(node, "operands differ in type", inputs)
        if not node.attr_int("biased", 0) and node.attr_int("count", 0) < 2:
            raise unsupported(node, "a channel has one element, which has no variance", "a larger batch")
        return (types[0], types[0])

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Both after the batch."""
        running_mean, running_var, mean, inv_std = arrays(inputs, len(OPERANDS))
        kept = mean.dtype.type(node.attr_float("momentum", MOMENTUM))
        epsilon = mean.dtype.type(node.attr_float("epsilon", EPSILON))
        variance = (1 / np.square(inv_std) - epsilon) * mean.dtype.type(_correction(node))
        return kept * running_mean + (1 - kept) * mean, kept * running_var + (1 - kept) * variance

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, and the weights of what is kept and what is added."""
        kept = np.float32(node.attr_float("momentum", MOMENTUM))
        added = float(np.float32(1) - kept)
        weights = {"kept": float(kept), "added": added, "added_var": float(np.float32(added * _correction(node)))}
        epsilon = Const(float(np.float32(node.attr_float("epsilon", EPSILON))))
        return {"n": Extent("n"), **{name: Const(weight) for name, weight in weights.items()}, "epsilon": epsilon}

    def samples(self) -> Iterator[Sample]:
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


def _correction(node: Node) -> float:
    """Bessel's correction of the batch's variance."""
    count = node.attr_int("count", 0)
    return 1.0 if node.attr_int("biased", 0) else count / (count - 1)
