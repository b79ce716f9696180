"""Arithmetic of 8-bit operators: every number is signed, every sum exact, and one rounding brings it back to 8 bits.

A number q stands for (q - zero) * scale. A sum of products of such differences is an integer, which fits 32 bits; as
float32 it is multiplied by a ratio of scales, rounded half to even, moved by the result's zero and clipped, as ONNX
says of QLinearConv and its kin. A model's unsigned numbers are 128 less here, and so are their zeros.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType
from deployer.core.operator import Array, mismatch, unsupported

INT8, UINT8 = "int8", "uint8"
LEAST, MOST = -128, 127
"""The range of a signed number of 8 bits."""
ZERO, SCALE, LOW, HIGH = "zero", "scale", "low", "high"
"""Attributes of a result: its zero, its scale, and between which numbers it is clipped."""
RESULT: dict[str, str] = {ZERO: "INT", LOW: "INT", HIGH: "INT"}
"""Kinds of the attributes by which a sum becomes a number of 8 bits."""
RESULT_SCALARS: tuple[tuple[str, CType], ...] = (("zero", "i32"), ("low", "f32"), ("high", "f32"))
"""The kernel arguments that `result_args` gives."""


def eights(node: Node, inputs: Sequence[TensorType | None], count: int, dtype: str = INT8) -> list[TensorType]:
    """Types of the first `count` inputs, of that type of 8 bits; a file's constants have more until they are packed."""
    found = [kind for kind in inputs[:count] if kind is not None]
    if len(found) < count:
        raise mismatch(node, f"needs {count} inputs, has {len(found)}", inputs)
    if any(kind.dtype not in (dtype, "int32") for kind in found):
        shown = ", ".join(map(str, found))
        raise unsupported(node, f"its operands are {shown}", "results of operators of 8 bits, such as QuantizeInt8")
    return found


def clip_of(node: Node) -> tuple[int, int, int]:
    """Zero, least and most number of a node's result; UnsupportedOperator where they are out of range or order."""
    zero = node.attr_int(ZERO, 0)
    low, high = node.attr_int(LOW, LEAST), node.attr_int(HIGH, MOST)
    if not LEAST <= low <= high <= MOST or not LEAST <= zero <= MOST:
        raise unsupported(
            node, f"zero {zero}, low {low}, high {high}", f"{LEAST} <= low <= high <= {MOST}, such a zero"
        )
    return zero, low, high


def result_args(node: Node) -> Mapping[str, ArgValue]:
    """Kernel arguments of a result: its zero, and the bounds relative to it."""
    zero, low, high = clip_of(node)
    return {"zero": Const(zero), "low": Const(float(low - zero)), "high": Const(float(high - zero))}


def scale_of(node: Node, name: str) -> np.float32:
    """An attribute that is a positive scale; UnsupportedOperator where it is not."""
    scale = np.float32(node.attr_float(name, 0.0))
    if not (np.isfinite(scale) and scale > 0):
        raise unsupported(node, f"{name} is {scale}", "a finite scale above zero")
    return scale


def rounded(values: Array, node: Node) -> Array:
    """Float32 values as a node's numbers of 8 bits: clipped, rounded half to even, and moved by the zero."""
    zero, low, high = clip_of(node)
    bounds = np.float32(low - zero), np.float32(high - zero)
    values = np.where(values > bounds[0], values, bounds[0])  # what is no number becomes the least one
    values = np.where(values < bounds[1], values, bounds[1])
    return np.asarray(np.rint(values).astype(np.int32) + zero, np.int8)


def requantized(sums: Array, ratios: Array | np.float32, node: Node) -> Array:
    """Exact sums as a node's numbers of 8 bits: each is rounded to float32, multiplied by a ratio, and rounded."""
    wide = np.asarray(sums).astype(np.int64).astype(np.float32)
    return rounded(wide * np.asarray(ratios, np.float32), node)
