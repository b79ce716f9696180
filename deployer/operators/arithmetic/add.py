"""Add: Y = A + B with numpy broadcasting."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.declarations import ACTIVATION
from deployer.core.forms import Rule
from deployer.core.ir import Node, TensorType
from deployer.core.operator import ArgValue, Array, Const, GradientBuilder, Kernel, Sample, Work, register, rng
from deployer.operators.broadcast import LOOPS, loop_scalars
from deployer.operators.elementwise import Binary, binary_kernel, limited
from deployer.operators.finishing import (
    GATE,
    GATE_POINTER,
    RELU,
    RELU_SCALAR,
    check_gate,
    extra_work,
    finished,
    gate_array,
    gate_operands,
    relu_args,
    through,
)
from deployer.operators.inputs import normal

_UNGATED = binary_kernel("add_f32")


@register
class Add(Binary):
    """Elementwise sum.

    Fusion sets attribute `activation` where Relu follows, and a third input where the gradient of a Relu does: its Y.
    """

    name = "Add"
    overflow = "any"
    at_run_time = "IntegerAdd"
    versions = (7, 13, 14)
    older: ClassVar[dict[int, Rule]] = {1: limited, 6: limited}
    kernel = Kernel(
        _UNGATED.symbol,
        pointers=(*_UNGATED.pointers[:2], GATE_POINTER, *_UNGATED.pointers[2:]),
        scalars=(*loop_scalars(("a", "b", "y", GATE)), RELU_SCALAR),
    )
    pointed: ClassVar[dict[str, int]] = {GATE: 2}
    is_sum = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape of two operands of one dtype."""
        (y,) = super().infer(node, inputs)
        check_gate(node, inputs, self.pointed[GATE], y)
        return (y,)

    def apply(self, a: Array, b: Array) -> Array:
        """A + B."""
        return a + b

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """A + B, then the fused Relu or gate."""
        (y,) = super().reference(node, inputs)
        return (finished(node, y, gate_array(inputs, self.pointed[GATE])),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY for both, summed over the axes each was broadcast along."""
        dy = through(node, douts[0], b, self.pointed[GATE])
        for index in (0, 1):
            if b.needs_grad(index):
                b.reduce_to(dy, b.type(node.inputs[index]).shape, b.grad(index))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """The access of two operands; a gate, where there is one, is read at the elements that Y is written at."""
        ungated = super().access(node, types)
        *inputs, y = ungated.operands
        return replace(ungated, operands=(*inputs, *gate_operands(node, self.pointed[GATE], y), y))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Lengths and strides of the loops, strides of the gate (zero without one), and whether Relu follows."""
        absent: dict[str, ArgValue] = {f"{GATE}{i}": Const(0) for i in range(LOOPS)}
        return absent | super().args(node, access) | relu_args(node)

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One operation per output element, and one for each that is fused."""
        ungated = super().work(node, access, tile)
        return replace(ungated, elements=ungated.elements * (1 + extra_work(node, access)))

    def samples(self) -> Iterator[Sample]:
        """The shapes of `binary_samples`, some with Relu and some with a gate."""
        for number, sample in enumerate(super().samples()):
            yield sample
            a, b = sample.inputs
            assert a is not None
            assert b is not None
            if number % 3 == 1:
                yield Sample(f"{sample.label}_relu", (a, b), {ACTIVATION: RELU}, onnx=False)
            if number % 3 != 1:
                gate = np.maximum(normal(rng(number), *np.broadcast_shapes(a.shape, b.shape)), np.float32(0))
                yield Sample(f"{sample.label}_gate", (a, b, gate), onnx=False)
