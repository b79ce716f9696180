"""Slices, concatenation and splitting along an axis, and their gradients."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Axis, Dim, Operand, Reach, Window
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, Kernel, Length, Offset, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, registry, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.execution import Execution
from deployer.core.traits.file import FileSpec
from deployer.core.traits.fusion import Fusion
from deployer.operators.base.operands import arrays, operands
from deployer.operators.base.views import normalized_axes

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

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One copy per element of the target."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count, parallel=count)


def dims_of(count: int) -> list[str]:
    """Names of so many dims, the last of them n3."""
    return [f"n{i}" for i in range(LOOPS - count, LOOPS)]


@register
class Slice(Picking):
    """Every step-th element of X from a start to an end, per axis.

    `starts`, `ends` and, optional, `axes` and `steps` are inputs or attributes, as in ONNX.

    Where a step goes backward, elements are taken forward and then turned round by a Gather.
    """

    name = "Slice"
    kernel = pick_kernel("slice_f32", "x", "y", *per_loop("step", "u32"))
    execution = Execution(moved=("x", "y"))
    file = FileSpec(versions=(1, 10, 11, 13), static_inputs={1: "starts", 2: "ends", 3: "axes", 4: "steps"})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The number of elements taken along each axis; of floats at least one."""
        x = operands(node, inputs, 1)[0]
        shape = tuple(p.count for p in taken(node, x))
        if x.dtype == "float32" and 0 in shape:
            raise mismatch(node, f"it takes nothing along axis {shape.index(0)}", inputs)
        return (TensorType(x.dtype, shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's slice."""
        x = arrays(inputs, 1)[0]
        picks = taken(node, TensorType("float32", x.shape))
        y = x[tuple(slice(p.first, p.first + p.count * p.step, p.step) for p in picks)]
        return (np.ascontiguousarray(np.flip(y, backward_axes(node, TensorType("float32", x.shape)))),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX holds dY at the elements that the slice took, and zero elsewhere."""
        if b.needs_grad(0):
            x, dy = b.type(node.inputs[0]), douts[0]
            for axis in backward_axes(node, x):
                ids = b.constant("turned", np.arange(b.type(dy).shape[axis])[::-1].copy())
                mirrored = b.temp("turned")
                b.emit("Gather", (dy, ids), (mirrored,), axis=axis)
                dy = mirrored
            put_back(b, dy, taken(node, x), b.grad(0))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Identity where the slice takes all elements; what goes backward is turned round behind a Slice."""
        x = operands(node, inputs, 1)[0]
        picks, axes = taken(node, x), backward_axes(node, x)
        if axes:
            return _mirrored(node, picks, axes)
        if not all(p.everything for p in picks):
            return None
        return [Node(node.name, "Identity", node.inputs[:1], node.outputs)]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Up to four parallel dims over Y, merged from its axes; a tile's X begins with its first element."""
        picks = self.loops(node, taken(node, types[node.inputs[0]]))
        maps = [Window(d, 1, p.step, pad=-p.first) for d, p in zip(dims_of(len(picks)), picks, strict=True)]
        return self.picked(node, types, ([p.size for p in picks], [p.count for p in picks]), maps)


def put_back(b: GradientBuilder, dy: str, picks: Sequence[Pick], dx: str) -> None:
    """Emit the gradient of X where Y holds picked elements of it: dY there, and zero elsewhere."""
    if any(p.step > 1 for p in picks):
        shape = tuple(p.size for p in picks)
        starts, steps = tuple(p.first for p in picks), tuple(p.step for p in picks)
        b.emit("SliceGrad", (dy,), (dx,), input_shape=shape, starts=starts, steps=steps)
        return
    pads = [p.first for p in picks] + [p.size - p.first - p.count for p in picks]
    b.emit("Pad", (dy, b.constant("pads", np.array(pads, np.int64))), (dx,))


def taken(node: Node, x: TensorType) -> tuple[Pick, ...]:
    """For each axis of X the elements of it that Y holds."""
    if "starts" not in node.attrs or "ends" not in node.attrs:
        raise unsupported(node, "starts or ends are not constant", "constant starts and ends")
    starts, ends = node.attr_ints("starts", ()), node.attr_ints("ends", ())
    axes = node.attr_ints("axes", ()) if "axes" in node.attrs else tuple(range(len(starts)))
    steps = node.attr_ints("steps", ()) if "steps" in node.attrs else (1,) * len(starts)
    if len({len(starts), len(ends), len(axes), len(steps)}) != 1:
        raise mismatch(node, f"starts {starts}, ends {ends}, axes {axes} and steps {steps} differ in length", (x,))
    normalized_axes(node, axes, len(x.shape), (x,))
    if 0 in steps:
        raise unsupported(node, f"steps are {steps}, of which one stands", "steps other than 0")
    picks = [Pick(size, 0, 1, size) for size in x.shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        places = range(*slice(start, end, step).indices(x.shape[axis]))
        places = places[::-1] if step < 0 else places
        picks[axis] = Pick(x.shape[axis], places.start, places.step if len(places) > 1 else 1, len(places))
    return tuple(picks)


def backward_axes(node: Node, x: TensorType) -> tuple[int, ...]:
    """The axes along which several elements are taken backward; `taken` has them forward."""
    picks, rank = taken(node, x), len(x.shape)
    axes = node.attr_ints("axes", ()) if "axes" in node.attrs else tuple(range(rank))
    steps = zip(axes, node.attr_ints("steps", ()), strict=False)
    return tuple(axis % rank for axis, step in steps if step < 0 and picks[axis].count > 1)


def _mirrored(node: Node, picks: Sequence[Pick], axes: Sequence[int]) -> list[Node]:
    """The elements forward, then a Gather from the last to the first along each of the axes."""
    name = f"{node.name}/forward"
    attrs: dict[str, AttrValue] = {
        "starts": tuple(p.first for p in picks),
        "ends": tuple(p.first + (p.count - 1) * p.step + 1 for p in picks),
        "axes": tuple(range(len(picks))),
        "steps": tuple(p.step for p in picks),
    }
    forward = Node(name, "Slice", node.inputs[:1], (name,), attrs)
    return [forward, *gathered(node, name, [(axis, range(picks[axis].count)[::-1]) for axis in axes], "turned")]


SHAPE = "shape"
"""The attribute that the shape of X becomes where it is an input."""


@register
class SliceGrad(Picking):
    """dX of a Slice, zero but for the elements that the Slice took.

    dY to dX of `input_shape`: along each axis, dY's element i is dX's element `starts + i * steps`.

    ONNX Runtime's form has behind dY the shape of X, and starts, ends, axes and steps as Slice has them.
    """

    name = "SliceGrad"
    file = FileSpec(
        custom=Signature((1, 6), (1, 1), {"input_shape": "INTS", "starts": "INTS", "steps": "INTS"}),
        static_inputs=dict(enumerate((SHAPE, "starts", "ends", "axes", "steps"), 1)),
    )
    kernel = pick_kernel(
        "slice_grad_f32", "dy", "dx", *per_loop("at", "i32"), *per_loop("len", "u32"), *per_loop("step", "u32")
    )
    fusion = Fusion(is_move=True)
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X, inside of which all of dY must lie."""
        dy = operands(node, inputs, 1)[0]
        if SHAPE in node.attrs:
            x = TensorType(dy.dtype, node.attr_ints(SHAPE, ()))
            (taken,) = registry()["Slice"].infer(_slice(node), (x,))
            if taken != dy:
                raise mismatch(node, f"a Slice of {x} with its bounds is {taken}, not dY's type", inputs)
            return (x,)
        for p in _picks(node, dy):
            if p.first < 0 or p.step < 1 or p.first + (p.count - 1) * p.step >= p.size:
                raise mismatch(node, f"dY does not lie inside of X, {node.attr_ints('input_shape', ())}", inputs)
        return (TensorType(dy.dtype, node.attr_ints("input_shape", ())),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Zeros, with dY at the elements that the Slice took."""
        dy = arrays(inputs, 1)[0]
        if SHAPE in node.attrs:
            shape = node.attr_ints(SHAPE, ())
            numbers = np.arange(math.prod(shape)).reshape(shape)
            dx = np.zeros(numbers.size, dy.dtype)
            dx[registry()["Slice"].reference(_slice(node), (numbers,))[0]] = dy
            return (dx.reshape(shape),)
        dx = np.zeros(node.attr_ints("input_shape", ()), dy.dtype)
        picks = _picks(node, TensorType("float32", dy.shape))
        dx[tuple(slice(p.first, p.first + p.count * p.step, p.step) for p in picks)] = dy
        return (dx,)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ONNX Runtime's form as what the gradient of a Slice is here: axes turned round, then this operator or Pad."""
        if SHAPE not in node.attrs:
            return None
        dy = operands(node, inputs, 1)[0]
        x = TensorType(dy.dtype, node.attr_ints(SHAPE, ()))
        picks, axes = taken(_slice(node), x), backward_axes(_slice(node), x)
        name, nodes = node.inputs[0], list[Node]()
        if axes:
            mirrored = f"{node.name}/turned"
            chosen = Node(mirrored, "Gather", (name,), (mirrored,))
            nodes += gathered(chosen, name, [(axis, range(picks[axis].count)[::-1]) for axis in axes], "forward")
            name = mirrored
        if any(p.step > 1 for p in picks):
            columns = zip(*((p.size, p.first, p.step) for p in picks), strict=True)
            shape, starts, steps = (tuple(column) for column in columns)
            attrs: dict[str, AttrValue] = {"input_shape": shape, "starts": starts, "steps": steps}
            return [*nodes, Node(node.name, self.name, (name,), node.outputs, attrs)]
        pads = tuple(p.first for p in picks) + tuple(p.size - p.first - p.count for p in picks)
        return [*nodes, Node(node.name, "Pad", (name,), node.outputs, {"pads": pads})]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Up to four parallel dims over dX, merged from its axes; a tile between two steps has no dY."""
        picks = self.loops(node, _picks(node, types[node.inputs[0]]))
        maps = [Reach(d, 1, p.step, pad=-p.first) for d, p in zip(dims_of(len(picks)), picks, strict=True)]
        return self.picked(node, types, ([p.count for p in picks], [p.size for p in picks]), maps)


def _slice(node: Node) -> Node:
    """The Slice whose gradient a node of ONNX Runtime's form is."""
    return Node(node.name, "Slice", (), node.outputs, {n: v for n, v in node.attrs.items() if n != SHAPE})


def _picks(node: Node, dy: TensorType) -> tuple[Pick, ...]:
    """For each axis of dX the elements at which dY lies."""
    shape, starts, steps = (node.attr_ints(name, ()) for name in ("input_shape", "starts", "steps"))
    if not len(shape) == len(starts) == len(steps) == len(dy.shape):
        raise mismatch(node, f"input_shape {shape}, starts {starts} and steps {steps} are not of dY's rank", (dy,))
    return tuple(map(Pick, shape, starts, steps, dy.shape))


def _second_axis(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 1 need not say the axis, which then is 1."""
    return [replace(node, attrs={"axis": 1} | node.attrs)]


@register
class Concat(Operator):
    """Tensors one after the other along an axis.

    Any number of inputs; the kernel joins two, more are joined half and half.
    """

    name = "Concat"
    file = FileSpec(versions=(4, 11, 13), older={1: _second_axis})
    kernel = Kernel(
        "concat_f32",
        pointers=(("a", "float32", False), ("b", "float32", False), ("y", "float32", True)),
        scalars=(("r", "u32"), ("n", "u32"), ("a_n", "u32"), ("a_r", "u32"), ("b_r", "u32"), ("y_r", "u32")),
    )
    execution = Execution(moved=("a", "b", "y"))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The inputs' shape, with the sum of their lengths along `axis`."""
        present = operands(node, inputs, max(len(node.inputs), 1))
        first, axis = present[0], _axis(node, present)
        if any(t.dtype != first.dtype for t in present):
            raise mismatch(node, "operands differ in dtype", inputs)
        if any(t.shape[:axis] + t.shape[axis + 1 :] != first.shape[:axis] + first.shape[axis + 1 :] for t in present):
            raise mismatch(node, f"operands differ along other axes than {axis}", inputs)
        total = sum(t.shape[axis] for t in present)
        return (TensorType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :])),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's concatenate."""
        present = [x for x in inputs if x is not None]
        return (np.concatenate(present, node.attr_int("axis", 0)),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """The slice of dY that each input became."""
        types = [b.type(name) for name in node.inputs]
        axis, start = _axis(node, types), 0
        for index, kind in enumerate(types):
            end = start + kind.shape[axis]
            if b.needs_grad(index):
                ends = (("starts", start), ("ends", end), ("axes", axis))
                bounds = [b.constant(label, np.array([value], np.int64)) for label, value in ends]
                b.emit("Slice", (douts[0], *bounds), (b.grad(index),))
            start = end

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Two Concats of half the inputs each, and one of both; a single input is an Identity.

        Halves copy an element once per level; a chain would copy the first ones once per input.
        """
        if len(node.inputs) == 1:
            return [Node(node.name, "Identity", node.inputs, node.outputs)]
        if len(node.inputs) == 2:
            return None
        middle = len(node.inputs) // 2
        nodes, joined = [], []
        for side, names in (("left", node.inputs[:middle]), ("right", node.inputs[middle:])):
            if len(names) == 1:
                joined.append(names[0])
                continue
            joined.append(f"{node.outputs[0]}_{side}")
            nodes.append(Node(f"{node.name}_{side}", self.name, names, (joined[-1],), dict(node.attrs)))
        return [*nodes, Node(node.name, self.name, tuple(joined), node.outputs, dict(node.attrs))]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dim r joins the axes before `axis`, n the others; a tile may lie in one of the inputs alone."""
        a, b = (types[name] for name in node.inputs)
        axis = _axis(node, (a, b))
        rows = math.prod(a.shape[:axis])
        sizes = [math.prod(t.shape[axis:]) for t in (a, b)]
        boxes = (
            Operand("a", node.inputs[0], "in", (rows, sizes[0]), (At("r"), Window("n", 1))),
            Operand("b", node.inputs[1], "in", (rows, sizes[1]), (At("r"), Window("n", 1, pad=sizes[0]))),
            Operand("y", node.outputs[0], "out", (rows, sum(sizes)), (At("r"), At("n"))),
        )
        return Access((Dim("r", rows), Dim("n", sum(sizes))), boxes)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, the length of A's rows, and the strides between rows in elements."""
        rows: dict[str, ArgValue] = {f"{name}_r": Stride(name, 0) for name in "aby"}
        return {"r": Extent("r"), "n": Extent("n"), "a_n": Length("a", 1), **rows}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One copy per element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count, parallel=count)


def _axis(node: Node, present: Sequence[TensorType]) -> int:
    """The axis from the front; all inputs have it."""
    if "axis" not in node.attrs:
        raise unsupported(node, "there is no axis", "an axis attribute")
    axis, rank = node.attr_int("axis", 0), len(present[0].shape)
    if any(len(t.shape) != rank for t in present) or not -rank <= axis < rank:
        raise mismatch(node, f"operands differ in rank, or have no axis {axis}", present)
    return axis % rank


def _equal_sizes(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 18 the parts are equal, as many as outputs, where nothing says their lengths."""
    if "split" in node.attrs or any(node.inputs[1:]):
        return [node]
    x, count = operands(node, types, 1)[0], len(node.outputs)
    size = x.shape[normalized_axes(node, (node.attr_int("axis", 0),), len(x.shape), types)[0]]
    if not count or size % count:
        raise mismatch(node, f"{size} elements do not make {count} equal parts", types)
    return [replace(node, attrs={**node.attrs, "split": (size // count,) * count})]


def _counted_from_the_front(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 11 an axis is counted from the front."""
    axis = node.attr_int("axis", 0)
    if axis < 0:
        raise unsupported(node, f"axis is {axis}, which has a meaning from version 11 on only", "an axis from 0")
    return _equal_sizes(node, types)


def _attribute_form(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 1 has the lengths as an attribute, or as an input that nothing reads."""
    if any(node.inputs[1:]):
        raise unsupported(node, "its lengths are an input, which version 1 has and no runtime reads", "attribute split")
    return _counted_from_the_front(node, types)


@register
class Split(Operator):
    """X cut along an axis into parts, one after the other.

    Lengths as input or attribute `split`, or as many equal parts as `num_outputs` says, the last one shorter.
    """

    name = "Split"
    file = FileSpec(
        versions=(18,),
        older={
            **{1: _attribute_form, 2: _counted_from_the_front},
            **{11: _equal_sizes, 13: _equal_sizes},
        },
        static_inputs={1: "split"},
        counts_outputs=True,
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's type with the length of each part, which is nothing where a part is not read."""
        x = operands(node, inputs, 1)[0]
        axis = normalized_axes(node, (node.attr_int("axis", 0),), len(x.shape), inputs)[0]
        lengths = _lengths(node, x.shape[axis], inputs)
        return tuple(TensorType(x.dtype, (*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in lengths)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's split."""
        x = arrays(inputs, 1)[0]
        axis = node.attr_int("axis", 0)
        lengths = _lengths(node, x.shape[axis], (TensorType("float32", x.shape),))
        return tuple(piece.copy() for piece in np.split(x, list(accumulate(lengths))[:-1], axis))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A Slice for each part that has a name; ShapeMismatch where that has no elements."""
        x, axis = operands(node, inputs, 1)[0], node.attr_int("axis", 0)
        nodes = []
        places = pairwise(accumulate(_lengths(node, x.shape[axis], inputs), initial=0))
        for number, ((start, end), output) in enumerate(zip(places, node.outputs, strict=False)):
            if output and start == end:
                raise mismatch(node, f"its part {number} has nothing of axis {axis % len(x.shape)}", inputs)
            attrs: dict[str, AttrValue] = {"starts": (start,), "ends": (end,), "axes": (axis,)}
            if output:
                nodes.append(Node(f"{node.name}/{number}", "Slice", node.inputs[:1], (output,), attrs))
        return nodes

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """The gradients of the parts joined again, zeros where none arrives; a single one is padded."""
        if not b.needs_grad(0):
            return
        x = b.type(node.inputs[0])
        axis = node.attr_int("axis", 0) % len(x.shape)
        pieces = [TensorType(x.dtype, kind.shape) for kind in self.infer(node, (x,))]
        arrived = [i for i, dout in enumerate(douts) if dout]
        if len(arrived) == 1:
            lengths = [piece.shape[axis] for piece in pieces]
            pads = np.zeros((2, len(x.shape)), np.int64)
            pads[:, axis] = sum(lengths[: arrived[0]]), sum(lengths[arrived[0] + 1 :])
            b.emit("Pad", (douts[arrived[0]], b.constant("pads", pads.reshape(-1))), (b.grad(0),))
            return
        names = [*douts, *[""] * (len(pieces) - len(douts))]
        for i, piece in enumerate(pieces):
            names[i] = names[i] or (b.constant("zeros", np.zeros(piece.shape, np.float32)) if piece.size else "")
        b.emit("Concat", list(filter(None, names)), (b.grad(0),), axis=axis)


def _lengths(node: Node, size: int, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
    """The lengths of the parts along the axis; ShapeMismatch where they do not fill it, or are not one per output."""
    if ("split" in node.attrs) == ("num_outputs" in node.attrs):
        what = "both lengths and" if "split" in node.attrs else "neither lengths nor"
        raise unsupported(node, f"it has {what} a number of parts", "one of both")
    if "split" in node.attrs:
        if isinstance(node.attrs["split"], int):
            raise mismatch(node, f"its lengths are the number {node.attrs['split']}, not a list of them", inputs)
        lengths = node.attr_ints("split", ())
    else:
        count = node.attr_int("num_outputs", 0)
        if count < 1 or count != len(node.outputs):
            raise mismatch(node, f"it makes {count} parts of {size} elements for {len(node.outputs)} outputs", inputs)
        each = -(-size // count)
        lengths = tuple(max(min(each, size - i * each), 0) for i in range(count))
    if len(lengths) != len(node.outputs):
        raise mismatch(node, f"lengths {lengths} are not one for each of {len(node.outputs)} outputs", inputs)
    if min(lengths, default=0) < 0 or sum(lengths) != size:
        raise mismatch(node, f"lengths {lengths} do not add up to {size}", inputs)
    return lengths


@register
class ConcatTraining(Operator):
    """Concat, with the length of each input along the axis as a second output.

    ONNX Runtime's; SplitTraining of the backward pass reads the lengths.
    """

    name = "ConcatTraining"
    file = FileSpec(custom=Signature((1, 2**31 - 1), (1, 2), {"axis": "INT"}, frozenset({"axis"})))
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of Concat, and an integer per input."""
        return (*registry()["Concat"].infer(node, inputs), TensorType("int32", (len(node.inputs),)))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of Concat, and the lengths."""
        axis = node.attr_int("axis", 0)
        lengths = [x.shape[axis] for x in inputs if x is not None]
        return (*registry()["Concat"].reference(node, inputs), np.array(lengths, np.int32))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Concat, and a constant."""
        y, lengths = (*node.outputs, "")[:2]
        axis = node.attr_int("axis", 0)
        nodes = [Node(node.name, "Concat", node.inputs, (y,), {"axis": axis})]
        if lengths:
            counts = tuple(kind.shape[axis] for kind in operands(node, inputs, len(node.inputs)))
            nodes.append(Node(f"{node.name}/lengths", "Constant", (), (lengths,), {"value_ints": counts}))
        return nodes


@register
class SplitTraining(Operator):
    """Split by lengths that are an input; the gradient of ConcatTraining.

    ONNX Runtime's; the lengths are constant, as those of ConcatTraining are.
    """

    name = "SplitTraining"
    file = FileSpec(
        custom=Signature((2, 2), (1, 2**31 - 1), {"axis": "INT"}), static_inputs={1: "split"}, counts_outputs=True
    )
    composite = True
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of Split."""
        return registry()["Split"].infer(node, inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The parts of Split."""
        return registry()["Split"].reference(node, inputs)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Split."""
        return [replace(node, op="Split")]
