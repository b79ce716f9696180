"""SoftmaxGrad: dX = alpha Y (dY - sum(dY Y)) along one axis; Y is the output of Softmax."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.access import Access
from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import ArgValue, Array, Const, Sample, register, rng
from deployer.operators.inputs import arrays, normal
from deployer.operators.softmax.rows import RowOperator, row_kernel
from deployer.operators.softmax.softmax import softmax


@register
class SoftmaxGrad(RowOperator):
    """dY and Y along `axis`, default the last; `alpha` is there where a product with a number follows, as of scores."""

    name = "SoftmaxGrad"
    aliases = ("SoftmaxGrad_13",)
    custom = Form((2, 2), (1, 1), {"axis": "INT"})
    kernel = row_kernel("softmax_grad_f32", ("dy", "y"), "dx", "alpha")
    multiplier = "alpha"
    phases = (
        ("Mul", "dy", "y", "products"),
        ("ReduceSum", "products", "dot"),
        ("Sub", "dy", "dot", "centred"),
        ("Mul", "y", "centred", "dx"),
    )
    no_gradient = "it belongs to a backward pass"
    flops = 4

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """alpha Y (dY - sum(dY Y))."""
        dy, y = arrays(inputs, 2)
        dot = (dy * y).sum(node.attr_int("axis", -1), keepdims=True, dtype=y.dtype)
        return (np.asarray(y * (dy - dot) * y.dtype.type(node.attr_float("alpha", 1.0))),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, strides and the factor."""
        return {**super().args(node, access), "alpha": Const(node.attr_float("alpha", 1.0))}

    def samples(self) -> Iterator[Sample]:
        """Last, first and middle axis, without and with a factor."""
        r = rng(94)
        for label, shape, axis in (
            ("last", (7, 5), -1),
            ("first", (5, 7), 0),
            ("middle", (3, 4, 5), 1),
            ("blocks", (3, 150), -1),
            ("long", (2, FACTS.longest_row + 7), 1),
        ):
            inputs = (normal(r, *shape), softmax(normal(r, *shape), axis))
            yield Sample(label, inputs, {"axis": axis}, onnx=False)
        scaled = (normal(r, 7, 5), softmax(normal(r, 7, 5), 1))
        yield Sample("scaled", scaled, {"axis": 1, "alpha": 0.3}, onnx=False)
