"""Dropout and random numbers from a counter-based generator."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from deployer.core.access import Access, At, Broadcast, Dim, Operand
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, Kernel, Start, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, register, unsupported
from deployer.core.signatures import Signature, without
from deployer.core.traits.file import FileSpec
from deployer.core.traits.training import Recomputed, Training
from deployer.operators.base.operands import arrays, floats, operands
from deployer.operators.base.philox import BITS, WORDS, drawn, halves

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


def _keyed_dropout_draws(node: Node, constants: Mapping[str, Array]) -> bool:
    """Unless nothing is dropped."""
    return ratio_of(node) != 0


def _keeping_all(node: Node) -> Node:
    """With nothing to drop."""
    return replace(node, inputs=node.inputs[:1], attrs={"ratio": 0.0})


@register
class KeyedDropout(Operator):
    """Y = X / (1 - ratio) where an element is kept, else 0; which are kept follows from a key alone.

    Inputs are X and the number of the pass, which the front end adds where a file has none; dX is the same of dY, so
    that no mask is stored.
    """

    name = "KeyedDropout"
    file = FileSpec(custom=Signature((1, 2), (1, 1), {"ratio": "FLOAT", "seed": "INT", "stream": "INT"}))
    training = Training(passes=1, draws=_keyed_dropout_draws, drawless=_keeping_all)
    kernel = Kernel(
        "keyed_dropout_f32",
        pointers=(("x", "float32", False), ("count", "int32", False), ("y", "float32", True)),
        scalars=(
            *(("n", "u32"), ("start", "u32"), ("seed_low", "u32"), ("seed_high", "u32")),
            *(("stream", "u32"), ("threshold", "u32"), ("scale", "f32")),
        ),
    )

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

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """The rounds of the generator, a quarter of them per element; cores share the fours that have one counter."""
        return Work(macs=0, elements=tile["n"] * model.random_word_elements, parallel=-(-tile["n"] // WORDS))


TESTED = "is_test"
"""Before version 12 nothing says what the mask is where nothing is dropped, and nobody computes it."""


def _copy(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Versions 7 and 10 have no training mode: nothing is dropped, whatever `ratio` says."""
    return [replace(node, attrs={TESTED: 1})]


