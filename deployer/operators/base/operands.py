"""Operands of a node: present inputs, random samples, and reasons for unsupported ONNX operators."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, mismatch, unsupported

SIGNALS = 0x7FA00000
"""The bits of a float32 NaN that signals, which arithmetic, and some loads, turn into one that does not."""


def operands(node: Node, inputs: Sequence[TensorType | None], count: int) -> list[TensorType]:
    """Types of the first `count` inputs; ShapeMismatch where one is absent."""
    present = [t for t in inputs[:count] if t is not None]
    if len(present) < count:
        raise mismatch(node, f"needs {count} inputs, has {len(present)}", inputs)
    return present


def floats(node: Node, inputs: Sequence[TensorType | None], count: int) -> list[TensorType]:
    """The types of the first `count` inputs, as `operands` gives them; UnsupportedOperator where one is not float32."""
    present = operands(node, inputs, count)
    if any(t.dtype != "float32" for t in present):
        raise unsupported(node, f"its operands are {', '.join(map(str, present))}", "float32 operands")
    return present


def check_scalar(node: Node, name: str, x: TensorType) -> None:
    """Raise UnsupportedOperator where the constant attribute is several numbers, or not of the kind of those in X."""
    value = node.attrs.get(name)
    if isinstance(value, tuple) and len(value) != 1:
        raise unsupported(node, f"{name} is {value!s:.80}", "one number")
    first = value[0] if isinstance(value, tuple) else value
    if isinstance(first, (int, float)) and isinstance(first, float) != (x.dtype == "float32"):
        kind = "a float" if isinstance(first, float) else "an integer"
        raise unsupported(node, f"{name} is {kind}, X {x}", f"{name} in the element type of X")


def one_number(node: Node, name: str, default: int = 0) -> int:
    """The one integer that an attribute, or the constant input of that name, holds; UnsupportedOperator for others."""
    numbers = node.attr_ints(name, (default,))
    if len(numbers) != 1:
        raise unsupported(node, f"{name!r} is {numbers!s:.80}", "one number")
    return numbers[0]


def arrays(inputs: Sequence[Array | None], count: int) -> list[Array]:
    """The first `count` inputs; `infer` has checked that none is absent."""
    return [x for x in inputs[:count] if x is not None]


def words(generator: np.random.Generator, *shape: int) -> Array:
    """Integers for what moves elements: with the bits of a NaN that signals, and of others that floats may lose."""
    odd = np.array([SIGNALS, -SIGNALS, -1, 1, -(1 << 31)], np.int32)
    return np.asarray(generator.choice(odd, shape) ^ generator.integers(0, 1 << 16, shape, np.int32), np.int32)


def normal(generator: np.random.Generator, *shape: int) -> Array:
    """Standard normal float32 values."""
    return np.asarray(generator.standard_normal(shape), np.float32)


@dataclass
class Construction:
    """Nodes under construction; a value in between has the name of its node, which begins with `prefix`."""

    prefix: str
    nodes: list[Node] = field(default_factory=list, kw_only=True)

    def several(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: AttrValue) -> None:
        """Append a node with these outputs."""
        name = f"{self.prefix}/{op.lower()}{len(self.nodes)}"
        self.nodes.append(Node(name, op, tuple(inputs), tuple(outputs), attrs))

    def emit(self, op: str, inputs: Sequence[str], output: str = "", **attrs: AttrValue) -> str:
        """Append a node; returns its output."""
        output = output or f"{self.prefix}/{op.lower()}{len(self.nodes)}"
        self.several(op, inputs, (output,), **attrs)
        return output

    def number(self, value: float) -> str:
        """Append a constant; returns its name."""
        return self.emit("Constant", (), value_float=value)
