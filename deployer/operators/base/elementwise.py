"""Base classes of elementwise operators: flat ones over equal shapes, and ones with numpy broadcasting."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, Kernel, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, mismatch, rng, unsupported
from deployer.core.samples import Sample
from deployer.core.signatures import without
from deployer.operators.base.operands import arrays, normal, operands

# Numpy broadcasting in as few loops as possible: adjacent axes broadcast alike become one.

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


class Flat(Operator):
    """Elementwise over operands of one size; the outputs are the kernel pointers that are written."""

    kernel: ClassVar[Kernel]

    @classmethod
    def base_scalars(cls, pointers: Sequence[str]) -> tuple[tuple[str, CType], ...]:
        """The scalars that `args` fills."""
        return (("n", "u32"),)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of the first input, which all others must have."""
        present = operands(node, inputs, 2)
        if present[0] != present[1]:
            raise mismatch(node, "operands differ in type", inputs)
        return (present[0],)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim."""
        size = types[node.inputs[0]].size
        listed, results = [], list(node.outputs)
        for i, (arg, _, is_output) in enumerate(self.kernel.pointers):
            tensor = results.pop(0) if is_output and not self.inplace else node.inputs[i]
            mode = "in" if not is_output else "inout" if self.inplace else "out"
            listed.append(Operand(arg, tensor, mode, (size,), (At("n"),)))  # type: ignore[arg-type]
        return Access((Dim("n", size),), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length."""
        return {"n": Extent("n")}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One operation per element."""
        return Work(macs=0, elements=tile["n"], parallel=tile["n"])


BOUNDS: tuple[tuple[str, CType], ...] = (("n", "u32"), ("low", "f32"), ("high", "f32"))


def bounds(node: Node) -> tuple[float, float]:
    """`min` and `max`, by default the limits of finite float32; UnsupportedOperator unless each is a number.

    Those of a file are float32 already; a captured step has the module's own, which kernels round.
    """
    limits, largest = [], float(np.finfo(np.float32).max)
    for name, absent in (("min", -largest), ("max", largest)):
        value = node.attrs.get(name, absent)
        if isinstance(value, tuple) and len(value) == 1:
            value = value[0]
        if not isinstance(value, (int, float)):
            raise unsupported(node, f"{name} {value!r} is not one number", "a scalar")
        if math.isnan(value):
            raise unsupported(node, f"{name} is NaN, which bounds nothing", "a number, or no bound")
        limits.append(float(value))
    return limits[0], limits[1]


class Clipping(Flat):
    """Flat with bounds."""

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim, over floats."""
        if types[node.inputs[0]].dtype != "float32":
            raise unsupported(node, "integer operands reach the target", "constant integer operands, which are folded")
        return super().access(node, types)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The bounds, too."""
        low, high = bounds(node)
        return super().args(node, access) | {
            "low": Const(float(np.float32(low))),
            "high": Const(float(np.float32(high))),
        }


class Broadcasting(Operator):
    """Elementwise over operands that numpy broadcasts, in up to four loops.

    Constant integers are folded; for others `at_run_time` names the operator over integers, where there is one.
    """

    kernel: ClassVar[Kernel]
    at_run_time: ClassVar[str] = ""

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The operator over integers where the last two operands, behind a condition, are some."""
        wholes = [kind is not None and kind.dtype == "int32" for kind in inputs[-2:]]
        return [replace(node, op=self.at_run_time)] if self.at_run_time and all(wholes) else None

    @classmethod
    def base_scalars(cls, pointers: Sequence[str]) -> tuple[tuple[str, CType], ...]:
        """The scalars that `args` fills."""
        return loop_scalars(pointers)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Up to four parallel dims, merged from the broadcast axes."""
        dtypes = [dtype for _, dtype, _ in self.kernel.pointers]
        return broadcast_access(node, types, [name for name, _, _ in self.kernel.pointers], dtypes)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides."""
        return loop_args(access)

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One operation per output element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count, parallel=count)


class Binary(Broadcasting):
    """Y = f(A, B) under numpy broadcasting; a subclass gives f and the gradient."""

    @abstractmethod
    def apply(self, a: Array, b: Array) -> Array:
        """f in numpy."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape of two operands of one dtype."""
        a, b = operands(node, inputs, 2)
        if a.dtype != b.dtype:
            raise mismatch(node, "operands differ in dtype", inputs)
        try:
            return (TensorType(a.dtype, np.broadcast_shapes(a.shape, b.shape)),)
        except ValueError:
            raise mismatch(node, "operands do not broadcast", inputs) from None

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """f(A, B)."""
        a, b = arrays(inputs, 2)
        return (np.asarray(self.apply(a, b), dtype=a.dtype),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Up to four parallel dims, merged from the broadcast axes."""
        return broadcast_access(node, types, ("a", "b", "y"))


def limited(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """A binary operator before version 7: B is of A's shape, or under `broadcast` one element or a run of A's axes.

    The run begins at `axis`, by default so that it ends with the last: B gets axes of one element behind it.
    """
    a, b = operands(node, types, 2)
    plain = without(node, "axis", "broadcast", "consumed_inputs")
    rank, run = len(a.shape), len(b.shape)
    if a.shape != b.shape and not node.attr_int("broadcast", 0):
        raise mismatch(node, "operands differ in shape, and this version broadcasts only where `broadcast` is 1", types)
    if b.size == 1 and run <= rank:
        return [plain]
    axis = node.attr_int("axis", rank - run)
    if axis < 0 or a.shape[axis : axis + run] != b.shape:
        raise mismatch(node, f"B's axes are not those of A from axis {axis} on", types)
    if axis + run == rank:
        return [plain]
    column = f"{node.name}/column"
    shape = (*b.shape, *[1] * (rank - axis - run))
    return [
        Node(column, "Reshape", node.inputs[1:2], (column,), {"shape": shape}),
        replace(plain, inputs=(node.inputs[0], column)),
    ]


def equal_shapes(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 8 operands are of one shape."""
    if len({t.shape for t in types if t is not None}) > 1:
        raise mismatch(node, "operands differ in shape, which version 8 allows first", types)
    return [without(node, "consumed_inputs")]


def binary_kernel(symbol: str) -> Kernel:
    """The kernel of a binary operator, built on `binary_f32.h`."""
    return Kernel(
        symbol,
        pointers=(("a", "float32", False), ("b", "float32", False), ("y", "float32", True)),
        scalars=loop_scalars(("a", "b", "y")),
    )


def binary_samples(seed: int) -> Iterator[Sample]:
    """Equal shapes, scalars on either side, broadcasting on one and both sides, and four merged dims."""
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "vector": ((37,), (37,)),
        "matrix": ((5, 7), (5, 7)),
        "scalars": ((), ()),
        "scalar_right": ((3, 11), ()),
        "scalar_left": ((1,), (3, 11)),
        "row": ((6, 13), (13,)),
        "column": ((6, 1), (6, 13)),
        "both": ((5, 1, 3), (1, 7, 3)),
        "outer": ((5, 1), (1, 7)),
        "channels": ((2, 3, 5, 7), (3, 1, 1)),
        "four_loops": ((2, 1, 5, 1), (1, 3, 1, 7)),
    }
    r = rng(seed)
    for label, (a, b) in shapes.items():
        yield Sample(label, (normal(r, *a), normal(r, *b)))
