"""ReduceLogSumExp: the logarithm of the sum of exponentials over some axes."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Sample, register, rng
from deployer.operators.broadcast import LOOPS
from deployer.operators.inputs import arrays, floats
from deployer.operators.reduction.composed import ComposedReduction


@register
class ReduceLogSumExp(ComposedReduction):
    """M + Log of ReduceSum of Exp of X - M, with M the maximum, so that nothing overflows; M is finite."""

    name = "ReduceLogSumExp"
    versions = (1, 11, 13, 18, 28)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The maximum, and the logarithm of the sum of exponentials relative to it."""
        x, axes, keep = self.operand(node, inputs)
        ends = np.finfo(x.dtype)
        most = np.clip(x.max(axes, keepdims=True), ends.min, ends.max)
        y = most + np.log(np.exp(x - most).sum(axes, dtype=x.dtype, keepdims=True))
        return (np.asarray(y if keep else y.squeeze(axes), dtype=x.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The maximum as a finite number, what is left of X, its exponentials, their sum, its logarithm, their sum."""
        x = floats(node, inputs, 1)[0]
        extreme, most, shifted, powers, total, log, kept = (
            f"{node.name}/{label}" for label in ("extreme", "most", "shifted", "powers", "total", "log", "kept")
        )
        ends: dict[str, AttrValue] = {"min": float(np.finfo(np.float32).min), "max": float(np.finfo(np.float32).max)}
        along = {**self.along(node, x), "keepdims": 1}
        shape = self.infer(node, inputs)[0].shape
        return [
            Node(extreme, "ReduceMax", node.inputs[:1], (extreme,), along),
            Node(most, "Clip", (extreme,), (most,), ends),  # infinities leave nothing of infinities
            Node(shifted, "Sub", (node.inputs[0], most), (shifted,)),
            Node(powers, "Exp", (shifted,), (powers,)),
            Node(total, "ReduceSum", (powers,), (total,), along),
            Node(log, "Log", (total,), (log,)),
            Node(kept, "Add", (log, most), (kept,)),
            Node(node.name, "Reshape", (kept,), node.outputs, {"shape": shape}),
        ]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY exp(X - Y)."""
        if b.needs_grad(0):
            below, shares = b.temp("below"), b.temp("shares")
            b.emit("Sub", (node.inputs[0], self.column(node, node.outputs[0], b)), (below,))
            b.emit("Exp", (below,), (shares,))
            b.emit("Mul", (shares, self.column(node, douts[0], b)), (b.grad(0),))

    def samples(self) -> Iterator[Sample]:
        """Those whose axes broadcast in few loops, and values of +-1e4."""
        yield from (s for s in super().samples() if arrays(s.inputs, 1)[0].ndim <= LOOPS)
        huge = np.asarray(rng(118).choice([-1e4, 0.0, 1e4], (7, 5)), np.float32)
        yield Sample("huge", (huge,), {"axes": (1,)})
