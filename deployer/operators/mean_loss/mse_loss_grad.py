"""MSELossGrad: dpred = 2 (pred - target) / numel."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.access import Access
from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import ArgValue, Array, Const, Extent, Kernel, Sample, register, rng
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, normal


@register
class MSELossGrad(Flat):
    """Gradient of MSELoss with respect to pred, for a loss gradient of one."""

    name = "MSELossGrad"
    custom = Form((2, 2), (1, 1))
    domain = ""
    kernel = Kernel(
        "mse_loss_grad_f32",
        pointers=(("pred", "float32", False), ("target", "float32", False), ("dpred", "float32", True)),
        scalars=(("n", "u32"), ("scale", "f32")),
    )
    no_gradient = "it belongs to a backward pass"

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """2 (pred - target) / numel."""
        pred, target = arrays(inputs, 2)
        return (np.asarray(2 * (pred - target) / pred.dtype.type(pred.size)),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length and 2 / numel of the whole tensor: a product, as not every machine divides fast."""
        return {"n": Extent("n"), "scale": Const(2.0 / access.dim("n").size)}

    def samples(self) -> Iterator[Sample]:
        """A vector and a batch."""
        r = rng(16)
        yield Sample("vector", (normal(r, 37), normal(r, 37)), onnx=False)
        yield Sample("batch", (normal(r, 3, 13), normal(r, 3, 13)), onnx=False)
