"""The steps of layer normalization over rows."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Axis, Dim, Operand, Whole
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, First, Kernel, Last, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, execution_of, mismatch, register, unsupported
from deployer.core.samples import Sample
from deployer.core.traits.execution import BLOCK, SHORT, Execution, Sums
from deployer.core.traits.fusion import EpilogueBias, Fusion
from deployer.core.traits.numerics import Centre, Numerics
from deployer.operators.base.epilogue import GATE, GATED, RELU_SCALAR, finished, own_args, own_gate, relu_args
from deployer.operators.base.operands import floats, normal
from deployer.operators.base.sums import (
    CARRY,
    CARRY_SCALARS,
    LONGEST_ROW,
    carry_args,
    carry_operands,
    operand_pointers,
    result_count,
)
from deployer.operators.base.work_split import SplitOperator
from deployer.operators.normalization.channels import ChannelMoments
from deployer.operators.reduction.reduction import ReduceSum

EPSILON = 1e-5
FLOATS = ("count", "inverse_count", "epsilon")
"""Scalars of kernels that are no integers."""
ADDED = "added"
"""The kernel pointer to what is added to a complete result."""


class Layerwise(Operator):
    """A step of layer normalization. `layout` says per kernel argument what it runs over: "rc", "r" or "c".

    One with `sums` does so along one dim. Missing inputs are no operands, and count as zeros.
    """

    kernel: ClassVar[Kernel]
    layout: ClassVar[dict[str, str]]
    no_gradient = "it is a step of another operator, whose gradient includes it"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each output has X's shape, one element per row or one per column, as `layout` says."""
        x = floats(node, inputs, 1)[0]
        axis = first_axis(node, x.shape)
        sizes = {"rc": x.size, "r": math.prod(x.shape[:axis]), "c": math.prod(x.shape[axis:])}
        for kind, operand in zip(self.layout.values(), inputs, strict=False):
            if operand is not None and (operand.dtype != "float32" or operand.size != sizes[kind]):
                raise mismatch(node, f"{operand} is not of {sizes[kind]} floats", inputs)
        return tuple(TensorType("float32", shape) for shape in self.result_shapes(node, x.shape))

    def result_shapes(self, node: Node, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """The shapes of all outputs by that of X."""
        axis = first_axis(node, shape)
        shapes = {"rc": shape, "r": shape[:axis] + (1,) * (len(shape) - axis), "c": shape[axis:]}
        return tuple(shapes[self.layout[arg]] for arg in self._arguments(outputs=True))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The step's `formula` on arrays of rows by columns, its outputs in their own shapes."""
        first = next(x for x in inputs if x is not None)
        count = math.prod(first.shape[: first_axis(node, first.shape)])
        flat = {"rc": (count, -1), "r": (count, 1), "c": (1, -1)}
        operands = [name for name in self._arguments(outputs=False) if name != ADDED]
        given = dict(zip(operands, inputs, strict=False))
        zero = np.zeros((1, 1), first.dtype)
        names = ((given.get(name), self.layout[name]) for name in operands)
        outputs = self.formula(node, *(zero if x is None else x.reshape(flat[kind]) for x, kind in names))
        shapes = self.result_shapes(node, first.shape)
        found = outputs[: len(shapes)]
        return tuple(x.reshape(s).astype(first.dtype) for x, s in zip(found, shapes, strict=True))

    @abstractmethod
    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """The step's formula: X is [r, c], numbers per row are [r, 1], per column [1, c]; outputs have any shape."""

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims r (rows) and c (columns), the reduced one last."""
        shape = types[node.inputs[0]].shape
        axis = first_axis(node, shape)
        sizes = {"r": math.prod(shape[:axis]), "c": math.prod(shape[axis:])}
        absent = [""] * (len(self._arguments(outputs=False)) - len(node.inputs))
        results = (*node.outputs, *[""] * result_count(self.kernel))[: result_count(self.kernel)]
        tensors = (*node.inputs, *absent, *results)
        listed = []
        for (arg, _, is_output), tensor in zip(operand_pointers(self.kernel), tensors, strict=True):
            if tensor:
                kind = self.layout[arg]
                view, axes = tuple(sizes[d] for d in kind), tuple(At(d) for d in kind)
                listed.append(Operand(arg, tensor, "out" if is_output else "in", view, axes))
        sums = execution_of(self).sums
        summed = sums.dims if sums else ()
        if sums:
            listed += carry_operands(node, self.kernel, sums, listed[-1])
        dims = [Dim(n, sizes[n], "reduction" if n in summed else "parallel") for n in "rc"]
        return Access(tuple(sorted(dims, key=lambda d: d.kind)), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, row strides, whether the tile is first or last in the sum, and the columns of a full row."""
        values: dict[str, ArgValue] = {"r": Extent("r"), "c": Extent("c")}
        values |= {f"{o.arg}_r": Stride(o.arg, 0) for o in access.operands if len(o.view) == 2 and o.arg in self.layout}
        if sums := execution_of(self).sums:
            values |= {"first": First(), "last": Last(), **carry_args(sums, access)}
        values |= {"count": Const(float(access.dim("c").size)), **self.more_args(node, access)}
        return {name: values[name] for name, _ in self.kernel.scalars}

    def more_args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Kernel arguments of this step alone, by name."""
        return {}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """Two operations per element; a sum is not split between cores."""
        count = tile["r"] * tile["c"]
        sums = execution_of(self).sums
        summed = math.prod(tile[dim] for dim in sums.dims) if sums else 1
        return Work(macs=count, elements=count, parallel=count // summed)

    def _arguments(self, outputs: bool) -> list[str]:
        return [name for name, _, is_output in self.kernel.pointers if is_output == outputs and name in self.layout]

    def _sample(self, r: np.random.Generator, label: str, shape: tuple[int, ...], axis: int) -> Sample:
        first = axis % len(shape)
        shapes = {"rc": shape, "r": shape[:first] + (1,) * (len(shape) - first), "c": shape[first:]}
        operands = (name for name in self._arguments(outputs=False) if name != ADDED)
        inputs = tuple(normal(r, *shapes[self.layout[name]]) for name in operands)
        return Sample(label, inputs, {"axis": axis}, len(self._arguments(outputs=True)), onnx=False)


def layer_kernel(
    symbol: str, layout: Mapping[str, str], outputs: Sequence[str], *more: str, sums: bool = False
) -> Kernel:
    """The kernel of a step with that layout; `more` are further scalars."""
    names = ("r", "c", *(f"{arg}_r" for arg, kind in layout.items() if kind == "rc"), *more)
    scalars: list[tuple[str, CType]] = [(name, "f32" if name in FLOATS else "u32") for name in names]
    pointers = [(arg, "float32", arg in outputs) for arg in layout]
    if sums:
        scalars += [("first", "u32"), ("last", "u32"), *CARRY_SCALARS]
        pointers.append(CARRY)
    return Kernel(symbol, tuple(pointers), tuple(scalars))


def first_axis(node: Node, shape: tuple[int, ...]) -> int:
    """The first axis of a row, counted from the front; ShapeMismatch where there is none."""
    axis = node.attr_int("axis", -1)
    if not -len(shape) <= axis < len(shape):
        raise mismatch(node, f"axis {axis} outside rank {len(shape)}", (TensorType("float32", shape),))
    return axis % len(shape)


def adds(layout: Mapping[str, str]) -> EpilogueBias:
    """The input that a step of that layout adds."""
    return EpilogueBias(list(layout).index(ADDED))


class AddsToDX(Layerwise):
    """A step to dX, the last input of which may be another gradient that is added to the complete result."""

    def added(self, node: Node) -> str:
        """The name of what is added; empty where nothing is."""
        return "".join(node.inputs[adds(self.layout).position :])

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The formula, and the sum with what is added."""
        place = adds(self.layout).position
        (dx,) = super().reference(node, inputs[:place])
        added = inputs[place] if len(inputs) > place else None
        return (dx if added is None else dx + added.reshape(dx.shape),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """That of the step; what is added has a number for each of the result."""
        added, x = self.added(node), types[node.inputs[X]]
        if added and types[added].size != x.size:
            raise unsupported(node, f"{types[added]} is added to {x}", "an Add of its own")
        return super().access(node, types)

    def more_args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """No stride where nothing is added."""
        return {} if self.added(node) else {f"{ADDED}_r": Const(0)}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """An operation more per element, and a cost class of its own, where something is added."""
        plain = super().work(node, access, tile, model)
        if not self.added(node):
            return plain
        return replace(plain, macs=plain.macs + tile["r"] * access.operand("x").view[1], cost_class=ADDED)


X = 1


class GatedByX(AddsToDX):
    """A step from dY and X to dX. Fusion sets the attribute `gated` where the gradient of the Relu follows."""

    fusion: ClassVar[Fusion] = Fusion(reused={GATE: (X, GATED)})

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The formula, the sum with what is added, then the fused gate."""
        (dx,), x = super().reference(node, inputs), inputs[X]
        assert x is not None
        return (own_gate(node, dx, x),)

    def more_args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Whether the result is gated by X."""
        return {**super().more_args(node, access), **own_args(node)}


REST, GRAD_REST = 5, 7
"""The input that is the rest of the mean, of LayerNormalize and of LayerNormalizeGrad."""


@register
class LayerNormalize(Layerwise):
    """Y = ((X - mean) inv_std + rest) scale + bias by given statistics; ends layer normalization.

    X, mean, inv_std, scale[, bias, rest] to Y; `activation` says that Relu follows.
    """

    name = "LayerNormalize"
    layout: ClassVar[dict[str, str]] = {
        **{"x": "rc", "mean": "r", "inv_std": "r", "scale": "c", "bias": "c", "rest": "r"},
        **{"y": "rc"},
    }
    kernel = layer_kernel("layer_normalize_f32", layout, ("y",), RELU_SCALAR[0])
    numerics = Numerics(centre=Centre(mean=1, inv_std=2, rest=REST))

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """((X - mean) inv_std + rest) scale + bias."""
        x, mean, inv_std, scale, bias, rest = operands
        return (((x - mean) * inv_std + rest) * scale + bias,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The formula, then Relu where it is fused."""
        (y,) = super().reference(node, inputs)
        return (finished(node, y),)

    def more_args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Whether Relu follows."""
        return relu_args(node)


@register
class LayerNormalizeGrad(GatedByX):
    """Layer normalization's dX from the sums of LayerSums.

    dX = inv_std (dY scale - total / M - ((X - mean) inv_std + rest) dot / M), with M columns; rest may be absent, and
    so may what is added to that.
    """

    name = "LayerNormalizeGrad"
    layout: ClassVar[dict[str, str]] = {
        **{"dy": "rc", "x": "rc", "scale": "c", "mean": "r", "inv_std": "r", "total": "r", "dot": "r"},
        **{"rest": "r", ADDED: "rc"},
        **{"dx": "rc"},
    }
    kernel = layer_kernel("layer_norm_grad_f32", layout, ("dx",), "count", GATED)
    fusion = replace(GatedByX.fusion, epilogue_bias=adds(layout))
    numerics = Numerics(centre=Centre(mean=3, inv_std=4, rest=GRAD_REST))

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """inv_std (dY scale - total / M - ((X - mean) inv_std + rest) dot / M)."""
        dy, x, scale, mean, inv_std, total, dot, rest = operands
        count = x.dtype.type(x.shape[1])
        return (inv_std * (dy * scale - (total + rest * dot) / count - (x - mean) * (inv_std * dot / count)),)


BIAS = 1
"""The output that is the gradient of the bias, where the node has it."""


def bias_sum(node: Node) -> str:
    """The output that is the sum of dY, the bias's gradient; empty without one."""
    return node.outputs[BIAS] if len(node.outputs) > BIAS else ""


def _layer_scale_grad_joint(
    node: Node, near: Sequence[Node], types: Mapping[str, TensorType], model: KernelModel
) -> tuple[Node, Sequence[Node]] | None:
    """The node with the sum of its dY over the rows as its second output, where a node makes that."""
    shape = types[node.inputs[0]].shape
    rows = tuple(range(first_axis(node, shape)))
    for total in near:
        if total.op != ReduceSum.name or total.inputs != node.inputs[:1] or bias_sum(node):
            continue
        axes = tuple(sorted(axis % len(shape) for axis in total.attr_ints("axes", ())))
        if axes == rows and not total.attr_int("keepdims", 1):
            return replace(node, outputs=(node.outputs[0], total.outputs[0], *node.outputs[2:])), [total]
    return None


@register
class LayerScaleGrad(SplitOperator, Layerwise):
    """Per column the sum of dY times normal X, the gradient of layer normalization's scale.

    dY, X, mean, inv_std[, rest] to dscale; the sum of dY, which is dbias, may be a second output.
    """

    name = "LayerScaleGrad"
    layout: ClassVar[dict[str, str]] = {
        **{"dy": "rc", "x": "rc", "mean": "r", "inv_std": "r", "rest": "r", "dscale": "c", "dbias": "c"},
    }
    kernel = layer_kernel("layer_scale_grad_f32", layout, ("dscale", "dbias"), sums=True)
    numerics = Numerics(centre=Centre(mean=2, inv_std=3, rest=4))
    execution = Execution(sums=Sums(("r",), together=2, results=2), optional_outputs={"dbias": BIAS})
    fusion = Fusion(multi_output_of=name, joint=_layer_scale_grad_joint)

    def result_shapes(self, node: Node, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """A number per column, or two."""
        return super().result_shapes(node, shape)[: max(len(node.outputs), 1)]

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """The sums of dY ((X - mean) inv_std + rest) and of dY over the rows."""
        dy, x, mean, inv_std, rest = operands
        return (dy * ((x - mean) * inv_std + rest)).sum(0, dtype=x.dtype), dy.sum(0, dtype=x.dtype)


@register
class LayerSums(Layerwise):
    """Per row the sums of dY scale and of dY scale times normal X, which layer normalization's dX needs.

    dY, X, scale, mean, inv_std[, rest] to two numbers per row.
    """

    name = "LayerSums"
    layout: ClassVar[dict[str, str]] = {
        **{"dy": "rc", "x": "rc", "scale": "c", "mean": "r", "inv_std": "r", "rest": "r"},
        **{"total": "r", "dot": "r"},
    }
    kernel = layer_kernel("layer_sums_f32", layout, ("total", "dot"), sums=True)
    execution = Execution(sums=Sums(("c",), together=2))
    numerics = Numerics(centre=Centre(mean=3, inv_std=4, rest=5))

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """Per row the sums of dY scale and of dY scale ((X - mean) inv_std + rest)."""
        dy, x, scale, mean, inv_std, rest = operands
        scaled = dy * scale
        dot = (scaled * (x - mean)).sum(1, keepdims=True, dtype=x.dtype) * inv_std
        total = scaled.sum(1, keepdims=True, dtype=x.dtype)
        return total, dot + rest * total


SCALARS = ("inverse_count", "block")
"""One over the columns of a row, and the elements of a block of its sums, 0 where they are one block."""


class WholeRows(Layerwise):
    """A step whose rows are whole in every tile; `walks` is how many operations an element takes."""

    walks: ClassVar[int]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dim r; columns are whole."""
        shape = types[node.inputs[0]].shape
        axis = first_axis(node, shape)
        sizes = {"r": math.prod(shape[:axis]), "c": math.prod(shape[axis:])}
        axes: dict[str, Axis] = {"r": At("r"), "c": Whole()}
        listed, inputs, outputs = [], list(node.inputs), list(node.outputs)
        for arg, _, is_output in self.kernel.pointers:
            names = outputs if is_output else inputs
            tensor, kind = names.pop(0) if names else "", self.layout[arg]
            if tensor:
                view = tuple(sizes[d] for d in kind)
                listed.append(Operand(arg, tensor, "out" if is_output else "in", view, tuple(axes[d] for d in kind)))
        return Access((Dim("r", sizes["r"]),), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Rows of the tile, columns, row strides, and what sums need."""
        columns = access.operand("x").view[1]
        values: dict[str, ArgValue] = {"r": Extent("r"), "c": Const(columns)}
        values |= {f"{o.arg}_r": Stride(o.arg, 0) for o in access.operands if self.layout[o.arg] == "rc"}
        values["inverse_count"] = Const(float(np.float32(1) / np.float32(columns)))
        return {**values, "block": Const(BLOCK if columns > SHORT else 0), **self.more_args(node, access)}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """`walks` operations per element, and a row's own."""
        rows, columns = tile["r"], access.operand("x").view[1]
        return Work(macs=rows * columns * self.walks, elements=rows, parallel=rows)


def may_be_whole(node: Node, shape: tuple[int, ...], model: KernelModel) -> bool:
    """Whether rows are short enough for a tile, and as many as cores: one core works on each."""
    axis = first_axis(node, shape)
    return math.prod(shape[axis:]) <= LONGEST_ROW and math.prod(shape[:axis]) >= model.cores_assumed


def _layer_input_grad_joint(
    node: Node, near: Sequence[Node], types: Mapping[str, TensorType], model: KernelModel
) -> tuple[Node, Sequence[Node]] | None:
    """Both, where the sums are of the same operands and belong to whole rows."""
    rest = GRAD_REST
    sums = node.inputs[rest - 2 : rest]
    operands = (*node.inputs[: rest - 2], *node.inputs[rest:])
    summed = operands[: adds(LayerInputGrad.layout).position]
    for other in near:
        same = tuple(filter(None, other.inputs)) == tuple(filter(None, summed))
        if other.op == LayerSums.name and same and other.outputs[:2] == sums:
            whole = may_be_whole(node, types[node.inputs[0]].shape, model)
            return (
                (Node(node.name, LayerInputGrad.name, operands, node.outputs, node.attrs), [other]) if whole else None
            )
    return None


@register
class LayerInputGrad(GatedByX, WholeRows):
    """Layer normalization's dX by rows, which LayerSums and LayerNormalizeGrad compute in two walks.

    dY, X, scale, mean, inv_std[, rest, what is added] to dX.
    """

    name = "LayerInputGrad"
    layout: ClassVar[dict[str, str]] = {
        **{"dy": "rc", "x": "rc", "scale": "c", "mean": "r", "inv_std": "r", "rest": "r", ADDED: "rc"},
        **{"dx": "rc"},
    }
    kernel = layer_kernel("layer_input_grad_f32", layout, ("dx",), *SCALARS, GATED)
    numerics = Numerics(centre=Centre(mean=3, inv_std=4, rest=5))
    fusion = replace(
        GatedByX.fusion,
        epilogue_bias=adds(layout),
        multi_output_of=LayerNormalizeGrad.name,
        joint=_layer_input_grad_joint,
    )
    walks = 2

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """The formulas of both."""
        total, dot = (x.reshape(-1, 1) for x in LayerSums().formula(node, *operands))
        *given, rest = operands
        return LayerNormalizeGrad().formula(node, *given, total, dot, rest)


def _layer_normalize_rows_joint(
    node: Node, near: Sequence[Node], types: Mapping[str, TensorType], model: KernelModel
) -> tuple[Node, Sequence[Node]] | None:
    """Both, where the moments are those of the rows of X, which a view of it has as channels."""
    x, mean, inv_std, scale, bias, rest = (*node.inputs, "", "")[: REST + 1]
    statistics, affine = (mean, inv_std, rest), (scale, bias) if bias else (scale,)
    for other in near:
        if other.op != ChannelMoments.name or other.outputs[: len(statistics)] != statistics:
            continue
        if not may_be_whole(node, types[x].shape, model):
            return None
        attrs = {**node.attrs, "epsilon": _epsilon(other)}
        outputs = (node.outputs[0], *statistics)
        return Node(node.name, LayerNormalizeRows.name, (x, *affine), outputs, attrs), [other]
    return None


@register
class LayerNormalizeRows(WholeRows):
    """Layer normalization by rows, which ChannelMoments and LayerNormalize compute in two walks.

    X, scale[, bias] to Y, mean, inv_std and rest; the last three may be absent.
    """

    name = "LayerNormalizeRows"
    layout: ClassVar[dict[str, str]] = {
        **{"x": "rc", "scale": "c", "bias": "c"},
        **{"y": "rc", "mean": "r", "inv_std": "r", "rest": "r"},
    }
    kernel = layer_kernel(
        "layer_rows_f32", layout, ("y", "mean", "inv_std", "rest"), *SCALARS, "epsilon", RELU_SCALAR[0]
    )
    execution = Execution(optional_outputs={"mean": 1, "inv_std": 2, "rest": 3})
    fusion = Fusion(multi_output_of=LayerNormalize.name, joint=_layer_normalize_rows_joint)
    walks = 3

    def result_shapes(self, node: Node, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """The shape of X, and three times a number for each row, as the moments of channels are."""
        rows = (math.prod(shape[: first_axis(node, shape)]),)
        return (shape, rows, rows, rows)[: len(node.outputs)]

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The formula, then Relu where it is fused."""
        y, *statistics = super().reference(node, inputs)
        return finished(node, y), *statistics

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """Compute ChannelMoments, then LayerNormalize."""
        x, *affine = operands
        moments = Node(node.name, ChannelMoments.name, (), (), {"epsilon": _epsilon(node)})
        statistics = ChannelMoments().reference(moments, (x[np.newaxis],))
        mean, inv_std, rest = (v[:, np.newaxis] for v in statistics)
        (y,) = LayerNormalize().formula(node, x, mean, inv_std, *affine, rest)
        return y, *statistics

    def more_args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Epsilon, and whether Relu follows."""
        return {"epsilon": Const(_epsilon(node)), **relu_args(node)}


def _epsilon(node: Node) -> float:
    return node.attr_float("epsilon", EPSILON)
