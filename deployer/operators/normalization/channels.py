"""The steps of batch normalization over X[N, C, ...] with one number per channel, and the rules of the layer."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.errors import NotDifferentiable
from deployer.core.ir import BIAS, GAIN, STATISTIC, AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, First, Kernel, Last, Start, Stride
from deployer.core.operator import Array, GradientBuilder, Operator, execution_of, mismatch, numerics_of, register
from deployer.core.signatures import Signature
from deployer.core.traits.execution import Execution, Sums
from deployer.core.traits.file import FileSpec
from deployer.core.traits.fusion import Fusion
from deployer.core.traits.numerics import Centre, Numerics
from deployer.core.traits.training import Tracked, Training
from deployer.operators.base.epilogue import (
    GATE,
    GATED,
    RELU_SCALAR,
    finished,
    own_args,
    own_gate,
    relu_args,
)
from deployer.operators.base.operands import arrays, operands
from deployer.operators.base.sums import (
    CARRY,
    CARRY_SCALARS,
    carry_args,
    carry_operands,
    operand_pointers,
    result_count,
)
from deployer.operators.base.work_split import SplitOperator

EPSILON, MOMENTUM = 1e-5, 0.9


class Channelwise(Operator):
    """A step whose first `wide` inputs are of X's shape and whose others hold one element per channel.

    One with `sums` gives one element per channel in each output, summed over images and within each over the spatial
    axes; others give X's shape.
    """

    kernel: ClassVar[Kernel]
    no_gradient = "it is a step of another operator, whose gradient includes it"
    wide = 1

    def input_count(self) -> int:
        """Number of inputs of the kernel."""
        return sum(not is_output for _, _, is_output in self.kernel.pointers)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X, or one element per channel and output."""
        outputs = result_count(self.kernel)
        centre = numerics_of(node).centre
        needed = self.input_count() - (centre is not None and not centre.makes)
        types = [*operands(node, inputs, needed), *(kind for kind in inputs[needed:] if kind)]
        channels = channel_type(node, types, self.wide)
        return (channels if execution_of(self).sums else types[0],) * outputs

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims n, c and s (all spatial axes in one)."""
        shape = types[node.inputs[0]].shape
        view = (shape[0], shape[1], math.prod(shape[2:]))
        listed, sums = [], execution_of(self).sums
        absent = [""] * (self.input_count() - len(node.inputs))
        tensors = (*node.inputs, *absent, *node.outputs[: result_count(self.kernel)])
        for i, ((arg, _, is_output), tensor) in enumerate(zip(operand_pointers(self.kernel), tensors, strict=True)):
            if not tensor:
                continue
            full = not sums if is_output else i < self.wide
            axes = tuple(At(dim) for dim in ("ncs" if full else "c"))
            listed.append(Operand(arg, tensor, "out" if is_output else "in", view if full else view[1:2], axes))
        size = dict(zip("ncs", view, strict=True))
        if sums is None:
            return Access(tuple(Dim(name, size[name]) for name in "ncs"), tuple(listed))
        listed += carry_operands(node, self.kernel, sums, listed[-1])
        summed = (Dim(name, size[name], "reduction") for name in "ns")
        return Access((Dim("c", size["c"]), *summed), tuple(listed))

    def constants(self, node: Node) -> dict[str, ArgValue]:
        """Kernel arguments of this step alone, by name."""
        return {}

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, strides, and one over the number of elements of a channel."""
        values: dict[str, ArgValue] = {name: Extent(name) for name in "ncs"}
        for operand in access.operands:
            values |= {f"{operand.arg}_{name}": Stride(operand.arg, i) for i, name in enumerate("nc")}
        values |= {"first": First(), "last": Last()}
        values |= carry_args(execution_of(self).sums, access)
        # The kernel multiplies: a division here is none on the target, where it may be slow.
        count = np.float32(access.dim("n").size * access.dim("s").size)
        values |= {"inverse_count": Const(float(np.float32(1) / count)), **self.constants(node)}
        return {name: values[name] for name, _ in self.kernel.scalars}


