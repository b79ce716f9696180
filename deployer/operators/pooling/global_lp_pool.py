"""GlobalLpPool: the p-norm over all spatial axes of X[N, C, ...]."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.pooling.lp_pool import P, order_of, powers, root


@register
class GlobalLpPool(Operator):
    """Made of ReduceSum over powers."""

    name = "GlobalLpPool"
    versions = (2, 22)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape with spatial axes of one element."""
        x = floats(node, inputs, 1)[0]
        order_of(node)
        if len(x.shape) <= 2:
            raise mismatch(node, "X has no spatial axis", inputs)
        return (TensorType(x.dtype, x.shape[:2] + (1,) * (len(x.shape) - 2)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The root of the sum of powers."""
        x, p = arrays(inputs, 1)[0], order_of(node)
        total = (np.abs(x) ** p).sum(tuple(range(2, x.ndim)), dtype=x.dtype, keepdims=True)
        return (np.asarray(total ** (1 / p), x.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Powers, their sum, the root."""
        p, total = order_of(node), f"{node.name}/total"
        axes = tuple(range(2, len(floats(node, inputs, 1)[0].shape)))
        first, powered = powers(node, node.inputs[0], p)
        sums = Node(total, "ReduceSum", (powered,), (total,), {"axes": axes, "keepdims": 1})
        return [*first, sums, *root(node, total, p)]

    def samples(self) -> Iterator[Sample]:
        """Images and a signal, several norms."""
        r = rng(170)
        for p in (1, P, P + 1):
            yield Sample(f"image{p}", (normal(r, 2, 3, 4, 5),), {"p": p}, onnx=False)
        yield Sample("signal", (normal(r, 2, 3, 7),), onnx=False)
