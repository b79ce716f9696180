"""Products of matrices that share an operand or a result, as one step with the bits of several.

The projections of a layer read the same values: their kernel meets a tile of these once. The gradients of their weights
read them again, and the gradients of the values are added up, product by product.
"""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from deployer.core.access import Access, At, Axis, Dim, Operand, Whole, Window, box_shape
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, First, Kernel, Last, Length, Stride
from deployer.core.operator import Array, mismatch, register, registry, unsupported
from deployer.core.traits.execution import Execution
from deployer.core.traits.fusion import Fusion, Joint
from deployer.core.traits.numerics import Numerics
from deployer.operators.base.sums import is_single
from deployer.operators.base.work_split import SplitOperator
from deployer.operators.products.gemm import Gemm
from deployer.operators.products.matmul import is_ordered

MOST = 3
"""Products of a step, at most."""
SUFFIXES = ("", "1", "2")
"""Behind the names of pointers and scalars of each product."""
SWAPS = ("transA", "transB")
Sizes = tuple[int, int, int]
"""Rows, columns and terms of a product."""


def _each(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}{suffix}" for suffix in SUFFIXES for name in names)


_OF_EACH = ("m", "n", "k", "a_m", "a_k", "b_k", "b_n", "y_m")
_ADDED = ("c_m", "c_n")
_SCALARS: tuple[tuple[str, CType], ...] = tuple(
    (name, "u32") for name in (*_each(*_OF_EACH, *_ADDED), "first", "last", "single")
)
_READ = tuple((name, "float32", False) for name in (*_each("a"), *_each("b"), *_each("c")))
KERNEL = Kernel("gemms_f32", (*_READ, *((name, "float32", True) for name in _each("y"))), _SCALARS)