def channel_kernel(
    symbol: str, inputs: Sequence[str], outputs: Sequence[str], wide: Sequence[str], *more: str, sums: bool = False
) -> Kernel:
    """The kernel of a channelwise step; `wide` are the pointers that need strides, `more` further scalars."""
    scalars: list[tuple[str, CType]] = [(name, "u32") for name in "ncs"]
    scalars += [(f"{arg}_{name}", "u32") for arg in wide for name in "nc"]
    scalars += [(name, "f32" if name in ("inverse_count", "epsilon") else "u32") for name in more]
    pointers = [(name, "float32", name in outputs) for name in (*inputs, *outputs)]
    if sums:
        scalars += [("first", "u32"), ("last", "u32"), *CARRY_SCALARS]
        pointers.append(CARRY)
    return Kernel(symbol, tuple(pointers), tuple(scalars))


def channel_type(node: Node, types: Sequence[TensorType], wide: int) -> TensorType:
    """The type [C] for X[N, C, ...]; ShapeMismatch unless the first `wide` inputs have X's type, the others [C]."""
    x = types[0]
    if len(x.shape) < 2:
        raise mismatch(node, f"{x} has no channel axis", types)
    channels = TensorType(x.dtype, x.shape[1:2])
    if x.dtype != "float32" or any(t != x for t in types[1:wide]) or any(t != channels for t in types[wide:]):
        raise mismatch(node, f"inputs are not {wide} of one float32 shape, then {channels} each", types)
    return channels


def per_channel(values: Array, rank: int) -> Array:
    """One element per channel, in a shape that broadcasts with X."""
    return values.reshape((-1,) + (1,) * (rank - 2))


def rest_of(values: Sequence[Array], rank: int) -> Array | int:
    """The rest of a mean in a shape that broadcasts with X, or zero where there is none."""
    return per_channel(values[0], rank) if values else 0


def sum_axes(rank: int) -> tuple[int, ...]:
    """All axes of X but the channels."""
    return (0, *range(2, rank))


def uses_batch(node: Node) -> bool:
    """Whether a batch normalization uses the mean and the variance of its batch."""
    return node.op == "BatchNormInternal" or bool(node.attr_int("training_mode", 0))


def _with_statistics(node: Node, fresh: Callable[[str], str]) -> Node:
    """BatchNormInternal with the batch's statistics as outputs, where those are used."""
    if not uses_batch(node):
        return node
    outputs = [*node.outputs, *[""] * (5 - len(node.outputs))]
    for i, label in ((3, "saved_mean"), (4, "saved_inv_std")):
        outputs[i] = outputs[i] or fresh(f"{node.name}_{label}")
    return replace(node, op="BatchNormInternal", outputs=tuple(outputs))


def _evaluated(node: Node, renewed: Collection[str] = ()) -> tuple[Node, dict[str, str]]:
    """With the running statistics, where it or another node renews them; with those of the batch otherwise."""
    own, statistics = node.outputs[1:3], node.inputs[3:5]
    if not uses_batch(node) or not ((own and all(own)) or set(statistics) <= set(renewed)):
        return node, {}
    attrs = {name: value for name, value in node.attrs.items() if name == "epsilon"}
    given = replace(node, op="BatchNormalization", outputs=node.outputs[:1], attrs=attrs)
    return given, {output: source for output, source in zip(own, statistics, strict=False) if output}


def _is_in_use(node: Node) -> bool:
    """Whether the node normalizes by the statistics that it is given."""
    return not uses_batch(node)


def _tracked(node: Node, types: Mapping[str, TensorType]) -> Tracked | None:
    """RunningStatistics of the batch, where the node names what becomes of the running ones."""
    mean, inv_std = (*node.outputs, *[""] * 5)[3:5]
    if not uses_batch(node) or not all((*node.outputs[1:3], mean, inv_std)):
        return None
    shape = types[node.inputs[0]].shape
    attrs: dict[str, AttrValue] = {
        **{"momentum": node.attr_float("momentum", MOMENTUM), "epsilon": node.attr_float("epsilon", EPSILON)},
        "count": math.prod(shape) // shape[1],
    }
    update = Node(
        f"{node.name}/running", "RunningStatistics", (*node.inputs[3:5], mean, inv_std), node.outputs[1:3], attrs
    )
    return Tracked(replace(node, outputs=(node.outputs[0], "", "", mean, inv_std)), update)


