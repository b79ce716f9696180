"""ClipGrad: dX = dY where min <= X <= max, else 0."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, Kernel, Sample, register, rng
from deployer.operators.elementwise import BOUNDS, Clipping, bounds
from deployer.operators.inputs import arrays, normal


@register
class ClipGrad(Clipping):
    """Takes dY and X. As in PyTorch the gradient passes where X equals a bound, and does not pass where X is NaN."""

    name = "ClipGrad"
    custom = Form((2, 2), (1, 1), {"min": "FLOAT", "max": "FLOAT"})
    kernel = Kernel(
        "clip_grad_f32",
        pointers=(("dy", "float32", False), ("x", "float32", False), ("dx", "float32", True)),
        scalars=BOUNDS,
    )
    no_gradient = "it belongs to a backward pass"
    unbounded = ("min", "max")

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY where X lies between the bounds."""
        dy, x = arrays(inputs, 2)
        low, high = bounds(node)
        return (np.where((x >= low) & (x <= high), dy, dy.dtype.type(0)),)

    def samples(self) -> Iterator[Sample]:
        """X on the bounds, inside and outside, NaN, and one bound alone."""
        r = rng(98)
        x = np.clip(normal(r, 37) * np.float32(6), np.float32(0), np.float32(6))
        yield Sample("relu6", (normal(r, 37), x), {"min": 0.0, "max": 6.0}, onnx=False)
        odd = np.array([-np.inf, -1, -0.0, 0.0, 1, 6, 7, np.inf, np.nan], np.float32)
        yield Sample("odd", (normal(r, 9), odd), {"min": 0.0, "max": 6.0}, onnx=False)
        yield Sample("min", (normal(r, 9), odd), {"min": 0.0}, onnx=False)
        yield Sample("max", (normal(r, 5, 7), normal(r, 5, 7)), {"max": 0.5}, onnx=False)
