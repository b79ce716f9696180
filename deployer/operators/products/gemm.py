"""Gemm: Y = alpha A B + beta C."""

from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand
from deployer.core.errors import NotDifferentiable
from deployer.core.ir import BIAS, Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, First, Kernel, Last, Stride
from deployer.core.operator import Array, GradientBuilder, mismatch, register, registry, unsupported
from deployer.core.signatures import without
from deployer.core.traits.file import FileSpec
from deployer.core.traits.fusion import EpilogueBias, Fusion
from deployer.core.traits.numerics import Numerics
from deployer.core.traits.training import Fans, Training
from deployer.operators.base.epilogue import (
    GATE,
    GATE_POINTER,
    RELU_SCALAR,
    check_gate,
    extra_work,
    finished,
    gate_args,
    gate_array,
    gate_operands,
    relu_args,
    through,
)
from deployer.operators.base.operands import floats
from deployer.operators.base.sums import is_single, quantum_of
from deployer.operators.base.work_split import SplitOperator
from deployer.operators.products.matmul import (
    ORDERS,
    RESULT_ORDER,
    axis_of,
    is_ordered,
    order_of,
    ordered_operand,
    stored_order,
    used_shape,
    used_type,
)

GATE_INPUT = 3
"""The input that gates the result, if the node has it; only fusion sets it."""
Shape = tuple[int, ...]


