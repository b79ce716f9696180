"""Transpose: the axes of X in another order."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.ir import Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    GradientBuilder,
    Kernel,
    Operator,
    Sample,
    Work,
    mismatch,
    register,
    rng,
)
from deployer.operators.broadcast import LOOPS, loop_args, loop_scalars
from deployer.operators.inputs import arrays, normal, operands, words


@register
class Transpose(Operator):
    """Axis i of Y is axis perm[i] of X; the default reverses the axes."""

    name = "Transpose"
    versions = (1, 13, 21, 23, 24, 25)
    kernel = Kernel(
        "transpose_f32",
        pointers=(("x", "float32", False), ("y", "float32", True)),
        scalars=loop_scalars(("x", "y")),
    )
    moved = ("x", "y")

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The permuted shape."""
        x = operands(node, inputs, 1)[0]
        perm = _perm(node, len(x.shape))
        if sorted(perm) != list(range(len(x.shape))):
            raise mismatch(node, f"perm {perm} is no permutation of {len(x.shape)} axes", inputs)
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

    def permutation(self, node: Node, rank: int) -> tuple[int, ...] | None:
        """`perm`, or the axes in reverse."""
        return _perm(node, rank)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A view where only axes of one element move; several where it takes more loops than the kernel has."""
        x = operands(node, inputs, 1)[0]
        blocks, shape = _blocks(node, x.shape), self.infer(node, inputs)[0].shape
        if len(blocks) > LOOPS:
            return _in_turns(node, x.shape, blocks, shape)
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

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One copy per element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count, parallel=count)

    def samples(self) -> Iterator[Sample]:
        """Default, the layouts of real graphs, a full reversal, axes that merge, and views."""
        r = rng(42)
        yield Sample("default", (normal(r, 5, 7),))
        yield Sample("reverse", (normal(r, 2, 3, 4, 5),))
        for perm in ((0, 2, 3, 1), (0, 2, 1, 3), (0, 3, 1, 2)):
            yield Sample("perm" + "".join(map(str, perm)), (normal(r, 2, 3, 4, 5),), {"perm": perm})
        yield Sample("rank3", (normal(r, 3, 5, 7),), {"perm": (0, 2, 1)})
        yield Sample("merged", (normal(r, 2, 3, 2, 3, 2),), {"perm": (3, 4, 0, 1, 2)})
        yield Sample("view", (normal(r, 1, 5, 1, 7),), {"perm": (1, 0, 3, 2)})
        yield Sample("finer_places", (normal(r, 2, 2, 3, 2, 3, 5),), {"perm": (0, 1, 4, 2, 5, 3)})
        yield Sample("integers", (words(r, 5, 7, 3),), {"perm": (1, 2, 0)})
        yield Sample("all_loops", (normal(r, 2, 3, 1, 2, 3, 2, 2, 3),))

    def sweep(self) -> Iterator[Sample]:
        """Matrices and the layouts of attention heads."""
        r = rng(43)
        for shape in ((16, 32), (64, 64), (10, 100)):
            yield Sample(f"{shape[0]}x{shape[1]}", (normal(r, *shape),))
        yield Sample("heads", (normal(r, 16, 2, 16),), {"perm": (1, 0, 2)})
        yield Sample("keys", (normal(r, 16, 2, 16),), {"perm": (1, 2, 0)})


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


def _in_turns(node: Node, shape: tuple[int, ...], blocks: list[Block], result: tuple[int, ...]) -> list[Node]:
    """Views of blocks as axes, and two transposes: of as few loops as the kernel has, or the second is cut again."""
    by_place = sorted(blocks)
    order = tuple(by_place.index(block) for block in blocks)
    first, second = _turns(order)
    sizes = tuple(math.prod(shape[axis] for axis in block) for block in by_place)
    names = [f"{node.name}/{part}" for part in ("blocks", "turn", "order")]
    return [
        Node(names[0], "Reshape", node.inputs[:1], (names[0],), {"shape": sizes}),
        Node(names[1], "Transpose", (names[0],), (names[1],), {"perm": first}),
        Node(names[2], "Transpose", (names[1],), (names[2],), {"perm": second}),
        Node(node.name, "Reshape", (names[2],), node.outputs, {"shape": result}),
    ]


def _turns(order: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
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
