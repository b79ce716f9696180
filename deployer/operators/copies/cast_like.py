"""CastLike: X in the element type of another tensor."""

from collections.abc import Iterator, Sequence

from onnx import TensorProto

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, rng, unsupported
from deployer.operators.inputs import arrays, normal, operands


@register
class CastLike(Operator):
    """Cast to floats; which integers, or whether truths, the other tensor holds is not known here."""

    name = "CastLike"
    versions = (15, 19, 21, 23, 24, 25)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape, as floats."""
        x, like = operands(node, inputs, 2)
        if like.dtype != "float32":
            raise unsupported(node, f"it casts to the type of {like}", "Cast, or floats")
        return (TensorType(like.dtype, x.shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's astype."""
        x, like = arrays(inputs, 2)
        return (x.astype(like.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Cast."""
        return [Node(node.name, "Cast", node.inputs[:1], node.outputs, {"to": TensorProto.FLOAT})]

    def samples(self) -> Iterator[Sample]:
        """Floats."""
        r = rng(175)
        yield Sample("floats", (normal(r, 3, 4), normal(r, 1)))