def _matrices(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 7 C is of Y's shape unless `broadcast` is set."""
    plain = without(node, "broadcast")
    if not node.attr_int("broadcast", 0) and node.attr_float("beta", 1.0) != 1.0:
        raise unsupported(node, "ONNX's reference evaluator leaves beta out where broadcast is 0", "broadcast 1")
    (y,) = registry()[node.op].infer(plain, types)
    if not node.attr_int("broadcast", 0) and (types[2] is None or types[2].shape != y.shape):
        raise mismatch(node, f"C is not of shape {list(y.shape)}, and broadcast is 0", types)
    return [plain]


SINGLE = {"few": 2, "few_rows": 3, "outer": 4, "added": 5}
"""What `single` says: 0 where sums have several blocks, 1 where they have one, more for forms with own functions."""


def _fans(node: Node, types: Mapping[str, TensorType]) -> Mapping[int, Fans]:
    """From K to M for A, from K to N for B."""
    (m, k), (_, n) = _ends(node, used_shape(node, 0, types), used_shape(node, 1, types))
    return {0: Fans(k, m), 1: Fans(k, n)}


@register
class Gemm(SplitOperator):
    """Y = alpha * op(A) op(B) + beta * C, with batch dims in front as the training exporters write it.

    op(X) swaps the last two axes where transX is set; leading axes are batch and broadcast; C broadcasts to Y.

    Fusion sets attribute `activation` where Relu follows, a fourth input where the gradient of a Relu does: its Y; C
    where an Add follows, alpha where a product with a number does, and orders of axes where a Transpose is next to it.
    """

    name = "Gemm"
    training = Training(learned={2: BIAS}, fans=_fans)
    numerics = Numerics(overflow="any")
    fusion = Fusion(
        epilogue_operands={GATE: GATE_INPUT},
        epilogue_bias=EpilogueBias(2, "beta"),
        epilogue_scale="alpha",
        orders=ORDERS,
        result_orders={0: RESULT_ORDER},
    )
    file = FileSpec(versions=(7, 9, 11, 13), older={1: _matrices, 6: _matrices}, flags=("transA", "transB"))
    kernel = Kernel(
        "gemm_f32",
        pointers=(
            ("a", "float32", False),
            ("b", "float32", False),
            ("c", "float32", False),
            GATE_POINTER,
            ("y", "float32", True),
        ),
        scalars=(
            *((name, "u32") for name in ("batch", "m", "n", "k")),
            *((name, "u32") for name in ("a_b", "a_m", "a_k", "b_b", "b_k", "b_n", "c_b", "c_m", "c_n", "y_b", "y_m")),
            *((name, "u32") for name in ("gate_b", "gate_m")),
            RELU_SCALAR,
            *((("first", "u32"), ("last", "u32"), ("single", "u32"), ("alpha", "f32"), ("beta", "f32"))),
        ),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A[.., M, K], B[.., K, N], optional C broadcastable to Y[.., M, N]."""
        a, b = floats(node, inputs, 2)
        if len(a.shape) < 2 or len(b.shape) < 2:
            raise mismatch(node, "A and B need at least two axes", inputs)
        a, b = used_type(node, 0, a), used_type(node, 1, b)
        (m, k), (kb, n) = _ends(node, a.shape, b.shape)
        if k != kb:
            raise mismatch(node, f"A has K = {k}, B has K = {kb}", inputs)
        try:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
            y = (*batch, m, n)
            if len(inputs) > 2 and inputs[2] is not None and np.broadcast_shapes(inputs[2].shape, y) != y:
                raise ValueError
        except ValueError:
            raise mismatch(node, "batch axes or C do not broadcast", inputs) from None
        if len(inputs) > 2 and inputs[2] is not None and inputs[2].dtype != "float32":
            raise unsupported(node, f"C is {inputs[2]}", "a C of float32")
        check_gate(node, inputs, GATE_INPUT, TensorType("float32", y))
        return (TensorType("float32", tuple(y[axis] for axis in order_of(node, RESULT_ORDER, len(y)))),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """alpha * (op(A) @ op(B)) + beta * C; C is not read where beta is 0."""
        a, b, c = (*inputs, None)[:3]
        assert a is not None
        assert b is not None
        if is_ordered(node):
            a, b = (x.transpose(order_of(node, ORDERS[i], x.ndim)) for i, x in enumerate((a, b)))
        a = a.swapaxes(-1, -2) if node.attr_int("transA", 0) else a
        b = b.swapaxes(-1, -2) if node.attr_int("transB", 0) else b
        y, alpha, beta = a @ b, node.attr_float("alpha", 1.0), node.attr_float("beta", 1.0)
        if alpha != 1.0:
            y = y * a.dtype.type(alpha)
        if c is not None and beta != 0.0:
            y = y + (c if beta == 1.0 else c * a.dtype.type(beta))
        y = finished(node, y, gate_array(inputs, GATE_INPUT))
        return (y.transpose(order_of(node, RESULT_ORDER, y.ndim)) if is_ordered(node) else y,)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dA = alpha dY op(B)^T, dB = alpha op(A)^T dY, dC = beta times the sum over the axes C was broadcast along."""
        if is_ordered(node):
            raise NotDifferentiable(f"node {node.name!r} (Gemm): its axes are in an order that only fusion gives them")
        ta, tb, alpha = node.attr_int("transA", 0), node.attr_int("transB", 0), node.attr_float("alpha", 1.0)
        a, w, dy = node.inputs[0], node.inputs[1], through(node, douts[0], b, GATE_INPUT)
        full = b.type(node.outputs[0]).shape

        def product(index: int, left: str, right: str, trans_left: int, trans_right: int) -> None:
            shape = b.type(node.inputs[index]).shape
            (rows, _), (_, cols) = _ends_of(b.type(left).shape, b.type(right).shape, trans_left, trans_right)
            exact = shape == (*full[:-2], rows, cols)
            out = b.grad(index) if exact else b.temp("product")
            b.emit("Gemm", (left, right), (out,), transA=trans_left, transB=trans_right, alpha=alpha, beta=0.0)
            if not exact:
                b.reduce_to(out, shape, b.grad(index))

        if len(node.inputs) > 2 and node.inputs[2] and b.needs_grad(2):
            beta = node.attr_float("beta", 1.0)
            scaled = dy if beta == 1.0 else b.temp("scaled")
            if beta != 1.0:
                b.emit("Mul", (dy, b.constant("beta", np.array(beta, np.float32))), (scaled,))
            b.reduce_to(scaled, b.type(node.inputs[2]).shape, b.grad(2))
        if b.needs_grad(1):
            product(1, *((dy, a, 1, ta) if tb else (a, dy, 1 - ta, 0)))
        if b.needs_grad(0):
            product(0, *((w, dy, tb, 1) if ta else (dy, w, 0, 1 - tb)))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims batch, m, n parallel and k the reduction; batch axes fold into m where only A has them."""
        a, b = used_shape(node, 0, types), used_shape(node, 1, types)
        (m, k), (_, n) = _ends(node, a, b)
        batch = np.broadcast_shapes(a[:-2], b[:-2])
        y = (*batch, m, n)
        count = int(np.prod(batch, dtype=int))
        size_a, size_b = int(np.prod(a[:-2], dtype=int)), int(np.prod(b[:-2], dtype=int))
        if size_a not in (1, count) or size_b not in (1, count):
            raise unsupported(
                node,
                f"batch axes {a[:-2]} and {b[:-2]} broadcast in both directions",
                "expand one side first",
            )
        c_name = node.inputs[2] if len(node.inputs) > 2 and node.attr_float("beta", 1.0) != 0.0 else ""
        c = (1,) * (len(y) - len(types[c_name].shape)) + types[c_name].shape if c_name else (1, 1)
        size_c, rows_c, cols_c = int(np.prod(c[:-2], dtype=int)), c[-2], c[-1]
        if size_c not in (1, count):
            raise unsupported(node, f"C of shape {c} broadcasts along some batch axes only", "expand C first")
        ta, tb = node.attr_int("transA", 0), node.attr_int("transB", 0)
        ordered = is_ordered(node)
        # All rows of A meet the same B: a batch of rows is more rows, where C has one for each or one for all.
        if size_a == count and size_b == 1 and not ta and (size_c, rows_c) in ((1, 1), (count, m)) and not ordered:
            m, rows_c = m * count, rows_c * size_c
            count = size_a = size_c = 1
        order = stored_order(node, RESULT_ORDER, len(y))
        rows, columns = ("n", "m") if ordered and _is_transposed(order, y) else ("m", "n")
        left, right = ("b", "a") if rows == "n" else ("a", "b")
        extents = {rows: m, columns: n, "k": k}

        def matrix(arg: str, position: int, size: int, shape: Shape, *roles: str) -> Operand:
            name = node.inputs[position]
            axes: tuple[Axis, ...] = (At("batch") if size > 1 else Broadcast(), *map(At, roles))
            plain = Operand(arg, name, "in", (size, *(extents[role] for role in roles)), axes)
            if ORDERS[position] not in node.attrs:
                return plain
            stored = stored_order(node, ORDERS[position], len(shape))
            return ordered_operand(node, plain, shape, stored, (roles[0], roles[1]))

        operands = [
            matrix(left, 0, size_a, a, *(("k", rows) if ta else (rows, "k"))),
            matrix(right, 1, size_b, b, *((columns, "k") if tb else ("k", columns))),
        ]
        if c_name:
            sizes = {"batch": size_c, "m": rows_c, "n": cols_c}
            c_axes = tuple(At(role) if size > 1 else Broadcast() for role, size in sizes.items())
            operands.append(Operand("c", c_name, "in", tuple(sizes.values()), c_axes))
        y_axes: tuple[Axis, ...] = (At("batch") if count > 1 else Broadcast(), At(rows), At(columns))
        result = Operand("y", node.outputs[0], "out", (count, m, n), y_axes)
        operands += gate_operands(node, GATE_INPUT, result)
        if rows == "n" and len(operands) > 2:
            raise unsupported(
                node, "the product's columns are stored as rows, those of C or a gate are not", "Transpose"
            )
        if RESULT_ORDER in node.attrs:
            result = ordered_operand(node, result, y, order, (rows, columns))
        if result.axes[-1] != At("n") and extents["n"] > 1:
            raise unsupported(
                node, f"axes of the product are stored as {order}", "an order that ends with rows or columns"
            )
        dims = (Dim("batch", count), *(Dim(x, extents[x]) for x in "mn"), Dim("k", k, "reduction", quantum_of(k)))
        return Access(dims, (*sorted(operands[:2], key=lambda o: o.arg), *operands[2:], result))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Element strides of each operand; a transposed matrix is the same kernel with swapped strides."""
        has_c = any(o.arg == "c" for o in access.operands)
        c: dict[str, ArgValue] = {f"c_{x}": Stride("c", i) if has_c else Const(0) for i, x in enumerate("bmn")}

        def steps(arg: str, dims: str) -> dict[str, ArgValue]:
            operand = access.operand(arg)
            names = {"b": "batch"}
            return {f"{arg}_{x}": Stride(arg, axis_of(operand, names.get(x, x))) for x in dims}

        return {
            "batch": Extent("batch"),
            "m": Extent("m"),
            "n": Extent("n"),
            "k": Extent("k"),
            **steps("a", "bmk"),
            **steps("b", "bkn"),
            **c,
            **steps("y", "bm"),
            **gate_args(access, {"b": 0, "m": 1}),
            **relu_args(node),
            "first": First(),
            "last": Last(),
            "single": Const(SINGLE.get(outer_class(node, access), int(is_single(access.dim("k").size)))),
            "alpha": Const(node.attr_float("alpha", 1.0)),
            "beta": Const(node.attr_float("beta", 1.0)),
        }


def outer_class(node: Node, access: Access) -> str:
    """Cost class of outer products: "outer", or "added" with a C of rows; "" where sums go on or have an epilogue.

    A tile of one product of a longer sum is none: its kernel continues sums.
    """
    operands = {operand.arg: operand for operand in access.operands}
    scaled = node.attr_float("alpha", 1.0) != 1.0
    if access.dim("k").size != 1 or scaled or extra_work(node, access):
        return ""
    if "c" not in operands:
        return "outer"
    return "added" if operands["c"].axes[2] == At("n") else ""


def is_plain_outer(node: Node, types: Mapping[str, TensorType]) -> bool:
    """Whether Y, stored in rows, is the outer product of A's elements and B's, and nothing is done to it."""
    access = registry()[node.op].access(node, types)
    return outer_class(node, access) == "outer" and access.dim("batch").size == 1 and not is_ordered(node)


def _is_transposed(order: Sequence[int], shape: Shape) -> bool:
    """Whether the product's columns are rows where it is stored: then the kernel computes op(B)^T op(A)^T."""
    axes = [axis for axis in order if shape[axis] != 1]
    return axes[-1:] == [len(shape) - 2] and shape[-1] != 1


def _ends_of(a: Shape, b: Shape, ta: int, tb: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return ((a[-1], a[-2]) if ta else (a[-2], a[-1])), ((b[-1], b[-2]) if tb else (b[-2], b[-1]))


def _ends(node: Node, a: Shape, b: Shape) -> tuple[tuple[int, int], tuple[int, int]]:
    """(M, K) of op(A) and (K, N) of op(B)."""
    return _ends_of(a, b, node.attr_int("transA", 0), node.attr_int("transB", 0))
