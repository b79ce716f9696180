"""InvStd: one over the root of a given variance plus epsilon; a step of batch normalization's inference form."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import ArgValue, Array, Const, Extent, Kernel, Operator, Sample, Work, register, rng
from deployer.operators.batch_norm.channels import EPSILON
from deployer.operators.inputs import arrays, normal, operands


@register
class InvStd(Operator):
    """Elementwise."""

    name = "InvStd"
    custom = Form((1, 1), (1, 1), {"epsilon": "FLOAT"})
    no_gradient = "running statistics are not trained"
    kernel = Kernel(
        "inv_std_f32",
        pointers=(("x", "float32", False), ("y", "float32", True)),
        scalars=(("n", "u32"), ("epsilon", "f32")),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of the variance."""
        return (operands(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """1 / sqrt(var + epsilon)."""
        var = arrays(inputs, 1)[0]
        return (np.asarray(1 / np.sqrt(var + var.dtype.type(node.attr_float("epsilon", EPSILON)))),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim."""
        size = types[node.inputs[0]].size
        x = Operand("x", node.inputs[0], "in", (size,), (At("n"),))
        return Access((Dim("n", size),), (x, Operand("y", node.outputs[0], "out", (size,), (At("n"),))))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length and epsilon."""
        return {"n": Extent("n"), "epsilon": Const(node.attr_float("epsilon", EPSILON))}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A root and a division."""
        return Work(macs=0, elements=2 * tile["n"], parallel=tile["n"])

    def samples(self) -> Iterator[Sample]:
        """Default and given epsilon."""
        r = rng(70)
        yield Sample("default", (np.abs(normal(r, 37)) + np.float32(0.1),), onnx=False)
        yield Sample("epsilon", (np.abs(normal(r, 5)),), {"epsilon": 0.01}, onnx=False)
