"""ConvGrad: the gradients of a convolution in one node, as training exporters write it."""

from collections.abc import Iterator, Sequence

from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, operator_of, register, rng
from deployer.operators.convolution.geometry import BACKWARD, CONV_ATTRS, FORMS, VOLUMES, fits, geometry
from deployer.operators.inputs import arrays, floats, normal, operands


@register
class ConvGrad(Operator):
    """dY, X, W -> dX, dW, dB; it is lowered to one operator for each output that the node has."""

    name = "ConvGrad"
    custom = Form((3, 3), (1, 3), CONV_ATTRS)
    no_gradient = BACKWARD

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of X and W, and B[M]."""
        dy, x, w = floats(node, inputs, 3)
        fits(node, geometry(node, x.shape, w.shape, inputs), dy.shape, inputs)
        return (x, w, TensorType("float32", w.shape[:1]))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dX, dW and dB, each by the reference of its own operator."""
        tensors = arrays(inputs, 3)
        names = ("dy", "x", "w")
        types = [TensorType("float32", array.shape) for array in tensors]
        full = Node(node.name, node.op, names, ("dx", "dw", "db"), node.attrs)
        values = dict(zip(names, tensors, strict=True))
        gradients: list[Array] = []
        for part in self._parts(full, types):
            gradients.extend(operator_of(part).reference(part, [values[n] for n in part.inputs]))
        return tuple(gradients)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ConvGradX, ConvGradW and ConvGradB; a shape that an input of theirs does not show is an attribute."""
        return self._parts(node, operands(node, inputs, 3))

    def _parts(self, node: Node, inputs: Sequence[TensorType]) -> list[Node]:
        dy, x, w = node.inputs[:3]
        shape = geometry(node, inputs[1].shape, inputs[2].shape, inputs)
        forms: tuple[tuple[str, tuple[str, ...], dict[str, AttrValue]], ...] = (
            ("X", (dy, w), {**shape.attrs, "input_shape": shape.input_shape}),
            ("W", (dy, x), shape.attrs),
            ("B", (dy,), {}),
        )
        return [
            Node(f"{node.name}_{part.lower()}", f"ConvGrad{part}", names, (output,), attrs)
            for (part, names, attrs), output in zip(forms, node.outputs, strict=False)
            if output
        ]

    def samples(self) -> Iterator[Sample]:
        """The forms of Conv, with and without bias."""
        r = rng(48)
        for i, (label, x, w, attrs) in enumerate((*FORMS, *VOLUMES)):
            y = geometry(Node(label, "Conv", (), (), attrs), x, w, ()).y_shape
            yield Sample(label, (normal(r, *y), normal(r, *x), normal(r, *w)), attrs, 2 + i % 2, onnx=False)
