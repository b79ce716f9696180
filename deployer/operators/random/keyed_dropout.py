"""KeyedDropout: Y = X / (1 - ratio) where an element is kept, else 0; which are kept follows from a key alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from deployer.core.access import Access, At, Broadcast, Dim, Operand
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    GradientBuilder,
    Kernel,
    Operator,
    Sample,
    Start,
    Work,
    register,
    rng,
    unsupported,
)
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.philox import BITS, WORDS, drawn, halves

KEYS = ("seed", "stream")
"""The attributes of the key: what the whole model shares, and what each of its nodes has alone."""


def ratio_of(node: Node) -> float:
    """The share of elements that is dropped, as float32 has it; UnsupportedOperator unless it is from 0 to below 1."""
    ratio = node.attr_float("ratio", 0.5)
    with np.errstate(over="ignore"):
        narrow = float(np.float32(ratio))
    if not 0 <= narrow < 1:
        raise unsupported(node, f"ratio is {ratio}", "a ratio from 0 to below 1")
    return narrow


def threshold(ratio: float) -> int:
    """The least word of an element that is kept, so that a share of `ratio` of all words is below."""
    return round(ratio * 2.0**BITS)


def kept(node: Node, passes: int, count: int) -> npt.NDArray[np.bool_]:
    """Whether each of the elements, numbered row by row, is kept in a pass."""
    seed, stream = (node.attr_int(key, 0) for key in KEYS)
    words = drawn(seed, stream, passes, count)
    return words >= np.uint32(threshold(ratio_of(node)))


@register
class KeyedDropout(Operator):
    """Inputs are X and the number of the pass, which the front end adds where a file has none; dX is the same of dY, so
    that no mask is stored.
    """

    name = "KeyedDropout"
    custom = Form((1, 2), (1, 1), {"ratio": "FLOAT", "seed": "INT", "stream": "INT"})
    passes = 1
    kernel = Kernel(
        "keyed_dropout_f32",
        pointers=(("x", "float32", False), ("count", "int32", False), ("y", "float32", True)),
        scalars=(
            *(("n", "u32"), ("start", "u32"), ("seed_low", "u32"), ("seed_high", "u32")),
            *(("stream", "u32"), ("threshold", "u32"), ("scale", "f32")),
        ),
    )

    def draws(self, node: Node, constants: Mapping[str, Array]) -> bool:
        """Unless nothing is dropped."""
        return ratio_of(node) != 0

    def drawless(self, node: Node) -> Node:
        """With nothing to drop."""
        return replace(node, inputs=node.inputs[:1], attrs={"ratio": 0.0})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        ratio_of(node)
        if inputs[1:] and inputs[1] is not None and (inputs[1].dtype, inputs[1].size) != ("int32", 1):
            raise unsupported(node, f"the number of the pass is {inputs[1]}", "one integer")
        return (floats(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X / (1 - ratio) where it is kept."""
        x, count = arrays(inputs, 2)
        mask = kept(node, int(count.reshape(())), x.size).reshape(x.shape)
        scale = x.dtype.type(1 / (1 - node.attr_float("ratio", 0.5)))  # of a file it is float32 already
        return (np.where(mask, x * scale, x.dtype.type(0)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Identity where nothing is dropped."""
        return None if ratio_of(node) else [Node(node.name, "Identity", node.inputs[:1], node.outputs)]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """The same of dY, with the same key."""
        if b.needs_grad(0):
            b.emit(self.name, (douts[0], *node.inputs[1:]), (b.grad(0),), **node.attrs)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim, and the number of the pass for all."""
        size = types[node.inputs[0]].size
        flat = (size,), (At("n"),)
        operands = (
            Operand("x", node.inputs[0], "in", *flat),
            Operand("count", node.inputs[1], "in", (1,), (Broadcast(),)),
            Operand("y", node.outputs[0], "out", *flat),
        )
        return Access((Dim("n", size),), operands)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's place in the tensor, the key, and what is compared and multiplied with."""
        low, high = halves(node.attr_int("seed", 0))
        ratio = ratio_of(node)
        return {
            **{"n": Extent("n"), "start": Start("n"), "seed_low": Const(low), "seed_high": Const(high)},
            **{"stream": Const(node.attr_int("stream", 0)), "threshold": Const(threshold(ratio))},
            "scale": Const(float(np.float32(1 / (1 - ratio)))),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """The rounds of the generator, a quarter of them per element; cores share the fours that have one counter."""
        return Work(macs=0, elements=tile["n"] * FACTS.random, parallel=-(-tile["n"] // WORDS))

    def samples(self) -> Iterator[Sample]:
        """Lengths that end within a block, a seed of two words, later passes, and a ratio that keeps nearly none."""
        r = rng(121)
        given: tuple[tuple[str, tuple[int, ...], int, dict[str, AttrValue]], ...] = (
            ("half", (37,), 1, {"ratio": 0.5}),
            ("matrix", (5, 26), 1000, {"ratio": 0.25, "seed": (7 << BITS) + 3, "stream": 2}),
            ("most", (3, 5, 7), -5, {"ratio": 0.875, "stream": 1}),
        )
        for label, shape, passes, attrs in given:
            yield Sample(label, (normal(r, *shape), np.array([passes], np.int32)), attrs, onnx=False)