class JointGemm(SplitOperator):
    """Two or three products of matrices.

    `shared` is the kernel's pointer that all of them have in common. Those that share their result are added up in
    order, each rounded before. Others may each have a C of their own behind all matrices, which is added to it.
    """

    kernel = KERNEL
    numerics = Numerics(overflow="any")
    execution = Execution(optional_outputs={"y1": 1, "y2": 2})
    no_gradient = "fusion alone makes it, of products in a differentiated graph"
    shared: ClassVar[Literal["a", "b", "y"]]

    def parts(self, node: Node) -> list[Node]:
        """The products, as they were before."""
        attrs, count = node.attrs, len(node.outputs)
        if self.shared == "y":
            pairs = [tuple(node.inputs[i : i + 2]) for i in range(0, len(node.inputs) - 1, 2)]
            first, rest = node.inputs[2 * len(pairs) :], node.outputs
            added = [first, *[rest] * (len(pairs) - 1)]
            return [Node(node.name, Gemm.name, (*x, *c), rest, attrs) for x, c in zip(pairs, added, strict=True)]
        one, others, biases = _operands(node.inputs)
        if not len(others) == len(biases) == count:
            return []
        pairs = [(one, x) if self.shared == "a" else (x, one) for x in others]
        listed = [(*pair, *([c] if c else [])) for pair, c in zip(pairs, biases, strict=True)]
        return [Node(node.name, Gemm.name, x, (y,), attrs) for x, y in zip(listed, node.outputs, strict=True)]

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of the products' results."""
        types = {name: kind for name, kind in zip(node.inputs, inputs, strict=True) if kind is not None}
        _, others, added = _operands(node.inputs)
        pairs = (len(node.inputs) // 2) if self.shared == "y" else len(others)
        named = node.inputs if self.shared == "y" else node.inputs[: pairs + 1]
        is_even = self.shared == "y" or len(others) == len(added)
        if not 1 < pairs <= MOST or not is_even or not all(named):
            raise mismatch(node, f"it has {pairs} products, not two to {MOST}", inputs)
        found: list[TensorType] = []
        for part in self._parts(node, pairs):
            known = types | dict(zip(node.outputs[:1], found, strict=False))
            found += Gemm().infer(part, [known[name] for name in part.inputs])
        return tuple(found[:1]) if self.shared == "y" else tuple(found)

    def _parts(self, node: Node, count: int) -> list[Node]:
        """The products of a node whose outputs may not be named yet."""
        names = tuple(f"{node.name}/{i}" for i in range(1 if self.shared == "y" else count))
        return self.parts(Node(node.name, node.op, node.inputs, node.outputs or names, node.attrs))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The products, or the sum of all."""
        values = dict(zip(node.inputs, inputs, strict=True))
        results: list[Array] = []
        for part in self.parts(node):
            (y,) = Gemm().reference(part, [values[name] for name in part.inputs])
            values[part.outputs[0]] = y
            results.append(y)
        return tuple(results[-1:]) if self.shared == "y" else tuple(results)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims m and n parallel, and k the reduction, but where results are added up: those need all of it.

        Of a dim in which products differ, a tile has a share of each.
        """
        spaces = [registry()[Gemm.name].access(part, types) for part in self.parts(node)]
        if any(space.dim("batch").size > 1 for space in spaces) or is_ordered(node):
            raise unsupported(node, "its products are of stacks of matrices", "a node for each")
        apart = {"a": "n", "b": "m", "y": "k"}[self.shared]
        sizes = [space.dim(apart).size for space in spaces]
        unit = math.gcd(*sizes)
        operands: list[Operand] = []
        for suffix, space, size in zip(SUFFIXES, spaces, sizes, strict=False):
            own: Axis = At(apart) if size == unit else Window(apart, size // unit, size // unit)
            own = Whole() if self.shared == "y" else own
            for o in space.operands:
                if not suffix or (o.arg != self.shared and (o.arg, self.shared) != ("c", "y")):
                    axes = tuple(own if axis == At(apart) else axis for axis in o.axes)
                    operands.append(Operand(f"{o.arg}{suffix}", o.tensor, o.mode, o.view, axes))
        dims = [d if d.name != apart else Dim(apart, unit) for d in spaces[0].dims if d.name in "mnk"]
        dims = [d for d in dims if self.shared != "y" or d.name != "k"]
        order = [name for name, _, _ in KERNEL.pointers]
        return Access(tuple(dims), tuple(sorted(operands, key=lambda o: order.index(o.arg))))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Lengths and strides of each product; zeros for those that there are not."""
        there = {o.arg for o in access.operands}
        (a_m, a_k), (b_k, b_n) = self._axes(node)
        found: dict[str, ArgValue] = {name: Const(0) for name, _ in _SCALARS}
        for suffix in SUFFIXES[: self.count(access)]:
            a, b, y = (arg if arg == self.shared else f"{arg}{suffix}" for arg in "aby")
            values: tuple[ArgValue, ...] = (Length(y, 1), Length(y, 2), Length(a, a_k))
            values += (Stride(a, a_m), Stride(a, a_k), Stride(b, b_k), Stride(b, b_n), Stride(y, 1))
            found |= dict(zip([f"{name}{suffix}" for name in _OF_EACH], values, strict=True))
        for suffix in SUFFIXES:
            if (c := f"c{suffix}") in there:
                found |= {f"{name}{suffix}": Stride(c, axis) for axis, name in enumerate(_ADDED, 1)}
        single = self.shared != "y" and is_single(access.dim("k").size)
        return found | {"first": First(), "last": Last(), "single": Const(int(single))}

    def count(self, access: Access) -> int:
        """The number of products."""
        own = "a" if self.shared == "b" else "b"
        return sum(o.arg[0] == own for o in access.operands)

    def adds(self, access: Access, product: int) -> bool:
        """Whether something is added to a product, by its number: C, or the result of the one before."""
        follows = self.shared == "y" and product > 0
        return follows or any(o.arg == f"c{SUFFIXES[product]}" for o in access.operands)

    def sizes(self, node: Node, access: Access, tile: Mapping[str, int]) -> list[Sizes]:
        """The rows, columns and terms of each product in a tile of these lengths."""
        found = []
        (_, a_k), _ = self._axes(node)
        for suffix in SUFFIXES[: self.count(access)]:
            a, y = (access.operand(arg if arg == self.shared else f"{arg}{suffix}") for arg in "ay")
            (_, m, n), k = box_shape(y, tile), box_shape(a, tile)[a_k]
            found.append((m, n, k))
        return found

    def _axes(self, node: Node) -> tuple[tuple[int, int], tuple[int, int]]:
        """The axes of rows and terms of A, and of terms and columns of B."""
        swapped = [node.attr_int(name, 0) for name in SWAPS]
        return ((2, 1) if swapped[0] else (1, 2)), ((2, 1) if swapped[1] else (1, 2))


def _operands(inputs: Sequence[str]) -> tuple[str, Sequence[str], Sequence[str]]:
    """The operand that products share, those of their own, and what is added to each; that is empty where nothing is.

    There are as many of the latter, or none at all.
    """
    one, *rest = inputs
    count = len(rest) if len(rest) <= MOST else len(rest) // 2
    return one, rest[:count], rest[count:] or [""] * count


def _plain(node: Node, types: Mapping[str, TensorType]) -> bool:
    """Whether a node is one product of two matrices, no vectors, to which at most another matrix is added."""
    if node.op != Gemm.name or {*node.attrs} - {*SWAPS, "alpha", "beta"} or len(node.inputs) > MOST:
        return False
    added = len(node.inputs) == MOST and node.inputs[2]
    if node.attr_float("alpha", 1.0) != 1.0 or (added and node.attr_float("beta", 1.0) != 1.0):
        return False
    access = registry()[Gemm.name].access(node, types)
    sizes = access.sizes
    return sizes["batch"] == 1 and min(sizes[name] for name in "mnk") > 1


def _swaps(node: Node) -> tuple[int, ...]:
    return tuple(node.attr_int(name, 0) for name in SWAPS)


def _swaps_of(node: Node) -> dict[str, AttrValue]:
    return dict(zip(SWAPS, _swaps(node), strict=True))


def _sharing(op: str, place: int, node: Node, near: Sequence[Node], types: Mapping[str, TensorType]) -> Joint | None:
    """The products of this one's operand at a place with others."""
    if not _plain(node, types):
        return None
    alike = [n for n in near if n.op == node.op and n.inputs[place] == node.inputs[place] and _swaps(n) == _swaps(node)]
    alike = [n for n in alike if _plain(n, types)][: MOST - 1]
    if not alike:
        return None
    parts = [node, *alike]
    added = ["".join(n.inputs[2:]) for n in parts]
    inputs = (node.inputs[place], *(n.inputs[1 - place] for n in parts), *(added if any(added) else ()))
    outputs = tuple(n.outputs[0] for n in parts)
    return Node(node.name, op, inputs, outputs, _swaps_of(node)), alike


def _of_rows(node: Node, near: Sequence[Node], types: Mapping[str, TensorType]) -> Joint | None:
    return _sharing(ProductsOfA.name, 0, node, near, types)


def _of_columns(node: Node, near: Sequence[Node], types: Mapping[str, TensorType]) -> Joint | None:
    return _sharing(ProductsOfB.name, 1, node, near, types)


def _of_sums(node: Node, near: Sequence[Node], types: Mapping[str, TensorType]) -> Joint | None:
    """The product that is added to others, with these."""
    if not _plain(node, types) or not any(node.inputs[2:]):
        return None
    added = node.inputs[2]
    for other in near:
        if other.outputs != (added,) or _swaps(other) != _swaps(node):
            continue
        if (other.op == SumOfProducts.name and len(other.inputs) // 2 < MOST) or _plain(other, types):
            pairs = 2 * (len(other.inputs) // 2)
            last = [name for name in other.inputs[pairs:] if name]
            inputs = (*other.inputs[:pairs], *node.inputs[:2], *last)
            return Node(node.name, SumOfProducts.name, inputs, node.outputs, _swaps_of(node)), [other]
    return None


@register
class ProductsOfA(JointGemm):
    """Y_i = op(A) op(B_i) + C_i, from A, two or three B_i, and as many C_i or none; op is that of Gemm."""

    name = "ProductsOfA"
    shared = "a"
    fusion = Fusion(group_of=Gemm.name, grouped=_of_rows)


@register
class ProductsOfB(JointGemm):
    """Y_i = op(A_i) op(B) + C_i, from B, two or three A_i, and as many C_i or none; op is that of Gemm."""

    name = "ProductsOfB"
    shared = "b"
    fusion = Fusion(group_of=Gemm.name, grouped=_of_columns)


@register
class SumOfProducts(JointGemm):
    """Y = ((op(A_1) op(B_1) + C) + op(A_2) op(B_2)) + ..., from two or three pairs and C, which may be absent."""

    name = "SumOfProducts"
    shared = "y"
    fusion = Fusion(group_of=Gemm.name, grouped=_of_sums)
