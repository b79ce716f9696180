"""KeyedUniform: numbers from 0 to below 1 of a shape; which they are follows from a key alone."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Broadcast, Dim, Operand
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    Kernel,
    Operator,
    Sample,
    Start,
    Work,
    register,
    unsupported,
)
from deployer.operators.philox import BITS, WORDS, drawn, halves
from deployer.operators.random.keyed_dropout import KEYS

DIGITS = 24
"""Bits of a number: as many as float32 holds exactly."""


@register
class KeyedUniform(Operator):
    """Inputs are the shape, which is constant, and the number of the pass, which the front end adds where a file has
    none. A number is the upper bits of the element's word.
    """

    name = "KeyedUniform"
    custom = Form((1, 2), (1, 1), {"shape": "INTS", "seed": "INT", "stream": "INT"})
    passes = 1
    static_inputs: ClassVar[dict[int, str]] = {0: "shape"}
    no_gradient = "numbers that are drawn have none"
    kernel = Kernel(
        "keyed_uniform_f32",
        pointers=(("count", "int32", False), ("y", "float32", True)),
        scalars=(*(("n", "u32"), ("start", "u32"), ("seed_low", "u32"), ("seed_high", "u32")), ("stream", "u32")),
    )

    def draws(self, node: Node, constants: Mapping[str, Array]) -> bool:
        """Always."""
        return True

    def drawless(self, node: Node) -> Node:
        """There is no such form."""
        raise unsupported(node, "its numbers are drawn at random", "a model in which nothing is, or a seed")

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Floats of that shape."""
        shape = node.attr_ints("shape", ())
        if inputs[1:] and inputs[1] is not None and (inputs[1].dtype, inputs[1].size) != ("int32", 1):
            raise unsupported(node, f"the number of the pass is {inputs[1]}", "one integer")
        if min(shape, default=1) < 1:
            raise unsupported(node, f"its shape is {list(shape)}", "axes of at least one element")
        return (TensorType("float32", shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The upper bits of each word."""
        count = inputs[1]
        assert count is not None
        shape, (seed, stream) = node.attr_ints("shape", ()), (node.attr_int(key, 0) for key in KEYS)
        words = drawn(seed, stream, int(count.reshape(())), int(np.prod(shape, dtype=np.int64)))
        return (np.asarray((words >> np.uint32(BITS - DIGITS)) * np.float32(2.0**-DIGITS), np.float32).reshape(shape),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim, and the number of the pass for all."""
        size = types[node.outputs[0]].size
        operands = (
            Operand("count", node.inputs[1], "in", (1,), (Broadcast(),)),
            Operand("y", node.outputs[0], "out", (size,), (At("n"),)),
        )
        return Access((Dim("n", size),), operands)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's place in the tensor, and the key."""
        low, high = halves(node.attr_int("seed", 0))
        key: dict[str, ArgValue] = {"seed_low": Const(low), "seed_high": Const(high)}
        return {"n": Extent("n"), "start": Start("n"), **key, "stream": Const(node.attr_int("stream", 0))}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """The rounds of the generator, a quarter of them per element; cores share the fours that have one counter."""
        return Work(macs=0, elements=tile["n"] * FACTS.random, parallel=-(-tile["n"] // WORDS))

    def samples(self) -> Iterator[Sample]:
        """Lengths that end within a block, a seed of two words, and later passes."""
        given: tuple[tuple[str, tuple[int, ...], int, dict[str, AttrValue]], ...] = (
            ("vector", (37,), 1, {}),
            ("matrix", (5, 26), 1000, {"seed": (7 << BITS) + 3, "stream": 2}),
            ("later", (3, 5, 7), -5, {"stream": 1}),
        )
        for label, shape, passes, attrs in given:
            inputs = (None, np.array([passes], np.int32))
            yield Sample(label, inputs, {"shape": shape, **attrs}, onnx=False)
