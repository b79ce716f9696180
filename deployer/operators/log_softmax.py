"""LogSoftmax: x - max - log(sum(exp(x - max))) along one axis."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.access import Access, At, Dim, Operand, Whole
from deployer.elementwise import TRANSCENDENTAL
from deployer.inputs import arrays, normal, operands
from deployer.ir import Node, TensorType
from deployer.losses import log_softmax
from deployer.operator import (
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
)


@register
class LogSoftmax(Operator):
    """`axis`, default the last."""

    name = "LogSoftmax"
    no_gradient = "train through SoftmaxCrossEntropyLoss, whose gradient includes it"
    kernel = Kernel(
        "log_softmax_f32",
        pointers=(("x", "float32", False), ("y", "float32", True)),
        scalars=tuple((name, "u32") for name in ("outer", "classes", "inner", "x_o", "x_c", "y_o", "y_c")),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = operands(node, inputs, 1)[0]
        axis = node.attr_int("axis", -1)
        if not -len(x.shape) <= axis < len(x.shape):
            raise mismatch(node, f"axis {axis} outside rank {len(x.shape)}", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """x - max - log(sum(exp(x - max)))."""
        x = arrays(inputs, 1)[0]
        return (log_softmax(x, node.attr_int("axis", -1)),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """X as [outer, classes, inner]; the class axis is whole in every tile."""
        shape = types[node.inputs[0]].shape
        axis = node.attr_int("axis", -1) % len(shape)
        view = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
        axes = (At("outer"), Whole(), At("inner"))
        x, y = (
            Operand("x", node.inputs[0], "in", view, axes),
            Operand("y", node.outputs[0], "out", view, axes),
        )
        return Access((Dim("outer", view[0]), Dim("inner", view[2])), (x, y))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides."""
        strides = {f"{arg}_{label}": Stride(arg, i) for arg in "xy" for i, label in enumerate("oc")}
        classes = Const(access.operand("x").view[1])
        return {"outer": Extent("outer"), "classes": classes, "inner": Extent("inner"), **strides}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """An exponential per element, a logarithm per row."""
        rows = tile["outer"] * tile["inner"]
        classes = access.operand("x").view[1]
        return Work(macs=0, elements=rows * (classes + 1) * TRANSCENDENTAL, parallel=rows)

    def samples(self) -> Iterator[Sample]:
        """Last, first, middle axis, and values of +-1e4."""
        r = rng(32)
        yield Sample("last", (normal(r, 7, 5),))
        yield Sample("first", (normal(r, 5, 7),), {"axis": 0})
        yield Sample("middle", (normal(r, 3, 4, 5),), {"axis": 1})
        yield Sample("huge", (np.asarray(r.choice([-1e4, 0.0, 1e4], (7, 5)), np.float32),), {"axis": -1})

    def sweep(self) -> Iterator[Sample]:
        """Few and many rows and classes."""
        r = rng(33)
        for shape in ((1, 10), (4, 10), (8, 100), (64, 10), (16, 32)):
            yield Sample(f"{shape[0]}x{shape[1]}", (normal(r, *shape),))
