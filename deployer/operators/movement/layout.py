"""Operators that copy elements into another order or shape: Transpose, Expand, Tile, DepthToSpace and kin."""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Kernel, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.execution import Execution
from deployer.core.traits.file import FileSpec
from deployer.core.traits.fusion import Fusion
from deployer.operators.base.elementwise import LOOPS, broadcast_access, loop_args, loop_scalars
from deployer.operators.base.operands import arrays, one_number, operands
from deployer.operators.base.views import reshape_to


def _permutation(node: Node, rank: int) -> tuple[int, ...] | None:
    """`perm`, or the axes in reverse."""
    return _perm(node, rank)


@register
class Transpose(Operator):
    """The axes of X in another order. Axis i of Y is axis perm[i] of X; the default reverses the axes."""

    name = "Transpose"
    file = FileSpec(versions=(1, 13, 21, 23, 24, 25))
    kernel = Kernel(
        "transpose_f32",
        pointers=(("x", "float32", False), ("y", "float32", True)),
        scalars=loop_scalars(("x", "y")),
    )
    execution = Execution(moved=("x", "y"))
    fusion = Fusion(permutation=_permutation)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The permuted shape."""
        x = operands(node, inputs, 1)[0]
        perm = _perm(node, len(x.shape))
        if sorted(perm) != list(range(len(x.shape))):
            raise mismatch(node, f"perm {perm} is not a permutation of {len(x.shape)} axes", inputs)
        return (TensorType(x.dtype, tuple(x.shape[axis] for axis in perm)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's transpose."""
        x = arrays(inputs, 1)[0]
        return (x.transpose(_perm(node, x.ndim)).copy(),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY transposed by the inverse permutation."""
        if b.needs_grad(0):
            perm = _perm(node, len(b.type(node.inputs[0]).shape))
            inverse = tuple(int(axis) for axis in np.argsort(perm))
            b.emit("Transpose", (douts[0],), (b.grad(0),), perm=inverse)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A view where only axes of one element move; several where it takes more loops than the kernel has."""
        x = operands(node, inputs, 1)[0]
        blocks, shape = _blocks(node, x.shape), self.infer(node, inputs)[0].shape
        if len(blocks) > LOOPS:
            return _two_transposes(node, x.shape, blocks, shape)
        if len(blocks) > 1:
            return None
        return [Node(node.name, "Reshape", node.inputs[:1], node.outputs, {"shape": shape})]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Up to four parallel dims in the order of Y, axes that stay neighbours merged."""
        x = types[node.inputs[0]]
        blocks = _blocks(node, x.shape)
        names = {block: f"n{LOOPS - len(blocks) + i}" for i, block in enumerate(blocks)}
        sizes = {block: math.prod(x.shape[axis] for axis in block) for block in blocks}
        operands_of = []
        for arg, tensor, order in (("x", node.inputs[0], sorted(blocks)), ("y", node.outputs[0], blocks)):
            view, axes = tuple(sizes[block] for block in order), tuple(At(names[block]) for block in order)
            operands_of.append(Operand(arg, tensor, "in" if arg == "x" else "out", view, axes))
        return Access(tuple(Dim(names[block], sizes[block]) for block in blocks), tuple(operands_of))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides, X's in the order of Y."""
        return loop_args(access)

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One copy per element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count, parallel=count)


Block = tuple[int, ...]
SEARCHED = math.factorial(LOOPS + 2)
"""Orders that are tried for two transposes: all there are of two blocks more than the kernel has loops."""


def _perm(node: Node, rank: int) -> tuple[int, ...]:
    return node.attr_ints("perm", tuple(reversed(range(rank))))


def _blocks(node: Node, shape: tuple[int, ...]) -> list[Block]:
    """The axes of X in the order of Y: groups of axes that stay adjacent, without axes of one element."""
    long = [axis for axis, size in enumerate(shape) if size != 1]
    blocks: list[Block] = []
    for axis in _perm(node, len(shape)):
        if shape[axis] == 1:
            continue
        if blocks and long.index(axis) == long.index(blocks[-1][-1]) + 1:
            blocks[-1] = (*blocks[-1], axis)
        else:
            blocks.append((axis,))
    return blocks


