"""ConvSGD: W' = W - lr * dW, in place: SGD of a convolution's weight.

The gradient is rounded before the rate multiplies it, and has no memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.ir import Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Kernel,
    Sample,
    Work,
    mismatch,
    register,
    rng,
)
from deployer.operators.convolution.conv_grad_w import ConvGradW
from deployer.operators.convolution.ways import Tile, Way
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.update.sgd import LEARNING_RATE, SGD

STEP_WORK = 2
"""Multiply-accumulates that the step of a weight is worth: it is loaded, and computed once more."""


def _stepped(work: Work, tile: Tile) -> Work:
    weights = tile["g"] * tile["m"] * tile["c"] * tile["kh"] * tile["kw"]
    return replace(work, lost=work.lost + STEP_WORK * weights)


def _stepping(way: Way) -> Way:
    return lambda node, access, tile: _stepped(way(node, access, tile), tile)


@register
class ConvSGD(ConvGradW):
    """dY, X, W with ConvGradW's attributes and `lr`; behind the kernel's pointer `grad` lies W."""

    name = "ConvSGD"
    custom = None
    applies = SGD.name
    no_gradient = "it is an optimizer"
    kernel = Kernel(
        "conv_sgd_f32", pointers=ConvGradW.kernel.pointers, scalars=(*ConvGradW.kernel.scalars, ("lr", "f32"))
    )
    inplace: ClassVar[dict[int, int]] = {0: 2}
    work_ways: ClassVar[Mapping[str, Way]] = {name: _stepping(way) for name, way in ConvGradW.work_ways.items()}

    def updating(self, producer: Node, update: Node, types: Mapping[str, TensorType]) -> Node | None:
        """The update with the operands of its gradient; None where that is stored as another shape."""
        weight = update.inputs[0]
        if producer.op != ConvGradW.name or types[producer.outputs[0]] != types[weight]:
            return None
        return Node("", self.name, (*producer.inputs, weight), (), {**producer.attrs, **update.attrs})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """W's type, which is that of its gradient."""
        dy, x, w = floats(node, inputs, 3)
        if ConvGradW().infer(node, [dy, x]) != (w,):
            raise mismatch(node, "the weight is of another type than its gradient", inputs)
        return (w,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """w - lr * g."""
        dy, x, w = arrays(inputs, 3)
        rate = w.dtype.type(node.attr_float("lr", LEARNING_RATE))
        (gradient,) = ConvGradW().reference(node, [dy, x])
        return (np.asarray(w - rate * gradient),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """None: what is lowered is the gradient, before it is joined."""
        return None

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """That of the gradient, whose sums no tile cuts: the weight has no room for a part of them."""
        plain = super().access(node, types)
        dims = tuple(replace(d, quantum=d.size) if d.kind == "reduction" else d for d in plain.dims)
        dy, x, grad = plain.operands
        return Access(dims, (dy, x, replace(grad, tensor=node.inputs[2], mode="inout")))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The learning rate, too."""
        return super().args(node, access) | {"lr": Const(node.attr_float("lr", LEARNING_RATE))}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """The work of the gradient, and of a step per weight."""
        return _stepped(super().work(node, access, tile), tile)

    def samples(self) -> Iterator[Sample]:
        """The forms of the gradient that are no volumes, with a weight."""
        yield from _with_weights(self, super().samples(), 49)

    def sweep(self) -> Iterator[Sample]:
        """The layers on which Conv is measured."""
        yield from _with_weights(self, super().sweep(), 50)


def _with_weights(operator: ConvSGD, gradients: Iterator[Sample], seed: int) -> Iterator[Sample]:
    """The samples of gradients with a weight of their shape and a rate."""
    r = rng(seed)
    for sample in gradients:
        dy, x = (array for array in sample.inputs if array is not None)
        if x.ndim > 4:
            continue
        node = Node(sample.label, operator.name, ("dy", "x"), ("w",), sample.attrs)
        (w,) = ConvGradW().infer(node, [TensorType("float32", array.shape) for array in (dy, x)])
        yield replace(sample, inputs=(dy, x, normal(r, *w.shape)), attrs={**sample.attrs, "lr": 0.125})