def _tested(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 7 it drops elements unless `is_test` says otherwise."""
    mode = {"training_mode": int(not node.attr_int(TESTED, 0)), TESTED: 1}
    return [without(replace(node, attrs={"ratio": 0.5, **node.attrs, **mode}), "consumed_inputs")]


def trains(node: Node) -> bool:
    """Whether a node with static attributes drops elements."""
    return bool(node.attr_int("training_mode", 0)) and ratio_of(node) != 0


PASSES = 3
"""The input of Dropout that is the number of the pass."""


def _dropout_draws(node: Node, constants: Mapping[str, Array]) -> bool:
    """In training mode."""
    attrs = dict(node.attrs)
    for position, name in Dropout.file.static_inputs.items():
        array = constants.get(node.inputs[position]) if node.inputs[position:] else None
        attrs |= {} if array is None or not array.size else {name: array.reshape(-1)[0].item()}
    return trains(replace(node, attrs=attrs))


@register
class Dropout(Operator):
    """In training elements are dropped by a key and the others scaled, at inference Y = X.

    KeyedDropout where it drops something, else Identity; behind ONNX's inputs it takes the number of the pass.
    """

    name = "Dropout"
    file = FileSpec(
        versions=(12, 13, 22),
        older={1: _tested, 6: _tested, 7: _copy, 10: _copy},
        flags=("training_mode",),
        static_inputs={1: "ratio", 2: "training_mode"},
    )
    composite = True
    training = Training(passes=PASSES, draws=_dropout_draws, drawless=_keeping_all)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X, and the mask."""
        x = operands(node, inputs, 1)[0]
        ratio_of(node)
        return (x, TensorType("int32", x.shape)) if len(node.outputs) > 1 else (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Y, and the mask: 1 where an element is kept."""
        x = arrays(inputs, 1)[0]
        mask = np.ones(x.shape, bool)
        if not trains(node):
            return (x, mask.astype(np.int32))[: max(len(node.outputs), 1)]
        count = inputs[PASSES]
        assert count is not None
        mask = kept(node, int(count.reshape(())), x.size).reshape(x.shape)
        y = KeyedDropout().reference(node, (x, count))[0]
        return (y, mask.astype(np.int32))[: max(len(node.outputs), 1)]

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """KeyedDropout, whose mask nobody computes, or Identity with a mask of ones."""
        x, y, mask = node.inputs[0], node.outputs[0], "".join(node.outputs[1:])
        if trains(node):
            count = node.inputs[PASSES : PASSES + 1]
            attrs = {name: node.attrs[name] for name in ("ratio", *KEYS) if name in node.attrs}
            return [Node(node.name, KeyedDropout.name, (x, *count), (y,), {"ratio": 0.5, **attrs})]
        nodes = [Node(node.name, "Identity", (x,), (y,))]
        if mask and not node.attr_int(TESTED, 0):
            shape = operands(node, inputs, 1)[0].shape
            nodes.append(Node(f"{node.name}/mask", "ConstantOfShape", (), (mask,), {"shape": shape, "value": 1}))
        return nodes


@register
class DropoutGrad(Operator):
    """dX = dY / (1 - ratio) where Dropout kept the element, else 0.

    ONNX Runtime's, of dY, the mask, ratio and training mode; the mask is drawn again by the key of the Dropout node,
    so that in its place stands the number of the pass.
    """

    name = "DropoutGrad"
    file = FileSpec(
        custom=Signature((2, 4), (1, 1)), flags=("training_mode",), static_inputs={2: "ratio", 3: "training_mode"}
    )
    training = Training(recomputed={1: Recomputed(Dropout.name, output=1, source=PASSES)})
    composite = True
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of dY; UnsupportedOperator where the mask is of no Dropout node that draws."""
        if node.attr_int("training_mode", 0) and "stream" not in node.attrs:
            raise unsupported(node, f"its mask {node.inputs[1]!r} is of no Dropout", "the mask that Dropout gives")
        return (floats(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Apply Dropout's reference to dY."""
        return Dropout().reference(self._forward(node), (inputs[0], None, None, inputs[1]))[:1]

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Lower like Dropout, over dY."""
        return Dropout().lower(self._forward(node), inputs)

    @staticmethod
    def _forward(node: Node) -> Node:
        return replace(node, inputs=(node.inputs[0], "", "", *node.inputs[1:2]))


DIGITS = 24
"""Bits of a number: as many as float32 holds exactly."""


def _keyed_uniform_draws(node: Node, constants: Mapping[str, Array]) -> bool:
    """Always."""
    return True


def _keyed_uniform_drawless(node: Node) -> Node:
    """A form that the operator does not have."""
    raise unsupported(node, "its numbers are drawn at random", "a model in which nothing is, or a seed")


@register
class KeyedUniform(Operator):
    """Numbers from 0 to below 1 of a shape; which they are follows from a key alone.

    Inputs are the shape, which is constant, and the number of the pass, which the front end adds where a file has
    none. A number is the upper bits of the element's word.
    """

    name = "KeyedUniform"
    training = Training(passes=1, draws=_keyed_uniform_draws, drawless=_keyed_uniform_drawless)
    file = FileSpec(
        custom=Signature((1, 2), (1, 1), {"shape": "INTS", "seed": "INT", "stream": "INT"}), static_inputs={0: "shape"}
    )
    no_gradient = "numbers that are drawn have none"
    kernel = Kernel(
        "keyed_uniform_f32",
        pointers=(("count", "int32", False), ("y", "float32", True)),
        scalars=(*(("n", "u32"), ("start", "u32"), ("seed_low", "u32"), ("seed_high", "u32")), ("stream", "u32")),
    )

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

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """The rounds of the generator, a quarter of them per element; cores share the fours that have one counter."""
        return Work(macs=0, elements=tile["n"] * model.random_word_elements, parallel=-(-tile["n"] // WORDS))
