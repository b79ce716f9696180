"""Numpy broadcasting in as few loops as possible: adjacent axes that are broadcast in the same way become one."""

from collections.abc import Mapping, Sequence

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand
from deployer.core.ir import Node, TensorType
from deployer.core.operator import ArgValue, Const, CType, Extent, Stride, unsupported

Shape = tuple[int, ...]
LOOPS = 4
"""Loops of the broadcasting kernels; their dims are n0 (outermost) to n3."""


def aligned(shape: Shape, rank: int) -> Shape:
    """The shape with ones in front up to that rank."""
    return (1,) * (rank - len(shape)) + shape


def merged(out: Shape, shapes: Sequence[Shape]) -> tuple[Shape, tuple[Shape, ...]]:
    """The output shape and each operand's, with neighbouring axes joined where no operand tells them apart.

    Axes of one element vanish; at least one axis remains.
    """
    rows = [aligned(shape, len(out)) for shape in shapes]
    groups: list[tuple[int, tuple[bool, ...]]] = []
    for axis, size in enumerate(out):
        pattern = tuple(row[axis] == size for row in rows)
        if size == 1:
            continue
        if groups and groups[-1][1] == pattern:
            groups[-1] = (groups[-1][0] * size, pattern)
        else:
            groups.append((size, pattern))
    groups = groups or [(1, (True,) * len(rows))]
    sizes = tuple(size for size, _ in groups)
    views = tuple(tuple(size if p[i] else 1 for size, p in groups) for i in range(len(rows)))
    return sizes, views


def broadcast_access(
    node: Node, types: Mapping[str, TensorType], pointers: Sequence[str], dtypes: Sequence[str] = ()
) -> Access:
    """Access of Y = f(inputs...) under numpy broadcasting: parallel dims n0..n3, right-aligned.

    `pointers` names the kernel's arguments, the output last, and `dtypes` their element types, by default all float32.
    """
    found = [types[name].dtype for name in (*node.inputs, node.outputs[0])]
    if found != list(dtypes or ["float32"] * len(found)):
        raise unsupported(node, "integer operands reach the target", "constant integer operands, which are folded")
    inputs = node.inputs[: len(pointers) - 1]
    sizes, views = merged(types[node.outputs[0]].shape, [types[name].shape for name in inputs])
    if len(sizes) > LOOPS:
        raise unsupported(
            node,
            f"broadcasting needs {len(sizes)} loops over {sizes}, the kernel has {LOOPS}",
            "Expand one operand first",
        )
    names = [f"n{i}" for i in range(LOOPS - len(sizes), LOOPS)]
    operands = []
    for arg, tensor, view in zip(pointers, inputs, views, strict=False):
        axes: tuple[Axis, ...] = tuple(
            At(name) if length == size else Broadcast() for name, length, size in zip(names, view, sizes, strict=True)
        )
        operands.append(Operand(arg, tensor, "in", view, axes))
    operands.append(Operand(pointers[-1], node.outputs[0], "out", sizes, tuple(map(At, names))))
    return Access(tuple(map(Dim, names, sizes)), tuple(operands))


def loop_args(access: Access) -> dict[str, ArgValue]:
    """Lengths n0..n3 and strides `<arg>0`..`<arg>3` per operand; a missing loop has length 1 and stride 0."""
    names = [f"n{i}" for i in range(LOOPS)]
    present = access.sizes
    values: dict[str, ArgValue] = {n: Extent(n) if n in present else Const(1) for n in names}
    for operand in access.operands:
        position = {axis.dim: i for i, axis in enumerate(operand.axes) if isinstance(axis, At)}
        for i, name in enumerate(names):
            stride = Stride(operand.arg, position[name]) if name in position else Const(0)
            values[f"{operand.arg}{i}"] = stride
    return values


def loop_scalars(pointers: Sequence[str]) -> tuple[tuple[str, CType], ...]:
    """The scalars that `loop_args` fills, in the kernel's order."""
    return tuple((f"{name}{i}", "u32") for name in ("n", *pointers) for i in range(LOOPS))
