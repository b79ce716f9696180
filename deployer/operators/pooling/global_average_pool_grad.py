"""GlobalAveragePoolGrad: dX = dY / (H W), repeated over the spatial axes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.forms import Extra, Form
from deployer.core.ir import Node, TensorType
from deployer.core.kernel_facts import measured
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
from deployer.operators.finishing import (
    GATE,
    GATE_POINTER,
    check_gate,
    finished,
    gate_args,
    gate_array,
    gate_operands,
    gated_form,
)
from deployer.operators.inputs import arrays, normal, operands


@register
class GlobalAveragePoolGrad(Operator):
    """`kernel_shape` gives the spatial shape of X, or `input_shape` the whole of it.

    Fusion sets a second input where the gradient of a Relu follows: its Y.
    """

    name = "GlobalAveragePoolGrad"
    custom = Form((1, 1), (1, 1), {"input_shape": "INTS"})
    extras = (Extra("kernel_shape", ("INTS",), "says the spatial shape of X, which dY leaves open"),)
    domain = ""
    no_gradient = "it is itself a gradient"
    kernel = Kernel(
        "global_pool_grad_f32",
        pointers=(("dy", "float32", False), GATE_POINTER, ("dx", "float32", True)),
        scalars=(("c", "u32"), ("s", "u32"), ("dx_c", "u32"), ("gate_c", "u32"), ("count", "f32")),
    )
    pointed: ClassVar[dict[str, int]] = {GATE: 1}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        dy = operands(node, inputs, 1)[0]
        input_shape = node.attr_ints("input_shape", ()) if "input_shape" in node.attrs else ()
        if not input_shape and "kernel_shape" not in node.attrs:
            raise unsupported(node, "the spatial shape of X is unknown", "attribute kernel_shape or input_shape")
        shape = input_shape or dy.shape[:2] + node.attr_ints("kernel_shape", ())
        if len(shape) < 3 or dy.shape != shape[:2] + (1,) * (len(shape) - 2) or min(shape) < 1:
            raise mismatch(node, f"dY does not belong to X of shape {shape}", inputs)
        x = TensorType(dy.dtype, shape)
        check_gate(node, inputs, self.pointed[GATE], x)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY over the number of elements."""
        dy = arrays(inputs, 1)[0]
        shape = self.infer(node, (TensorType("float32", dy.shape),))[0].shape
        dx = np.broadcast_to(dy / dy.dtype.type(math.prod(shape[2:])), shape).copy()
        return (finished(node, dx, gate_array(inputs, self.pointed[GATE])),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel dims c over images and channels, s over the spatial axes."""
        shape = types[node.outputs[0]].shape
        c, s = math.prod(shape[:2]), math.prod(shape[2:])
        dy = Operand("dy", node.inputs[0], "in", (c,), (At("c"),))
        dx = Operand("dx", node.outputs[0], "out", (c, s), (At("c"), At("s")))
        return Access((Dim("c", c), Dim("s", s)), (dy, *gate_operands(node, self.pointed[GATE], dx), dx))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, and the number of elements that share a gradient."""
        count = Const(float(access.dim("s").size))
        return {
            "c": Extent("c"),
            "s": Extent("s"),
            "dx_c": Stride("dx", 0),
            **gate_args(access, {"c": 0}),
            "count": count,
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """An element per output, which count as multiply-accumulates, and a division per channel."""
        count = tile["c"] * tile["s"]
        return Work(macs=count, elements=tile["c"], parallel=count, form=gated_form(access))

    def samples(self) -> Iterator[Sample]:
        """Both attributes, and a gate."""
        r = rng(62)
        yield Sample("kernel", (normal(r, 2, 3, 1, 1),), {"kernel_shape": (4, 5)}, onnx=False)
        yield Sample("whole", (normal(r, 1, 5, 1),), {"input_shape": (1, 5, 7)}, onnx=False)
        gated = (normal(r, 2, 3, 1, 1), normal(r, 2, 3, 4, 5))
        yield Sample("gated", gated, {"kernel_shape": (4, 5)}, onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """Few and many channels."""
        r = rng(63)
        for channels, side in measured("global_pools"):
            label, dy = f"{channels}x{side}x{side}", normal(r, 1, channels, 1, 1)
            yield Sample(label, (dy,), {"kernel_shape": (side, side)}, onnx=False)
            gated = (dy, normal(r, 1, channels, side, side))
            yield Sample(f"{label} gated", gated, {"kernel_shape": (side, side)}, onnx=False)