def _renewing(node: Node, fresh: Callable[[str], str]) -> Tracked | None:
    """RunningStatistics of the batch with its biased variance, as ONNX Runtime's kernel writes them."""
    if not uses_batch(node):
        return None
    norm = _with_statistics(node, fresh)
    attrs: dict[str, AttrValue] = {
        **{"momentum": node.attr_float("momentum", MOMENTUM), "epsilon": node.attr_float("epsilon", EPSILON)},
        "biased": 1,
    }
    y, *running, mean, inv_std = norm.outputs
    outputs = tuple(name or fresh(f"{source}_updated") for name, source in zip(running, node.inputs[3:5], strict=True))
    update = Node(f"{node.name}/running", "RunningStatistics", (*node.inputs[3:5], mean, inv_std), outputs, attrs)
    return Tracked(replace(norm, outputs=(y, "", "", mean, inv_std)), update)


class BatchNorm(Operator):
    """Y = (X - mean) * inv_std * scale + B, by the mean and the variance of the batch or by given ones."""

    file: ClassVar[FileSpec] = FileSpec(flags=("training_mode",))
    training = Training(
        learned={1: GAIN, 2: BIAS, 3: STATISTIC, 4: STATISTIC},
        training_form=_with_statistics,
        evaluated=_evaluated,
        is_in_use=_is_in_use,
        tracked=_tracked,
        renewing=_renewing,
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Y, and in training form the running and the saved statistics."""
        types = operands(node, inputs, 5)
        channels = channel_type(node, types, 1)
        return (types[0], *[channels] * 4) if uses_batch(node) else (types[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Y, running_mean', running_var', mean, inv_std; Y alone in inference form."""
        x, scale, bias, mean, var = arrays(inputs, 5)
        momentum = x.dtype.type(node.attr_float("momentum", MOMENTUM))
        running = (mean, var)
        if uses_batch(node):
            mean = x.mean(sum_axes(x.ndim), dtype=x.dtype)
            var = np.square(x - per_channel(mean, x.ndim)).mean(sum_axes(x.ndim), dtype=x.dtype)
        inv_std = 1 / np.sqrt(var + x.dtype.type(node.attr_float("epsilon", EPSILON)))
        factor, centre, shift = (per_channel(v, x.ndim) for v in (inv_std * scale, mean, bias))
        y = (x - centre) * factor + shift
        if not uses_batch(node):
            return (y.astype(x.dtype),)
        updated = [old * momentum + new * (1 - momentum) for old, new in zip(running, (mean, var), strict=True)]
        return tuple(v.astype(x.dtype) for v in (y, *updated, mean, inv_std))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The statistics per channel, then Y, then each running statistic that the node has as an output."""
        x, scale, bias, mean, var = node.inputs
        epsilon: dict[str, AttrValue] = {"epsilon": node.attr_float("epsilon", EPSILON)}
        momentum = {"momentum": node.attr_float("momentum", MOMENTUM)}
        y, new_mean, new_var, saved_mean, saved_inv = (*node.outputs, *[""] * (5 - len(node.outputs)))
        inv_std = saved_inv or f"{node.name}/inv_std"
        name = node.name
        if not uses_batch(node):
            return [
                Node(f"{name}/inv_std", "InvStd", (var,), (inv_std,), epsilon),
                Node(name, "ChannelNormalize", (x, scale, bias, mean, inv_std), (y,)),
            ]
        centre = saved_mean or f"{name}/mean"
        nodes = [Node(f"{name}/moments", "ChannelMoments", (x,), (centre, inv_std), epsilon)]
        if y:
            nodes.append(Node(name, "ChannelNormalize", (x, scale, bias, centre, inv_std), (y,)))
        if new_mean:
            nodes.append(Node(f"{name}/running_mean", "RunningUpdate", (mean, centre), (new_mean,), dict(momentum)))
        if new_var:
            biased = f"{name}/var"
            nodes.append(Node(biased, "ChannelVariance", (x, centre), (biased,)))
            nodes.append(Node(f"{name}/running_var", "RunningUpdate", (var, biased), (new_var,), dict(momentum)))
        return nodes

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """BatchNormalizationGrad with the saved statistics; in inference form these are constants."""
        targets = tuple(b.grad(i) if b.needs_grad(i) else "" for i in range(3))
        if not any(targets):  # running statistics follow the data, and nobody trains them
            return
        if any(douts[1:]) or not douts[0]:
            raise NotDifferentiable(f"node {node.name!r} ({node.op}): only Y has a gradient, in X, scale and B")
        x, scale = node.inputs[:2]
        epsilon = node.attr_float("epsilon", EPSILON)
        if not uses_batch(node):
            self._frozen(node, douts[0], targets, b)
            return
        mean, inv_std = (*node.outputs, *[""] * 5)[3:5]
        if not (mean and inv_std):
            mean, inv_std = b.temp("mean"), b.temp("inv_std")
            b.emit("ChannelMoments", (x,), (mean, inv_std), epsilon=epsilon)
        b.emit("BatchNormalizationGrad", (douts[0], x, scale, mean, inv_std), targets)

    @staticmethod
    def _frozen(node: Node, dy: str, targets: tuple[str, ...], b: GradientBuilder) -> None:
        """dX = dY scale inv_std, where mean and variance do not depend on X."""
        x, scale, _, mean, var = node.inputs
        inv_std = b.temp("inv_std")
        b.emit("InvStd", (var,), (inv_std,), epsilon=node.attr_float("epsilon", EPSILON))
        if targets[0]:
            zero = b.constant("zero", np.zeros(b.type(scale).shape, np.float32))
            b.emit("ChannelNormalize", (dy, scale, zero, zero, inv_std), targets[:1])
        if targets[1]:
            b.emit("ChannelGradSums", (dy, x, mean, inv_std), (targets[1], targets[2] or b.temp("dbias")))
        elif targets[2]:
            b.emit("ReduceSum", (dy,), targets[2:], axes=sum_axes(len(b.type(x).shape)), keepdims=0)


class ChannelStep(SplitOperator, Channelwise):
    """A channelwise step whose kernel runs along the elements of one image's channel."""


@register
class ChannelGradSums(ChannelStep):
    """The gradients of batch normalization's scale and bias.

    dY, X, mean, inv_std[, rest] to dscale[C], the sum of dY ((X - mean) inv_std + rest), and dbias[C], of dY.
    """

    name = "ChannelGradSums"
    file = FileSpec(custom=Signature((4, 5), (1, 2)))
    kernel = channel_kernel(
        "channel_grad_sums_f32",
        ("dy", "x", "mean", "inv_std", "rest"),
        ("dscale", "dbias"),
        ("dy", "x"),
        sums=True,
    )
    wide = 2
    execution = Execution(sums=Sums(("n", "s"), together=2))
    numerics = Numerics(centre=Centre(mean=2, inv_std=3, rest=4))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dscale and dbias."""
        dy, x, mean, inv_std, *rest = arrays(inputs, 5)
        axes = sum_axes(x.ndim)
        dot = (dy * (x - per_channel(mean, x.ndim))).sum(axes, dtype=x.dtype)
        total = np.asarray(dy.sum(axes, dtype=x.dtype))
        return (np.asarray(dot * inv_std + (rest[0] * total if rest else 0), x.dtype), total)


@register
class ChannelMoments(ChannelStep):
    """Mean, inverse standard deviation and rest of each channel; a step of batch normalization.

    X[N, C, ...] to mean[C], inv_std[C], one over the root of the biased variance plus `epsilon`, and rest[C].

    The rest is (mean - exact mean) inv_std, what the rounding of the mean lacks: (X - mean) inv_std + rest is normal.

    The variance needs the finished mean, so X is summed twice: `phase`, the outermost reduction, is 0 where a tile sums
    X less the channel's first element, which leaves of a large mean what the deviation is, and 1 where it sums
    (X - mean)^2. A tile of both phases has all of its channels and does one after the other.
    """

    name = "ChannelMoments"
    file = FileSpec(custom=Signature((1, 1), (1, 3), {"epsilon": "FLOAT"}))
    kernel = channel_kernel(
        "channel_moments_f32",
        ("x",),
        ("mean", "inv_std", "rest"),
        ("x",),
        *("phase", "image", "inverse_count", "epsilon"),
        sums=True,
    )
    execution = Execution(sums=Sums(("n", "s"), results=3))
    numerics = Numerics(centre=Centre(mean=0, inv_std=1, rest=2, makes=True))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The mean, 1 / sqrt(var + epsilon), and the rest."""
        x = arrays(inputs, 1)[0]
        mean = x.mean(sum_axes(x.ndim), dtype=x.dtype)
        centred = x - per_channel(mean, x.ndim)
        var, off = (v.mean(sum_axes(x.ndim), dtype=x.dtype) for v in (np.square(centred), centred))
        inv_std = 1 / np.sqrt(var + x.dtype.type(node.attr_float("epsilon", EPSILON)))
        return (np.asarray(mean), np.asarray(inv_std, x.dtype), np.asarray(-off * inv_std, x.dtype))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims c, phase, n and s; X does not depend on the phase."""
        plain = super().access(node, types)
        channels, *sums = plain.dims
        return replace(plain, dims=(channels, Dim("phase", 2, "reduction"), *sums))

    def constants(self, node: Node) -> dict[str, ArgValue]:
        """The tile's first phase and first image, and epsilon."""
        epsilon = Const(node.attr_float("epsilon", EPSILON))
        return {"phase": Start("phase"), "image": Start("n"), "epsilon": epsilon}


@register
class ChannelNormalize(ChannelStep):
    """Y = ((X - mean) * inv_std + rest) * scale + B per channel; a step of batch normalization.

    X[N, C, ...] with scale, B, mean, inv_std[, rest] of C elements each; `activation` says that Relu follows.
    """

    name = "ChannelNormalize"
    file = FileSpec(custom=Signature((5, 6), (1, 1)))
    kernel = channel_kernel(
        "channel_normalize_f32", ("x", "scale", "bias", "mean", "inv_std", "rest"), ("y",), ("x", "y"), RELU_SCALAR[0]
    )
    numerics = Numerics(centre=Centre(mean=3, inv_std=4, rest=5))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """(X - mean) * (inv_std * scale) + (rest * scale + B), then Relu where it is fused."""
        x, scale, bias, mean, inv_std, *rest = arrays(inputs, 6)
        centre, factor, shift = (per_channel(v, x.ndim) for v in (mean, inv_std * scale, bias))
        shift = shift + rest_of(rest, x.ndim) * per_channel(scale, x.ndim)
        return (finished(node, np.asarray((x - centre) * factor + shift)),)

    def constants(self, node: Node) -> dict[str, ArgValue]:
        """Whether Relu follows."""
        return relu_args(node)


@register
class ChannelNormalizeGrad(ChannelStep):
    """Batch normalization's dX, where mean and variance depend on X.

    dX = scale inv_std (dY - dbias / M - ((X - mean) inv_std + rest) dscale / M), with M elements per channel.

    Fusion sets the attribute `gated` where X is Y of a Relu whose gradient follows.
    """

    name = "ChannelNormalizeGrad"
    kernel = channel_kernel(
        "channel_norm_grad_f32",
        ("dy", "x", "scale", "mean", "inv_std", "dscale", "dbias", "rest"),
        ("dx",),
        ("dy", "x", "dx"),
        "inverse_count",
        GATED,
    )
    wide = 2
    numerics = Numerics(centre=Centre(mean=3, inv_std=4, rest=7))
    fusion = Fusion(reused={GATE: (1, GATED)})

    def constants(self, node: Node) -> dict[str, ArgValue]:
        """Whether the result is gated by X."""
        return own_args(node)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """scale inv_std (dY - dbias / M - ((X - mean) inv_std + rest) dscale / M)."""
        dy, x, scale, mean, inv_std, dscale, dbias, *rest = arrays(inputs, 8)
        count = x.dtype.type(x.size // x.shape[1])
        values = (mean, scale * inv_std, dbias / count, inv_std * dscale / count)
        centre, factor, shift, slope = (per_channel(v, x.ndim) for v in values)
        shift = shift + rest_of(rest, x.ndim) * per_channel(dscale, x.ndim) / count
        return (own_gate(node, np.asarray(factor * (dy - shift - (x - centre) * slope)), x),)
