"""Views of the same elements, and values that are known at compile time."""

import math
from collections.abc import Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.limits import check_elements
from deployer.core.operator import Array, mismatch, register, unsupported
from deployer.core.signatures import LATE_AXES, without
from deployer.core.traits.file import FileSpec
from deployer.operators.base.operands import arrays, operands
from deployer.operators.base.views import Folded, View, normalized_axes


@register
class AsFloat(Folded):
    """An integer known at compile time as the float32 next to it; it only ever folds.

    An operator with both integer and float operands is lowered to a node that reads AsFloat of the integers.
    """

    name = "AsFloat"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Floats of the same shape."""
        return (TensorType("float32", operands(node, inputs, 1)[0].shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The nearest float32."""
        return (arrays(inputs, 1)[0].astype(np.float32),)


@register
class Constant(Folded):
    """A value given by an attribute; it only ever folds.

    The forms value_int(s) and value_float(s); reading the file makes a tensor `value` an initializer.
    """

    name = "Constant"
    file = FileSpec(
        versions=(1, 9, 11, 12, 13, 19, 21, 23, 24, 25), literal=True, unbounded=("value_float", "value_floats")
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar or a vector of the attribute's dtype."""
        value = _constant_value(node)
        return (TensorType(value.dtype.name, value.shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The attribute's value."""
        return (_constant_value(node),)


def _constant_value(node: Node) -> Array:
    for attribute, dtype in (("value_int", np.int32), ("value_float", np.float32)):
        for name in (attribute, f"{attribute}s"):
            if name in node.attrs:
                return np.array(node.attrs[name], dtype)
    raise unsupported(node, "the constant has no numeric value", "value_int(s), value_float(s) or an initializer")


@register
class ConstantOfShape(Folded):
    """One value in every element of a given shape; it only ever folds.

    `value` is a number or a list of one, default 0.0.
    """

    name = "ConstantOfShape"
    file = FileSpec(versions=(9, 20, 21, 23, 24, 25), unbounded=("value",), static_inputs={0: "shape"})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The given shape with the value's dtype."""
        if "shape" not in node.attrs:
            raise unsupported(node, "the shape is not constant", "a constant shape input")
        shape = node.attr_ints("shape", ())
        if any(size < 0 for size in shape):
            raise mismatch(node, f"shape {shape} has a negative length", inputs)
        return (TensorType(_constant_of_shape_value(node).dtype.name, shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The value everywhere."""
        value = _constant_of_shape_value(node)
        return (np.full(node.attr_ints("shape", ()), value, value.dtype),)


def _constant_of_shape_value(node: Node) -> Array:
    value = node.attrs.get("value", 0.0)
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if not isinstance(value, (int, float)):
        raise unsupported(node, f"value {value!r} is not one number", "a tensor of one element")
    return np.array(value, np.int32 if isinstance(value, int) else np.float32)


def _counted_from_the_front(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 11 an axis from 0 to the rank."""
    axis = node.attr_int("axis", 1)
    if axis < 0:
        raise unsupported(node, f"axis is {axis}, which has a meaning from version 11 on only", "an axis from 0")
    return [node]


@register
class Flatten(View):
    """A matrix whose rows are the axes before `axis`. `axis` from -rank to rank, default 1."""

    name = "Flatten"
    file = FileSpec(versions=(11, 13, 21, 23, 24, 25), older={1: _counted_from_the_front, 9: _counted_from_the_front})

    def shape(self, node: Node, x: TensorType) -> tuple[int, ...]:
        """(product before axis, product from axis on)."""
        axis, rank = node.attr_int("axis", 1), len(x.shape)
        if not -rank <= axis <= rank:
            raise mismatch(node, f"axis {axis} outside rank {rank}", (x,))
        axis += rank if axis < 0 else 0
        return (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@register
class Identity(View):
    """Y = X, without a copy. The input under another name."""

    name = "Identity"
    file = FileSpec(versions=(1, 13, 14, 16, 19, 21, 23, 24, 25))

    def shape(self, node: Node, x: TensorType) -> tuple[int, ...]:
        """The input's."""
        return x.shape


@register
class Range(Folded):
    """Numbers from `start` on, `delta` apart, up to before `limit`; it only ever folds.

    Three numbers of one type, of integers or floats.
    """

    name = "Range"
    file = FileSpec(versions=(11, 27), static_inputs={0: "start", 1: "limit", 2: "delta"})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A vector of their type."""
        values = _values(node)
        return (TensorType("int32" if isinstance(values[0], int) else "float32", (_count(node, values),)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """start + i delta."""
        values = _values(node)
        kind = np.int32 if isinstance(values[0], int) else np.float32
        return ((values[0] + np.arange(_count(node, values)) * values[2]).astype(kind),)


def _values(node: Node) -> tuple[float, float, float]:
    """start, limit and delta; UnsupportedOperator unless all three are constant numbers of one type.

    They have shape [] in ONNX; a limit of shape [1] is what the body of ONNX's AffineGrid has.
    """
    values = []
    for name in ("start", "limit", "delta"):
        value = node.attrs.get(name)
        if name == "limit" and isinstance(value, tuple) and len(value) == 1:
            value = value[0]
        if not isinstance(value, (int, float)):
            raise unsupported(node, f"its {name} is not one constant number", "constants of shape []")
        values.append(value)
    if len(set(map(type, values))) > 1:
        raise mismatch(node, f"start, limit and delta, {values}, are not of one type", ())
    if not values[2]:
        raise mismatch(node, "delta is 0", ())
    return values[0], values[1], values[2]


def _count(node: Node, values: tuple[float, float, float]) -> int:
    count = max(math.ceil((values[1] - values[0]) / values[2]), 0)
    check_elements(node, "its numbers", (count,))
    return count


def _attribute_form(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 1 has the shape as an attribute."""
    if "shape" not in node.attrs:
        raise unsupported(node, "it has no shape", "attribute shape")
    return [without(node, "consumed_inputs")]


@register
class Reshape(View):
    """The same elements in a given shape.

    `shape` may hold one -1 (inferred) and 0 (copied from the input unless `allowzero`).
    """

    name = "Reshape"
    file = FileSpec(
        versions=(5, 13, 14, 19, 21, 23, 24, 25),
        older={1: _attribute_form},
        flags=("allowzero",),
        static_inputs={1: "shape"},
    )

    def shape(self, node: Node, x: TensorType) -> tuple[int, ...]:
        """The given shape with 0 and -1 resolved."""
        if "shape" not in node.attrs:
            raise unsupported(node, "the shape is not constant", "a constant shape input")
        shape = list(node.attr_ints("shape", ()))
        for axis, size in enumerate(shape):
            if size == 0 and not node.attr_int("allowzero", 0):
                if axis >= len(x.shape):
                    raise mismatch(node, f"shape {tuple(shape)} copies axis {axis} of {x}", (x,))
                shape[axis] = x.shape[axis]
        if any(size < -1 for size in shape) or shape.count(-1) > 1:
            raise mismatch(node, f"shape {tuple(shape)} has a negative length or more than one -1", (x,))
        if -1 in shape:
            product = math.prod(size for size in shape if size != -1)
            if product == 0 or x.size % product:
                raise mismatch(node, f"{x.size} elements do not fill shape {tuple(shape)}", (x,))
            shape[shape.index(-1)] = x.size // product
        return tuple(shape)


@register
class Shape(Folded):
    """The lengths of a tensor's axes; known at compile time, so it only ever folds.

    Lengths of the axes from `start` up to `end`, which may be negative.
    """

    name = "Shape"
    file = FileSpec(versions=(1, 13, 15, 19, 21, 23, 24, 25), type_only=True)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A vector of integers."""
        x = operands(node, inputs, 1)[0]
        return (TensorType("int32", (len(_selected_dims(node, x.shape)),)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The lengths as int32; the values of the input do not matter."""
        x = arrays(inputs, 1)[0]
        return (np.array(_selected_dims(node, x.shape), np.int32),)


def _selected_dims(node: Node, shape: tuple[int, ...]) -> tuple[int, ...]:
    # Python's slices clamp and count from the end as the ONNX text asks.
    return shape[node.attr_int("start", 0) : node.attr_int("end", len(shape))]


@register
class Size(Folded):
    """The number of elements of a tensor; known at compile time, so it only ever folds. A scalar integer."""

    name = "Size"
    file = FileSpec(versions=(1, 13, 19, 21, 23, 24, 25), type_only=True)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar integer."""
        operands(node, inputs, 1)
        return (TensorType("int32", ()),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The number of elements as int32; the values of the input do not matter."""
        x = arrays(inputs, 1)[0]
        return (np.array(x.size, np.int32),)


@register
class Squeeze(View):
    """Drop axes of one element.

    `axes` as attribute or input, an integer or a list in any order; all of one element where absent.
    """

    name = "Squeeze"
    file = FileSpec(versions=(1, 11, 13, 21, 23, 24, 25), extras=(LATE_AXES,), static_inputs={1: "axes"})

    def shape(self, node: Node, x: TensorType) -> tuple[int, ...]:
        """The input's without the axes."""
        numbers = node.attr_ints("axes", ())
        if not numbers and "axes" in node.attrs and 1 in x.shape:
            cause = "axes are an empty list: ONNX removes nothing, ONNX Runtime all axes of one element"
            raise unsupported(node, cause, "the axes to remove, or no list")
        if not numbers:
            return tuple(size for size in x.shape if size != 1)
        axes = normalized_axes(node, numbers, len(x.shape), (x,))
        if any(x.shape[axis] != 1 for axis in axes):
            raise mismatch(node, f"axes {axes} of {x} are not all of one element", (x,))
        return tuple(size for axis, size in enumerate(x.shape) if axis not in axes)


@register
class Unsqueeze(View):
    """Insert axes of one element.

    `axes` count in the output; attribute or input, an integer or a list in any order.
    """

    name = "Unsqueeze"
    file = FileSpec(versions=(1, 11, 13, 21, 23, 24, 25), extras=(LATE_AXES,), static_inputs={1: "axes"})

    def shape(self, node: Node, x: TensorType) -> tuple[int, ...]:
        """The input's with a one at each of the axes."""
        if "axes" not in node.attrs:
            raise unsupported(node, "the axes are not constant", "constant axes")
        axes = node.attr_ints("axes", ())
        rank = len(x.shape) + len(axes)
        inserted = normalized_axes(node, axes, rank, (x,))
        sizes = iter(x.shape)
        return tuple(1 if axis in inserted else next(sizes) for axis in range(rank))
