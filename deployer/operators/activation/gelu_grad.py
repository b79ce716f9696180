"""GeluGrad: dX = dY (Phi(X) + X phi(X)), with the normal distribution and its density."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, Kernel, Sample, Work, register, rng
from deployer.operators.activation.gelu import distribution
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, floats, normal


@register
class GeluGrad(Flat):
    """Elementwise over dY and X."""

    name = "GeluGrad"
    custom = Form((2, 2), (1, 1))
    domain = ""
    kernel = Kernel(
        "gelu_grad_f32",
        pointers=(("dy", "float32", False), ("x", "float32", False), ("dx", "float32", True)),
        scalars=(("n", "u32"),),
    )
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        floats(node, inputs, 2)
        return super().infer(node, inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY (Phi(X) + X phi(X))."""
        dy, x = arrays(inputs, 2)
        density = np.exp(-np.square(x) / 2) / x.dtype.type(np.sqrt(2 * np.pi))
        return (np.asarray(dy * (distribution(x) + x * density)),)

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """An error function and an exponential per element."""
        return Work(macs=0, elements=2 * tile["n"] * FACTS.transcendental, parallel=tile["n"])

    def samples(self) -> Iterator[Sample]:
        """Both signs, and values far from zero."""
        r = rng(92)
        yield Sample("vector", (normal(r, 37), normal(r, 37)), onnx=False)
        yield Sample("matrix", (normal(r, 5, 7), normal(r, 5, 7)), onnx=False)
        yield Sample("wide", (normal(r, 41), np.linspace(-20, 20, 41, dtype=np.float32)), onnx=False)
