"""Constant: a value given by an attribute; it only ever folds."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Sample, register, unsupported
from deployer.operators.views.compile_time import Folded


@register
class Constant(Folded):
    """The forms value_int(s) and value_float(s); reading the file makes a tensor `value` an initializer."""

    name = "Constant"
    versions = (1, 9, 11, 12, 13, 19, 21, 23, 24, 25)
    literal = True
    unbounded = ("value_float", "value_floats")

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar or a vector of the attribute's dtype."""
        value = _value(node)
        return (TensorType(value.dtype.name, value.shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The attribute's value."""
        return (_value(node),)

    def samples(self) -> Iterator[Sample]:
        """Scalars and vectors of both dtypes."""
        yield Sample("int", (), {"value_int": 7})
        yield Sample("ints", (), {"value_ints": (3, -1)})
        yield Sample("float", (), {"value_float": 0.5})
        yield Sample("floats", (), {"value_floats": (0.5, -2.0)})


def _value(node: Node) -> Array:
    for attribute, dtype in (("value_int", np.int32), ("value_float", np.float32)):
        for name in (attribute, f"{attribute}s"):
            if name in node.attrs:
                return np.array(node.attrs[name], dtype)
    raise unsupported(node, "the constant has no numeric value", "value_int(s), value_float(s) or an initializer")
