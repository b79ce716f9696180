"""ReluGrad: dX = dY where Y > 0, else 0; Y is the output of Relu."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.declarations import Finish
from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, Kernel, Sample, register, rng
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, normal

FINISH = Finish(pointer="gate", operand=1)


@register
class ReluGrad(Flat):
    """Elementwise over dY and Y."""

    name = "ReluGrad"
    custom = Form((2, 2), (1, 1))
    finish = FINISH
    kernel = Kernel(
        "relu_grad_f32",
        pointers=(("dy", "float32", False), ("y", "float32", False), ("dx", "float32", True)),
        scalars=(("n", "u32"),),
    )
    no_gradient = "it belongs to a backward pass"

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY where Y > 0."""
        dy, y = arrays(inputs, 2)
        return (np.where(y > 0, dy, dy.dtype.type(0)),)

    def samples(self) -> Iterator[Sample]:
        """Y with exact zeros, as Relu makes them."""
        r = rng(12)
        yield Sample("vector", (normal(r, 37), np.maximum(normal(r, 37), np.float32(0))), onnx=False)
        yield Sample("matrix", (normal(r, 5, 7), np.maximum(normal(r, 5, 7), np.float32(0))), onnx=False)
