"""MatMul: numpy's matmul, by Gemm."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.declarations import Fans
from deployer.core.errors import NotDifferentiable
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, Sample, mismatch, register, rng
from deployer.operators.inputs import arrays, floats, normal


@register
class MatMul(Operator):
    """A[.., M, K] B[.., K, N] with batch broadcasting; a vector is a row as A, a column as B."""

    name = "MatMul"
    overflow = "any"
    versions = (1, 9, 13)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The shape numpy's matmul gives."""
        a, b = floats(node, inputs, 2)
        if not a.shape or not b.shape:
            raise mismatch(node, "a scalar operand", inputs)
        left = a.shape if len(a.shape) > 1 else (1, *a.shape)
        right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
        if left[-1] != right[-2]:
            raise mismatch(node, f"A has K = {left[-1]}, B has K = {right[-2]}", inputs)
        try:
            batch = np.broadcast_shapes(left[:-2], right[:-2])
        except ValueError:
            raise mismatch(node, "batch axes do not broadcast", inputs) from None
        rows = left[-2:-1] if len(a.shape) > 1 else ()
        columns = right[-1:] if len(b.shape) > 1 else ()
        return (TensorType("float32", (*batch, *rows, *columns)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """A @ B."""
        a, b = arrays(inputs, 2)
        return (np.asarray(a @ b),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dA = dY B^T, dB = A^T dY, summed over the axes each was broadcast along."""
        shapes = [b.type(name).shape for name in node.inputs]
        if min(map(len, shapes)) < 2:
            raise NotDifferentiable(
                f"node {node.name!r} (MatMul) has no gradient for a vector: Unsqueeze it to a matrix"
            )
        batch = b.type(node.outputs[0]).shape[:-2]
        products = ((douts[0], node.inputs[1], 0, 1), (node.inputs[0], douts[0], 1, 0))
        for index, (left, right, trans_left, trans_right) in enumerate(products):
            if not b.needs_grad(index):
                continue
            exact = shapes[index][:-2] == batch
            out = b.grad(index) if exact else b.temp("product")
            b.emit("Gemm", (left, right), (out,), transA=trans_left, transB=trans_right, alpha=1.0, beta=0.0)
            if not exact:
                b.reduce_to(out, shapes[index], b.grad(index))

    def fans(self, node: Node, types: Mapping[str, TensorType]) -> Mapping[int, Fans]:
        """From K to M for A, from K to N for B; a vector leads to one output."""
        a, b = (types[name].shape for name in node.inputs)
        return {0: Fans(a[-1], math.prod(a[-2:-1])), 1: Fans(a[-1], b[-1] if len(b) > 1 else 1)}

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Gemm; a vector operand gets, and the result loses, an axis of one element by Reshape."""
        a, b = floats(node, inputs, 2)
        y, nodes, names = self.infer(node, inputs)[0], [], list(node.inputs)
        for index, (vector, matrix) in enumerate(((a.shape, (1, *a.shape)), (b.shape, (*b.shape, 1)))):
            if len(vector) == 1:
                names[index] = f"{node.outputs[0]}_{'ab'[index]}"
                name, source = f"{node.name}_{'ab'[index]}", (node.inputs[index],)
                nodes.append(Node(name, "Reshape", source, (names[index],), {"shape": matrix}))
        if not nodes:
            return [Node(node.name, "Gemm", node.inputs, node.outputs)]
        product = f"{node.outputs[0]}_product"
        gemm = Node(f"{node.name}_gemm", "Gemm", tuple(names), (product,))
        return [*nodes, gemm, Node(node.name, "Reshape", (product,), node.outputs, {"shape": y.shape})]

    def samples(self) -> Iterator[Sample]:
        """Matrices, batches on both sides or one, vectors."""
        r = rng(45)
        yield Sample("matrix", (normal(r, 5, 7), normal(r, 7, 3)))
        yield Sample("batch", (normal(r, 2, 3, 5, 7), normal(r, 2, 3, 7, 3)))
        yield Sample("batch_left", (normal(r, 2, 5, 7), normal(r, 7, 3)))
        yield Sample("batch_right", (normal(r, 5, 7), normal(r, 2, 7, 3)))
        yield Sample("vector_left", (normal(r, 7), normal(r, 7, 3)))
        yield Sample("vector_right", (normal(r, 2, 5, 7), normal(r, 7)))
        yield Sample("dot", (normal(r, 7), normal(r, 7)))
