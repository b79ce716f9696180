"""SoftsignGrad: dX = dY (1 - |Y|)^2; Y is the output of Softsign."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, Kernel, Sample, register, rng
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, normal


@register
class SoftsignGrad(Flat):
    """Elementwise over dY and Y."""

    name = "SoftsignGrad"
    domain = "org.outside"
    custom = Form((2, 2), (1, 1))
    kernel = Kernel(
        "softsign_grad_f32",
        pointers=(("dy", "float32", False), ("y", "float32", False), ("dx", "float32", True)),
        scalars=(("n", "u32"),),
    )
    no_gradient = "it belongs to a backward pass"

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY (1 - |Y|)^2."""
        dy, y = arrays(inputs, 2)
        slope = y.dtype.type(1) - np.abs(y)
        return (np.asarray(dy * (slope * slope)),)

    def samples(self) -> Iterator[Sample]:
        """Y within its range."""
        r = rng(102)
        yield Sample("vector", (normal(r, 37), np.tanh(normal(r, 37))), onnx=False)
