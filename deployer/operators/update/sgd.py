"""SGD: w' = w - lr * g, in place."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.declarations import Optimizer, Sequences
from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import ArgValue, Array, Const, Extent, Kernel, Sample, register, rng
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, normal

LEARNING_RATE = 0.01


@register
class SGD(Flat):
    """Plain gradient descent; attribute `lr`."""

    name = "SGD"
    custom = Form((2, 2), (1, 1), {"lr": "FLOAT"})
    domain = ""
    optimizer = Optimizer(
        "sgd",
        rate="lr",
        usual=True,
        sequences=Sequences("SGDOptimizerV2", Form((3, 3), (1, 2)), {1: 0, 2: 1}),
        default_rate=LEARNING_RATE,
    )
    kernel = Kernel(
        "sgd_f32",
        pointers=(("w", "float32", True), ("g", "float32", False)),
        scalars=(("n", "u32"), ("lr", "f32")),
    )
    inplace: ClassVar[dict[int, int]] = {0: 0}
    no_gradient = "it is an optimizer"

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """w - lr * g."""
        w, g = arrays(inputs, 2)
        return (np.asarray(w - w.dtype.type(node.attr_float("lr", LEARNING_RATE)) * g),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length and the learning rate."""
        return {"n": Extent("n"), "lr": Const(node.attr_float("lr", LEARNING_RATE))}

    def samples(self) -> Iterator[Sample]:
        """Default and given learning rate."""
        r = rng(14)
        yield Sample("default", (normal(r, 37), normal(r, 37)), onnx=False)
        yield Sample("lr", (normal(r, 5, 7), normal(r, 5, 7)), {"lr": 0.125}, onnx=False)
