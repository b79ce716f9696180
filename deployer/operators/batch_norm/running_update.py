"""RunningUpdate: momentum * old + (1 - momentum) * new, a running statistic after a batch."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.access import Access
from deployer.core.ir import Node
from deployer.core.operator import ArgValue, Array, Const, Extent, Kernel, Sample, register, rng
from deployer.operators.batch_norm.channels import MOMENTUM
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, normal


@register
class RunningUpdate(Flat):
    """`momentum` is the weight of the old value."""

    name = "RunningUpdate"
    no_gradient = "running statistics are not trained"
    kernel = Kernel(
        "running_update_f32",
        pointers=(("old", "float32", False), ("x", "float32", False), ("y", "float32", True)),
        scalars=(("n", "u32"), ("kept", "f32"), ("added", "f32")),
    )

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """momentum * old + (1 - momentum) * new."""
        old, new = arrays(inputs, 2)
        momentum = old.dtype.type(node.attr_float("momentum", MOMENTUM))
        return (np.asarray(momentum * old + (1 - momentum) * new),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length and both weights."""
        momentum = np.float32(node.attr_float("momentum", MOMENTUM))
        return {"n": Extent("n"), "kept": Const(float(momentum)), "added": Const(float(np.float32(1) - momentum))}

    def samples(self) -> Iterator[Sample]:
        """Default and given momentum."""
        r = rng(71)
        yield Sample("default", (normal(r, 37), normal(r, 37)), onnx=False)
        yield Sample("momentum", (normal(r, 5), normal(r, 5)), {"momentum": 0.25}, onnx=False)
