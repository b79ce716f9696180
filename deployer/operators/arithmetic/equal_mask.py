"""EqualMask: Y = 1 where A equals B, else 0, with numpy broadcasting."""

from collections.abc import Iterator

import numpy as np

from deployer.core.forms import Form
from deployer.core.operator import Array, Sample, register, rng
from deployer.operators.elementwise import Binary, binary_kernel
from deployer.operators.inputs import normal


@register
class EqualMask(Binary):
    """A step of gradients: which elements are the extremum. The operator of ONNX gives no floats."""

    name = "EqualMask"
    custom = Form((2, 2), (1, 1))
    kernel = binary_kernel("equal_mask_f32")
    no_gradient = "it belongs to a backward pass"

    def apply(self, a: Array, b: Array) -> Array:
        """1 where A equals B."""
        return np.asarray(a == b, a.dtype)

    def samples(self) -> Iterator[Sample]:
        """Few values, so that some are equal; rows against a column, zeros of both signs, NaN."""
        r = rng(115)
        few = np.round(normal(r, 5, 7))
        yield Sample("same", (few, np.round(normal(r, 5, 7))), onnx=False)
        yield Sample("column", (few, few.max(1, keepdims=True)), onnx=False)
        odd = np.array([0.0, -0.0, np.nan, np.inf], np.float32)
        yield Sample("odd", (odd, odd[[1, 0, 2, 3]]), onnx=False)
