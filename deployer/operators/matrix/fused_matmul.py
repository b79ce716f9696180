"""FusedMatMul: alpha op(A) op(B), ONNX Runtime's product of matrices in which operands may be transposed."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, registry, rng
from deployer.operators.construction import Construction
from deployer.operators.inputs import arrays, floats, normal

SWAPS = ("transA", "transB")
ROTATIONS = ("transBatchA", "transBatchB")


@register
class FusedMatMul(Operator):
    """transA and transB swap the last two axes; transBatchA and transBatchB move the first one behind the batch before.

    A vector is not swapped, and axes move where both operands have as many, more than two, as in ONNX Runtime.
    """

    name = "FusedMatMul"
    aliases = ("TransposeMatMul",)
    custom = Form((2, 2), (1, 1), {"alpha": "FLOAT", **dict.fromkeys((*SWAPS, *ROTATIONS), "INT")})
    flags = (*SWAPS, *ROTATIONS)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The shape of the product of the transposed operands."""
        ranks = [len(kind.shape) for kind in floats(node, inputs, 2)]
        for flag in ROTATIONS:
            if node.attr_int(flag, 0) and not min(ranks) == max(ranks) > len(SWAPS):
                raise mismatch(node, f"{flag} needs operands of equal ranks above {len(SWAPS)}", inputs)
        used = [
            TensorType(kind.dtype, tuple(kind.shape[axis] for axis in _order(node, i, len(kind.shape))))
            for i, kind in enumerate(floats(node, inputs, 2))
        ]
        return registry()["MatMul"].infer(node, used)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The product of the transposed operands, times alpha."""
        a, b = (x.transpose(_order(node, i, x.ndim)) for i, x in enumerate(arrays(inputs, 2)))
        return (np.asarray((a @ b) * a.dtype.type(node.attr_float("alpha", 1.0)), a.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Transpose where a batch axis moves, and Gemm; of a vector MatMul and Mul."""
        parts, names, alpha = Construction(node.name), list(node.inputs), node.attr_float("alpha", 1.0)
        ranks = [len(kind.shape) for kind in floats(node, inputs, 2)]
        if min(ranks) < len(SWAPS):
            names = [self._ordered(parts, node, i, rank) for i, rank in enumerate(ranks)]
            product = parts.emit("MatMul", names, "" if alpha != 1.0 else node.outputs[0])
            if alpha != 1.0:
                parts.emit("Mul", (product, parts.number(alpha)), node.outputs[0])
            return parts.nodes
        for i, rank in enumerate(ranks):
            if _moves(node, i, rank):
                names[i] = parts.emit("Transpose", (names[i],), perm=_moved(rank))
        swaps: dict[str, AttrValue] = {name: node.attr_int(name, 0) for name in SWAPS}
        parts.emit("Gemm", names, node.outputs[0], alpha=alpha, beta=0.0, **swaps)
        return parts.nodes

    @staticmethod
    def _ordered(parts: Construction, node: Node, index: int, rank: int) -> str:
        """The operand with its axes in order."""
        order, name = _order(node, index, rank), node.inputs[index]
        return name if order == tuple(range(rank)) else parts.emit("Transpose", (name,), perm=order)

    def samples(self) -> Iterator[Sample]:
        """Matrices and batches, each operand transposed in each way, a factor, and vectors."""
        r = rng(131)
        yield Sample("plain", (normal(r, 5, 7), normal(r, 7, 3)))
        yield Sample("alpha", (normal(r, 5, 7), normal(r, 7, 3)), {"alpha": 0.25})
        yield Sample("trans_a", (normal(r, 2, 7, 5), normal(r, 2, 7, 3)), {"transA": 1})
        yield Sample("trans_b", (normal(r, 2, 3, 5, 7), normal(r, 2, 3, 4, 7)), {"transB": 1, "alpha": 0.5})
        yield Sample("both", (normal(r, 7, 5), normal(r, 2, 3, 7)), {"transA": 1, "transB": 1})
        yield Sample("batch_a", (normal(r, 5, 2, 7), normal(r, 2, 7, 3)), {"transBatchA": 1})
        yield Sample("batch_b", (normal(r, 2, 4, 5, 7), normal(r, 7, 2, 4, 3)), {"transBatchB": 1})
        turned: dict[str, AttrValue] = {"transA": 1, "transB": 1, "transBatchA": 1, "transBatchB": 1, "alpha": 2.0}
        yield Sample("all", (normal(r, 7, 2, 5), normal(r, 3, 2, 7)), turned)
        yield Sample("vector", (normal(r, 7), normal(r, 2, 3, 7)), {"transA": 1, "transB": 1, "alpha": 3.0})


def _moves(node: Node, index: int, rank: int) -> bool:
    """Whether the first axis of an operand moves behind the axes of the batch."""
    return rank > len(SWAPS) and bool(node.attr_int(ROTATIONS[index], 0))


def _moved(rank: int) -> tuple[int, ...]:
    return (*range(1, rank - 1), 0, rank - 1)


def _order(node: Node, index: int, rank: int) -> tuple[int, ...]:
    """The operand's axes in the order in which they are multiplied."""
    order = _moved(rank) if _moves(node, index, rank) else tuple(range(rank))
    swaps = rank >= len(SWAPS) and node.attr_int(SWAPS[index], 0)
    return (*order[:-2], order[-1], order[-2]) if swaps else order
