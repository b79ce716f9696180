"""What Pad, Slice and SliceGrad share: along each axis one tensor holds picked elements of the other."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from deployer.core.access import Access, At, Axis, Dim, Operand
from deployer.core.ir import Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Const,
    CType,
    Extent,
    Kernel,
    Length,
    Offset,
    Operator,
    Stride,
    Work,
    unsupported,
)

LOOPS = 4
"""Loops of the kernels; their dims are n0 (outermost) to n3."""


@dataclass(frozen=True)
class Pick:
    """Element i of the part, i < count, is element `first + i * step` of an axis of `size`, padding outside of it."""

    size: int
    first: int
    step: int
    count: int

    @property
    def everything(self) -> bool:
        """Whether part and whole are the same."""
        return (self.first, self.count) == (0, self.size) and (self.step == 1 or self.count == 1)


Places = Sequence[tuple[int, Sequence[int]]]
"""For some axes, the place in X of each element along it."""


def gathered(node: Node, source: str, places: Places, label: str) -> list[Node]:
    """A Gather along each of these axes, from `source` to the node's output; `label` names the values in between."""
    nodes = list[Node]()
    for axis, along in places:
        last = axis == places[-1][0]
        ids, result = f"{node.name}/places{axis}", f"{node.name}/{label}{axis}"
        nodes.append(Node(ids, "Constant", (), (ids,), {"value_ints": tuple(along)}))
        outputs = node.outputs if last else (result,)
        nodes.append(Node(node.name if last else result, "Gather", (source, ids), outputs, {"axis": axis}))
        source = result
    return nodes


def merged(picks: Iterable[Pick]) -> tuple[Pick, ...]:
    """The same picks over as few axes as possible.

    An axis of which everything is picked joins the axis outside of it, if that one has step 1. Axes of one element
    vanish; at least one axis remains.
    """
    axes: list[Pick] = []
    for p in picks:
        if p.everything and p.size == 1:
            continue
        outer = axes[-1] if axes else None
        if p.everything and outer is not None and outer.step == 1:
            axes[-1] = Pick(outer.size * p.size, outer.first * p.size, 1, outer.count * p.size)
        else:
            axes.append(Pick(p.size, p.first, 1 if p.count == 1 else p.step, p.count))
    return tuple(axes) or (Pick(1, 0, 1, 1),)


def pick_kernel(symbol: str, source: str, target: str, *more: tuple[str, CType]) -> Kernel:
    """A kernel of four loops over the target; in both operands the innermost loop runs over adjacent elements."""
    scalars: list[tuple[str, CType]] = [(f"n{i}", "u32") for i in range(LOOPS)]
    scalars += [(f"{name}{i}", "u32") for name in (source, target) for i in range(LOOPS - 1)]
    return Kernel(symbol, ((source, "float32", False), (target, "float32", True)), (*scalars, *more))


def per_loop(name: str, kind: CType) -> tuple[tuple[str, CType], ...]:
    """One scalar of the kernel for each loop, `<name>0` to `<name>3`."""
    return tuple((f"{name}{i}", kind) for i in range(LOOPS))


class Picking(Operator):
    """One operand holds picked elements of the other; a subclass says which of the two is the larger tensor."""

    kernel: ClassVar[Kernel]

    def loops(self, node: Node, picks: Iterable[Pick]) -> tuple[Pick, ...]:
        """The merged axes; UnsupportedOperator where the kernel has too few loops."""
        axes = merged(picks)
        if len(axes) > LOOPS:
            cause = f"it needs {len(axes)} loops over {tuple(p.size for p in axes)}, the kernel has {LOOPS}"
            raise unsupported(node, cause, "two nodes, each for some of the axes")
        return axes

    def picked(
        self,
        node: Node,
        types: Mapping[str, TensorType],
        views: tuple[Sequence[int], Sequence[int]],
        maps: Sequence[Axis],
    ) -> Access:
        """Dims over the target, all parallel; `views` (source, target) and `maps` of the source are per merged axis."""
        tensors = (node.inputs[0], node.outputs[0])
        (source, _, _), (target, _, _) = self.kernel.pointers
        names = dims_of(len(maps))
        operands = (
            Operand(source, tensors[0], "in", tuple(views[0]), tuple(maps)),
            Operand(target, tensors[1], "out", tuple(views[1]), tuple(map(At, names))),
        )
        return Access(tuple(map(Dim, names, views[1])), operands)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides, and those of `at`, `len` and `step` (of the source's box) that the kernel has."""
        (source, _, _), (target, _, _) = self.kernel.pointers
        names = {name for name, _ in self.kernel.scalars}
        offset = LOOPS - len(access.dims)
        steps = [getattr(axis, "stride", 1) for axis in access.operand(source).axes]
        values: dict[str, ArgValue] = {}
        for i in range(LOOPS):
            axis = i - offset
            scalars: dict[str, ArgValue] = {"n": Const(1), source: Const(0), target: Const(0)}
            scalars |= {"at": Const(0), "len": Const(1), "step": Const(1)}
            if axis >= 0:
                scalars = {"n": Extent(f"n{i}"), source: Stride(source, axis), target: Stride(target, axis)}
                scalars |= {"at": Offset(source, axis), "len": Length(source, axis), "step": Const(steps[axis])}
            values |= {f"{name}{i}": value for name, value in scalars.items() if f"{name}{i}" in names}
        return values

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One copy per element of the target."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count, parallel=count)


def dims_of(count: int) -> list[str]:
    """Names of so many dims, the last of them n3."""
    return [f"n{i}" for i in range(LOOPS - count, LOOPS)]
