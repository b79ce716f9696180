"""Products of stacks of matrices, transposed and scaled ones, and Einsum."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import At, Axis, Broadcast, Operand
from deployer.core.errors import NotDifferentiable
from deployer.core.ir import WEIGHT, AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, registry, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.numerics import Numerics
from deployer.core.traits.training import Fans, Training
from deployer.operators.base.operands import Construction, arrays, floats


def _fans(node: Node, types: Mapping[str, TensorType]) -> Mapping[int, Fans]:
    """From K to M for A, from K to N for B; a vector leads to one output."""
    a, b = (types[name].shape for name in node.inputs)
    return {0: Fans(a[-1], math.prod(a[-2:-1])), 1: Fans(a[-1], b[-1] if len(b) > 1 else 1)}


@register
class MatMul(Operator):
    """Numpy's matmul, by Gemm.

    A[.., M, K] B[.., K, N] with batch broadcasting; a vector is a row as A, a column as B.
    """

    name = "MatMul"
    numerics = Numerics(overflow="any")
    file = FileSpec(versions=(1, 9, 13))
    training = Training(fans=_fans)

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


SWAPS = ("transA", "transB")
ROTATIONS = ("transBatchA", "transBatchB")


@register
class FusedMatMul(Operator):
    """Alpha op(A) op(B), ONNX Runtime's product of matrices in which operands may be transposed.

    transA and transB swap the last two axes; transBatchA and transBatchB move the first one behind the batch before.

    A vector is not swapped, and axes move where both operands have as many, more than two, as in ONNX Runtime.
    """

    name = "FusedMatMul"
    file = FileSpec(
        aliases=("TransposeMatMul",),
        custom=Signature((2, 2), (1, 1), {"alpha": "FLOAT", **dict.fromkeys((*SWAPS, *ROTATIONS), "INT")}),
        flags=(*SWAPS, *ROTATIONS),
    )
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
        graph, names, alpha = Construction(node.name), list(node.inputs), node.attr_float("alpha", 1.0)
        ranks = [len(kind.shape) for kind in floats(node, inputs, 2)]
        if min(ranks) < len(SWAPS):
            names = [self._ordered(graph, node, i, rank) for i, rank in enumerate(ranks)]
            product = graph.emit("MatMul", names, "" if alpha != 1.0 else node.outputs[0])
            if alpha != 1.0:
                graph.emit("Mul", (product, graph.number(alpha)), node.outputs[0])
            return graph.nodes
        for i, rank in enumerate(ranks):
            if _moves(node, i, rank):
                names[i] = graph.emit("Transpose", (names[i],), perm=_moved(rank))
        swaps: dict[str, AttrValue] = {name: node.attr_int(name, 0) for name in SWAPS}
        graph.emit("Gemm", names, node.outputs[0], alpha=alpha, beta=0.0, **swaps)
        return graph.nodes

    @staticmethod
    def _ordered(graph: Construction, node: Node, index: int, rank: int) -> str:
        """The operand with its axes in order."""
        order, name = _order(node, index, rank), node.inputs[index]
        return name if order == tuple(range(rank)) else graph.emit("Transpose", (name,), perm=order)


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


Labelled = tuple[str, str]
"""The name of a value, and its axes, a letter each."""


@register
class Einsum(Operator):
    """Sums of products over named axes, such as products of matrices in batches.

    Operands are multiplied pair by pair from the left: Transpose, Reshape and MatMul, over batches of matrices.
    """

    name = "Einsum"
    training = Training(learned={0: WEIGHT, 1: WEIGHT})
    file = FileSpec(versions=(12, 28))
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The lengths of the letters behind the arrow."""
        types = floats(node, inputs, max(len(node.inputs), 1))
        terms, result = _terms(node, types)
        sizes = _sizes(node, terms, types)
        return (TensorType("float32", tuple(sizes[letter] for letter in result)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's einsum."""
        present = [x for x in inputs if x is not None]
        return (np.asarray(np.einsum(node.attr_str("equation", "").replace(" ", ""), *present), present[0].dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Letters that only one operand has, and not the result, are summed first."""
        types = floats(node, inputs, len(node.inputs))
        terms, result = _terms(node, types)
        products = _Products(node.name, _sizes(node, terms, types), [])
        waiting: list[Labelled] = list(zip(node.inputs, terms, strict=True))
        while len(waiting) > 1:
            left, right, *rest = waiting
            waiting = [products.product(left, right, result + "".join(term for _, term in rest)), *rest]
        products.ordered(products.summed(waiting[0], result), result, node.outputs[0])
        return products.nodes


def _terms(node: Node, types: Sequence[TensorType]) -> tuple[list[str], str]:
    """The letters of each operand and of the result; without an arrow those that occur once, in alphabetical order."""
    equation = node.attr_str("equation", "").replace(" ", "")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if not all(c.isascii() and c.isalpha() for c in left.replace(",", "") + result):
        raise unsupported(node, f"its equation is {equation!r}", "letters, commas and an arrow, without an ellipsis")
    if any(len(set(term)) < len(term) for term in (*terms, result)):
        raise unsupported(node, f"in {equation!r} a term has a letter twice", "a letter for each axis")
    if len(terms) != len(types) or any(len(t) != len(k.shape) for t, k in zip(terms, types, strict=True)):
        raise mismatch(node, f"{equation!r} is not one letter for each axis of each operand", types)
    joined = "".join(terms)
    result = result if arrow else "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    if not set(result) <= set(joined):
        raise mismatch(node, f"the result of {equation!r} has letters that no operand has", types)
    return terms, result


def _sizes(node: Node, terms: Sequence[str], types: Sequence[TensorType]) -> dict[str, int]:
    """The length of each letter."""
    sizes: dict[str, int] = {}
    for term, kind in zip(terms, types, strict=True):
        for letter, size in zip(term, kind.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise mismatch(node, f"axis {letter!r} is {sizes[letter]} long, and {size}", types)
    return sizes


class _Products:
    """Nodes under construction; a value in between has the name of its node."""

    def __init__(self, prefix: str, sizes: dict[str, int], nodes: list[Node]) -> None:
        self.prefix, self.sizes, self.nodes = prefix, sizes, nodes

    def emit(self, op: str, inputs: Sequence[str], attrs: dict[str, AttrValue], output: str = "") -> str:
        """Append a node; returns its output."""
        name = f"{self.prefix}/{op.lower()}{len(self.nodes)}"
        self.nodes.append(Node(name, op, tuple(inputs), (output or name,), attrs))
        return output or name

    def shape(self, *groups: str) -> tuple[int, ...]:
        """An axis for each group of letters."""
        return tuple(math.prod(self.sizes[letter] for letter in group) for group in groups)

    def summed(self, value: Labelled, kept: str) -> Labelled:
        """The value summed over the letters that are not kept."""
        name, letters = value
        axes = tuple(i for i, letter in enumerate(letters) if letter not in kept)
        if not axes:
            return value
        total = self.emit("ReduceSum", (name,), {"axes": axes, "keepdims": 0})
        return total, "".join(letter for letter in letters if letter in kept)

    def ordered(self, value: Labelled, letters: str, output: str = "") -> str:
        """The value with its axes in the order of the letters."""
        perm = tuple(value[1].index(letter) for letter in letters)
        if perm == tuple(range(len(perm))):
            return self.emit("Identity", value[:1], {}, output) if output else value[0]
        return self.emit("Transpose", value[:1], {"perm": perm}, output)

    def product(self, left: Labelled, right: Labelled, later: str) -> Labelled:
        """The product of both, summed over what comes not later."""
        left, right = self.summed(left, right[1] + later), self.summed(right, left[1] + later)
        a, b = left[1], right[1]
        batch = "".join(c for c in a if c in b and c in later)
        inner = "".join(c for c in a if c in b and c not in later)
        rows, columns = "".join(c for c in a if c not in b), "".join(c for c in b if c not in a)
        first, second = self.ordered(left, batch + rows + inner), self.ordered(right, batch + inner + columns)
        matrices = [
            self.emit("Reshape", (name,), {"shape": self.shape(*groups)})
            for name, groups in ((first, (batch, rows, inner)), (second, (batch, inner, columns)))
        ]
        result = self.emit("MatMul", matrices, {})
        letters = batch + rows + columns
        return self.emit("Reshape", (result,), {"shape": self.shape(*letters)}), letters


# Axis orders of operands in memory: attributes that only fusion sets. An order gives for each axis its position
# before: for A and B in what is stored, for Y in what is computed. Kernels take a stride per axis but Y's last.

ORDERS = {0: "order_a", 1: "order_b"}
"""Attributes of inputs, by position."""
RESULT_ORDER = "order_y"

Shape = tuple[int, ...]


def is_ordered(node: Node) -> bool:
    """Whether an operand lies in memory in another order of axes."""
    return any(name in node.attrs for name in (*ORDERS.values(), RESULT_ORDER))


def order_of(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """The order that an attribute says, by default that of the axes; ShapeMismatch where it is none."""
    order = node.attr_ints(name, tuple(range(rank)))
    if sorted(order) != list(range(rank)):
        raise mismatch(node, f"{name} {order} is not an order of {rank} axes", ())
    return order


def used_type(node: Node, position: int, kind: TensorType) -> TensorType:
    """The type of an input with its axes in the order in which they are multiplied."""
    order = order_of(node, ORDERS[position], len(kind.shape))
    return TensorType(kind.dtype, tuple(kind.shape[axis] for axis in order))


def used_shape(node: Node, position: int, types: Mapping[str, TensorType]) -> Shape:
    """The shape of an input with its axes in that order."""
    return used_type(node, position, types[node.inputs[position]]).shape


def stored_order(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """The axes of A, B or the product, as they are multiplied or computed, in the order in which they are stored."""
    order = order_of(node, name, rank)
    return order if name == RESULT_ORDER else tuple(int(axis) for axis in np.argsort(order))


def ordered_operand(node: Node, plain: Operand, shape: Shape, order: Sequence[int], roles: tuple[str, str]) -> Operand:
    """The operand `plain` of a matrix of that shape whose axes are stored in that order; `roles` name its dims.

    UnsupportedOperator where batch axes, which are one dim, are not neighbours there.
    """
    names = ["batch"] * (len(shape) - 2) + list(roles)
    groups: list[tuple[str, int]] = []
    last = -1
    for axis in (axis for axis in order if shape[axis] != 1):
        follows = all(shape[between] == 1 for between in range(last + 1, axis)) and last < axis
        if groups and groups[-1][0] == names[axis] == "batch" and follows:
            groups[-1] = ("batch", groups[-1][1] * shape[axis])
        elif names[axis] in dict(groups):
            raise unsupported(
                node, f"axes of {plain.arg} are stored as {tuple(order)}", "batch axes that are neighbours"
            )
        else:
            groups.append((names[axis], shape[axis]))
        last = axis
    absent = [name for name in ("batch", *roles) if name not in dict(groups)]
    axes: list[Axis] = [Broadcast() if name == "batch" else At(name) for name in absent]
    axes += [At(name) for name, _ in groups]
    return Operand(plain.arg, plain.tensor, plain.mode, (*[1] * len(absent), *(n for _, n in groups)), tuple(axes))


def axis_of(operand: Operand, dim: str) -> int:
    """The axis of the operand that is a dim, or the one that is broadcast along it."""
    axes = list(operand.axes)
    return axes.index(At(dim) if At(dim) in axes else Broadcast())