def _two_transposes(node: Node, shape: tuple[int, ...], blocks: list[Block], result: tuple[int, ...]) -> list[Node]:
    """Views of blocks as axes, and two transposes: of as few loops as the kernel has, or the second is cut again."""
    by_place = sorted(blocks)
    order = tuple(by_place.index(block) for block in blocks)
    first, second = _two_orders(order)
    sizes = tuple(math.prod(shape[axis] for axis in block) for block in by_place)
    names = [f"{node.name}/{label}" for label in ("blocks", "turn", "order")]
    return [
        Node(names[0], "Reshape", node.inputs[:1], (names[0],), {"shape": sizes}),
        Node(names[1], "Transpose", (names[0],), (names[1],), {"perm": first}),
        Node(names[2], "Transpose", (names[1],), (names[2],), {"perm": second}),
        Node(node.name, "Reshape", (names[2],), node.outputs, {"shape": result}),
    ]


def _two_orders(order: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two orders that give this one, one after the other: the first pair within the loops, if it is soon found."""
    for first in itertools.islice(itertools.permutations(range(len(order))), SEARCHED):
        second = tuple(first.index(block) for block in order)
        if max(_loops(first), _loops(second)) <= LOOPS:
            return first, second
    at = next(i for i, block in enumerate(order) if block != i)  # all before it are in place: they are one loop
    rest = [block for block in range(at, len(order)) if block != order[at]]
    first = (*range(at), order[at], *rest)
    return first, tuple(first.index(block) for block in order)


def _loops(order: tuple[int, ...]) -> int:
    """Runs of blocks that stay neighbours."""
    return 1 + sum(b != a + 1 for a, b in itertools.pairwise(order))


@register
class Expand(Operator):
    """X repeated to a given shape by numpy broadcasting.

    The output has the broadcast of X's shape and `shape`, which may hold ones.
    """

    name = "Expand"
    kernel = Kernel(
        "expand_f32",
        pointers=(("x", "float32", False), ("y", "float32", True)),
        scalars=loop_scalars(("x", "y")),
    )
    execution = Execution(moved=("x", "y"))
    file = FileSpec(versions=(8, 13), static_inputs={1: "shape"})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape."""
        x = operands(node, inputs, 1)[0]
        if "shape" not in node.attrs:
            raise unsupported(node, "the shape is not constant", "a constant shape input")
        shape = node.attr_ints("shape", ())
        try:
            return (TensorType(x.dtype, np.broadcast_shapes(x.shape, shape)),)
        except ValueError:
            raise mismatch(node, f"the input does not broadcast with shape {shape}", inputs) from None

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's broadcast_to."""
        x = arrays(inputs, 1)[0]
        shape = np.broadcast_shapes(x.shape, node.attr_ints("shape", ()))
        return (np.broadcast_to(x, shape).copy(),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY summed over the axes X was repeated along."""
        if b.needs_grad(0):
            b.reduce_to(douts[0], b.type(node.inputs[0]).shape, b.grad(0))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A view where nothing is repeated."""
        y = self.infer(node, inputs)[0]
        if y.size != operands(node, inputs, 1)[0].size:
            return None
        return [Node(node.name, "Reshape", node.inputs[:1], node.outputs, {"shape": y.shape})]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Up to four parallel dims, merged from the broadcast axes."""
        return broadcast_access(node, types, ("x", "y"), [types[node.inputs[0]].dtype] * 2)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides."""
        return loop_args(access)

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One copy per output element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count, parallel=count)


@register
class Tile(Operator):
    """X side by side along each axis, as often as `repeats` says.

    An Expand between two views, one for each axis that is repeated, the innermost first.
    """

    name = "Tile"
    file = FileSpec(versions=(6, 13), static_inputs={1: "repeats"})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each length times its repeats."""
        x = operands(node, inputs, 1)[0]
        if "repeats" not in node.attrs:
            raise unsupported(node, "the repeats are not constant", "a constant repeats input")
        repeats = node.attr_ints("repeats", ())
        if len(repeats) != len(x.shape) or min(repeats, default=1) < int(x.dtype == "float32"):
            raise mismatch(node, f"repeats {repeats} are not one positive number for each axis", inputs)
        return (TensorType(x.dtype, tuple(n * times for n, times in zip(x.shape, repeats, strict=True))),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's tile."""
        x = arrays(inputs, 1)[0]
        return (np.tile(x, node.attr_ints("repeats", ())),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The elements from an axis on as lines, which Expand repeats; an Identity where nothing is repeated."""
        shape, repeats = list(operands(node, inputs, 1)[0].shape), node.attr_ints("repeats", ())
        source, nodes = node.inputs[0], []
        for axis in reversed([i for i, times in enumerate(repeats) if times > 1]):
            before, behind = (int(np.prod(dims, dtype=int)) for dims in (shape[:axis], shape[axis:]))
            lines, tiled = (f"{node.name}/{label}{axis}" for label in ("lines", "tiled"))
            nodes.append(Node(lines, "Reshape", (source,), (lines,), {"shape": (before, 1, behind)}))
            nodes.append(Node(tiled, "Expand", (lines,), (tiled,), {"shape": (before, repeats[axis], behind)}))
            source, shape[axis] = tiled, shape[axis] * repeats[axis]
        return [*nodes, Node(node.name, "Reshape", (source,), node.outputs, {"shape": tuple(shape)})]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """The sum of dY's tiles, axis by axis, the outermost first."""
        if not b.needs_grad(0):
            return
        x, repeats = b.type(node.inputs[0]).shape, node.attr_ints("repeats", ())
        source, shape = douts[0], list(b.type(douts[0]).shape)
        for axis in [i for i, times in enumerate(repeats) if times > 1]:
            before, behind = int(np.prod(shape[:axis], dtype=int)), int(np.prod(shape[axis:], dtype=int))
            lines, total = b.temp("lines"), b.temp("total")
            reshape_to(b, source, (before, repeats[axis], behind // repeats[axis]), lines)
            axes = b.constant("axes", np.array([1], np.int64))
            b.emit("ReduceSum", (lines, axes), (total,), keepdims=0)
            source, shape[axis] = total, x[axis]
        reshape_to(b, source, x, b.grad(0))


@register
class Trilu(Operator):
    """The upper or the lower triangle of matrices, zeros elsewhere.

    X where a constant triangle is, by Where; `k` diagonals above the main one are its border.
    """

    name = "Trilu"
    file = FileSpec(
        versions=(14,), custom=Signature((1, 2), (1, 1), {"upper": "INT"}), flags=("upper",), static_inputs={1: "k"}
    )
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X; an error where it is no matrix, or k is not one number."""
        x = operands(node, inputs, 1)[0]
        if len(x.shape) < 2:
            raise mismatch(node, f"{x} is not a matrix", inputs)
        one_number(node, "k")
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's triangles."""
        x = arrays(inputs, 1)[0]
        return (np.where(_triangle(node, x.shape), x, x.dtype.type(0)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Lower to Where with a mask that broadcasts over the matrices; constant integers are multiplied by it."""
        x = operands(node, inputs, 1)[0]
        flat, mask, zero = (f"{node.name}/{label}" for label in ("flat", "mask", "zero"))
        values = tuple(int(v) for v in _triangle(node, x.shape).reshape(-1))
        nodes = [
            Node(flat, "Constant", (), (flat,), {"value_ints": values}),
            Node(mask, "Reshape", (flat,), (mask,), {"shape": x.shape[-2:]}),
        ]
        if x.dtype != "float32":
            return [*nodes, Node(node.name, "Mul", (node.inputs[0], mask), node.outputs)]
        return [
            *nodes,
            Node(zero, "Constant", (), (zero,), {"value_float": 0.0}),
            Node(node.name, "Where", (mask, node.inputs[0], zero), node.outputs),
        ]


def _triangle(node: Node, shape: tuple[int, ...]) -> Array:
    k = one_number(node, "k")
    ones = np.ones(shape[-2:], bool)
    return np.triu(ones, k) if node.attr_int("upper", 1) else np.tril(ones, k)


IMAGE = len(("N", "C", "H", "W"))
"""Axes of X."""


def block_size(node: Node, x: TensorType) -> int:
    """The side of a block; ShapeMismatch where there is none, or X is no image."""
    block = node.attr_int("blocksize", 0)
    if block < 1 or len(x.shape) != IMAGE:
        raise mismatch(node, f"blocksize is {block}, X {x}: no blocks of an image [N, C, H, W]", (x,))
    return block


def moved(node: Node, inner: tuple[int, ...], order: tuple[int, ...], shape: tuple[int, ...]) -> list[Node]:
    """X as `inner`, its axes in that order, and that in its final shape."""
    blocks, transposed = f"{node.name}/blocks", f"{node.name}/turned"
    return [
        Node(blocks, "Reshape", node.inputs[:1], (blocks,), {"shape": inner}),
        Node(transposed, "Transpose", (blocks,), (transposed,), {"perm": order}),
        Node(node.name, "Reshape", (transposed,), node.outputs, {"shape": shape}),
    ]


TO_SPACE_ORDERS: dict[str, tuple[int, ...]] = {"DCR": (0, 3, 4, 1, 5, 2), "CRD": (0, 1, 4, 2, 5, 3)}
"""Axes of [N, b, b, C, H, W], or of [N, C, b, b, H, W], in the order [N, C, H, b, W, b]."""


def _depth_first(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 1 has the one mode that later is the default."""
    return [node]


@register
class DepthToSpace(Operator):
    """Channels become blocks of an image. A Transpose between two views."""

    name = "DepthToSpace"
    file = FileSpec(versions=(11, 13, 28), older={1: _depth_first})
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A block of channels less, a block of rows and columns more."""
        x = operands(node, inputs, 1)[0]
        block = block_size(node, x)
        if node.attr_str("mode", "DCR") not in TO_SPACE_ORDERS:
            raise unsupported(node, f"mode is {node.attr_str('mode', 'DCR')!r}", f"one of {', '.join(TO_SPACE_ORDERS)}")
        n, c, h, w = x.shape
        if c % (block * block):
            raise mismatch(node, f"{c} channels are no blocks of {block} x {block}", inputs)
        return (TensorType(x.dtype, (n, c // (block * block), h * block, w * block)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's transpose between two shapes."""
        x = arrays(inputs, 1)[0]
        y = self.infer(node, (TensorType("float32", x.shape),))[0].shape
        inner, order = self._moves(node, x.shape)
        return (x.reshape(inner).transpose(order).reshape(y).copy(),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Reshape, Transpose, Reshape."""
        inner, order = self._moves(node, operands(node, inputs, 1)[0].shape)
        return moved(node, inner, order, self.infer(node, inputs)[0].shape)

    @staticmethod
    def _moves(node: Node, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        mode, block = node.attr_str("mode", "DCR"), node.attr_int("blocksize", 1)
        n, c, h, w = shape
        depth = c // (block * block)
        inner = (n, block, block, depth, h, w) if mode == "DCR" else (n, depth, block, block, h, w)
        return inner, TO_SPACE_ORDERS[mode]


TO_DEPTH_ORDERS: dict[str, tuple[int, ...]] = {"DCR": (0, 3, 5, 1, 2, 4), "CRD": (0, 1, 3, 5, 2, 4)}
"""Axes of [N, C, H, b, W, b] in the order [N, b, b, C, H, W], or [N, C, b, b, H, W]."""


@register
class SpaceToDepth(Operator):
    """Blocks of an image become channels. A Transpose between two views."""

    name = "SpaceToDepth"
    file = FileSpec(versions=(1, 13, 28))
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A block of rows and columns less, a block of channels more."""
        x = operands(node, inputs, 1)[0]
        block = block_size(node, x)
        if node.attr_str("mode", "DCR") not in TO_DEPTH_ORDERS:
            raise unsupported(node, f"mode is {node.attr_str('mode', 'DCR')!r}", f"one of {', '.join(TO_DEPTH_ORDERS)}")
        n, c, h, w = x.shape
        if h % block or w % block:
            raise mismatch(node, f"an image of {h} x {w} is no blocks of {block} x {block}", inputs)
        return (TensorType(x.dtype, (n, c * block * block, h // block, w // block)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's transpose between two shapes."""
        x = arrays(inputs, 1)[0]
        y = self.infer(node, (TensorType("float32", x.shape),))[0].shape
        blocks = x.reshape(self._inner(node, x.shape))
        return (blocks.transpose(TO_DEPTH_ORDERS[node.attr_str("mode", "DCR")]).reshape(y).copy(),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Reshape, Transpose, Reshape."""
        inner = self._inner(node, operands(node, inputs, 1)[0].shape)
        return moved(node, inner, TO_DEPTH_ORDERS[node.attr_str("mode", "DCR")], self.infer(node, inputs)[0].shape)

    @staticmethod
    def _inner(node: Node, shape: tuple[int, ...]) -> tuple[int, ...]:
        block = node.attr_int("blocksize", 1)
        n, c, h, w = shape
        return (n, c, h // block, block, w // block, block)
