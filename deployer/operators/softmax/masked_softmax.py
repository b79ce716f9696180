"""MaskedSoftmax: the softmax along the last axis of alpha X plus a mask, which attention makes of its scores."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand, Whole
from deployer.core.forms import Preparation
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel_facts import FACTS, measured
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    Kernel,
    Operator,
    Sample,
    Stride,
    Work,
    mismatch,
    register,
    rng,
    unsupported,
)
from deployer.operators.inputs import floats, normal
from deployer.operators.softmax.softmax import Softmax, softmax

MASK = 1
Shape = tuple[int, ...]


@register
class MaskedSoftmax(Operator):
    """X, and a mask that broadcasts to it along its first axes or along those behind, but the last; either is absent.

    `alpha` multiplies X, which is rounded before the mask is added: the bits are those of three steps.
    """

    name = "MaskedSoftmax"
    kernel = Kernel(
        "masked_softmax_f32",
        pointers=(("x", "float32", False), ("mask", "float32", False), ("y", "float32", True)),
        scalars=(
            *((name, "u32") for name in ("outer", "inner", "classes", "x_o", "x_i", "mask_o", "mask_i", "y_o", "y_i")),
            ("alpha", "f32"),
        ),
    )
    prepares = Preparation(Softmax.name, factor="alpha", addend=MASK)
    no_gradient = "softmax has it, for which this stands later"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X, whose last axis is that of the softmax and to which the mask broadcasts."""
        x = floats(node, inputs, 1)[0]
        rank = len(x.shape)
        if node.attr_int("axis", -1) not in (-1, rank - 1) or not rank:
            raise unsupported(node, "its axis is not the last", "the last axis")
        mask = inputs[MASK] if len(inputs) > MASK else None
        if mask is not None and (mask.dtype != "float32" or not _broadcasts(mask.shape, x.shape)):
            raise mismatch(node, f"the mask {mask} does not broadcast to X", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """exp(s - max s) / sum(exp(s - max s)) of s = alpha X + mask."""
        x, mask = (*inputs, None)[:2]
        assert x is not None
        scores = x * x.dtype.type(node.attr_float("alpha", 1.0))
        return (softmax(scores if mask is None else scores + mask, -1),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """X as [outer, inner, classes]: the mask is one for all of outer, or for all of inner, or for all rows."""
        shape = types[node.inputs[0]].shape
        name = node.inputs[MASK] if len(node.inputs) > MASK else ""
        mask = (1,) * (len(shape) - len(types[name].shape)) + types[name].shape if name else shape
        if mask[-1] != shape[-1]:
            raise unsupported(node, f"the mask {mask} is one for all classes", "a mask with a number for each class")
        outer, inner, repeats = _rows(node, mask[:-1], shape[:-1])
        view = (outer, inner, shape[-1])
        rows: tuple[Axis, ...] = (At("outer"), At("inner"), Whole())
        listed = [Operand("x", node.inputs[0], "in", view, rows)]
        if name:
            axes = (*(Broadcast() if r else axis for r, axis in zip(repeats, rows[:2], strict=True)), Whole())
            sizes = tuple(1 if r else size for r, size in zip(repeats, view[:2], strict=True))
            listed.append(Operand("mask", name, "in", (*sizes, shape[-1]), axes))
        listed.append(Operand("y", node.outputs[0], "out", view, rows))
        return Access((Dim("outer", outer), Dim("inner", inner)), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, strides (zero of an absent mask), and the factor."""
        strides: dict[str, ArgValue] = {"mask_o": Const(0), "mask_i": Const(0)}
        strides |= {f"{o.arg}_{label}": Stride(o.arg, i) for o in access.operands for i, label in enumerate("oi")}
        lengths: dict[str, ArgValue] = {"outer": Extent("outer"), "inner": Extent("inner")}
        classes = Const(access.operand("x").view[-1])
        return {**lengths, "classes": classes, **strides, "alpha": Const(node.attr_float("alpha", 1.0))}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """What a softmax costs, and two operations more of an element."""
        rows, classes = tile["outer"] * tile["inner"], access.operand("x").view[-1]
        return Work(macs=0, elements=rows * (classes + 1) * (FACTS.transcendental + 2), parallel=rows, runs=rows)

    def samples(self) -> Iterator[Sample]:
        """A factor, masks of every form, some of which leave out elements, both, and rows of several blocks."""
        r = rng(120)
        causal = np.triu(np.full((5, 5), -np.inf, np.float32), 1)
        forms: dict[str, tuple[Shape, Array | None]] = {
            "scaled": ((7, 5), None),
            "vector": ((3, 4, 6), normal(r, 6)),
            "causal": ((2, 3, 5, 5), causal),
            "heads": ((2, 3, 4, 5), normal(r, 1, 3, 4, 5)),
            "batch": ((2, 3, 4, 5), normal(r, 2, 1, 1, 5)),
            "whole": ((3, 4, 5), normal(r, 3, 4, 5)),
            "row": ((6,), normal(r, 6)),
            "blocks": ((2, 3, 150), normal(r, 3, 150)),
            "least": ((2, 4, 5), np.where(normal(r, 2, 1, 5) > 0, 0, np.finfo(np.float32).min).astype(np.float32)),
        }
        for label, (shape, mask) in forms.items():
            attrs: dict[str, AttrValue] = {} if label in ("vector", "batch") else {"alpha": 0.35}
            yield Sample(label, (normal(r, *shape), *([] if mask is None else [mask])), attrs, onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """Few and many rows and classes, of two heads with one mask."""
        r = rng(121)
        for rows, classes in measured("softmax"):
            inputs = (normal(r, 2, rows, classes), normal(r, rows, classes))
            yield Sample(f"{rows}x{classes}", inputs, {"alpha": 0.5}, onnx=False)


def _broadcasts(mask: Shape, shape: Shape) -> bool:
    try:
        return np.broadcast_shapes(mask, shape) == shape
    except ValueError:
        return False


def _rows(node: Node, mask: Shape, rows: Shape) -> tuple[int, int, tuple[bool, bool]]:
    """How the axes of the rows part in two, and along which of both the mask repeats; UnsupportedOperator where it
    repeats along others.
    """
    for split in range(len(rows) + 1):
        parts = [(mask[:split], rows[:split]), (mask[split:], rows[split:])]
        sizes = [(math.prod(m), math.prod(r)) for m, r in parts]
        if all(m in (1, r) for m, r in sizes):
            (m0, outer), (m1, inner) = sizes
            return outer, inner, (m0 != outer, m1 != inner)
    raise unsupported(
        node, f"the mask repeats along rows {rows} as {mask}", "a mask along the first or the last of them"
    )
