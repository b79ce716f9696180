"""Functions of PyTorch that stay one operator while a step is traced, since kernels and gradients of their own exist.

Everything else is traced as the operators of ATen that PyTorch makes of it. The check against eager PyTorch runs
without this mode, so that a mistake here is seen there.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from deployer.core.errors import UnsupportedOperator
from deployer.torch.tracing.attention import attended, attending_inside, attention
from deployer.torch.tracing.complex_numbers import Complex, computed, is_complex
from deployer.torch.tracing.draws import LIBRARY, Draws
from deployer.torch.tracing.known_values import KnownValues
from deployer.torch.tracing.norms import Norms
from deployer.torch.tracing.pointwise import WrittenFunctions
from deployer.torch.tracing.written_attention import WrittenAttention

REPLACED: dict[str, Callable[..., Any]] = {}
"""Replacements of functions, by name: (draws, *arguments) -> the result, or NotImplemented."""


MODULES = (None, "torch.nn.functional", "torch", "torch._C._nn")
"""Modules of PyTorch whose functions are replaced."""


def _replaces(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        REPLACED.update(dict.fromkeys(names, function))
        return function

    return register


COMPLEX: dict[str, Callable[..., Complex]] = {
    "view_as_complex": lambda input: Complex(input[..., 0], input[..., 1]),
    "polar": lambda abs, angle: Complex(abs * torch.cos(angle), abs * torch.sin(angle)),
    "complex": Complex,
}
"""Functions that make complex numbers of real ones, with PyTorch's names of their arguments."""


_replaces("scaled_dot_product_attention")(attended)


class Composites(TorchFunctionMode):
    """Replaces the functions of REPLACED."""

    def __init__(self, draws: Draws) -> None:
        super().__init__()
        self.draws = draws
        self.norms = Norms(lambda x, scale, epsilon: rms_norm(x, scale, epsilon)[0])
        self.pointwise = WrittenFunctions()
        self.values = KnownValues()
        self.attention = WrittenAttention(lambda *operands: attention(*operands)[0], self.values)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The function itself, or what stands for it."""
        name = getattr(func, "__name__", "")
        if name in COMPLEX:
            return COMPLEX[name](*args, **(kwargs or {}))
        if is_complex(name, args):
            return computed(name, args, kwargs or {})
        if not kwargs and (norm := self.norms.replaced(name, args)) is not NotImplemented:
            return norm
        if (attends := self.attention.replaced(name, args, kwargs or {})) is not NotImplemented:
            return attends
        if name == "scaled_dot_product_attention":
            args, kwargs = self.attention.ungrouped(args, kwargs or {})
        stands = REPLACED.get(name)
        if stands is not None and getattr(func, "__module__", "") in MODULES:
            result = stands(self.draws, *args, **(kwargs or {}))
            if result is not NotImplemented:
                return result
        inside = attending_inside(self.draws) if name == "multi_head_attention_forward" else nullcontext()
        before = self.attention.scores_of(args)
        with inside, self.values.seeing(func, args, kwargs or {}) as results:
            result = func(*args, **(kwargs or {}))
            results.append(result)
        self.attention.see(name, args, kwargs or {}, before, result)
        self.norms.see(name, args, kwargs or {}, result)
        return self.pointwise.see(name, args, kwargs or {}, result)


@torch.library.custom_op(f"{LIBRARY}::cross_entropy", mutates_args=())
def cross_entropy(
    scores: Tensor, labels: Tensor, weight: Tensor | None, ignore_index: int, smoothing: float, reduction: str
) -> tuple[Tensor, Tensor]:
    """The loss of scores [N, C, ...] with labels [N, ...], and the logarithms of the softmax."""
    raise NotImplementedError("it is traced, and computed by the program alone")


@cross_entropy.register_fake
def _(
    scores: Tensor, labels: Tensor, weight: Tensor | None, ignore_index: int, smoothing: float, reduction: str
) -> tuple[Tensor, Tensor]:
    return scores.new_empty(labels.shape if reduction == "none" else ()), torch.empty_like(scores)


@torch.library.custom_op(f"{LIBRARY}::cross_entropy_backward", mutates_args=())
def cross_entropy_backward(
    grad: Tensor,
    scores: Tensor,
    labels: Tensor,
    log_prob: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    smoothing: float,
    reduction: str,
) -> Tensor:
    """The gradient of the scores."""
    raise NotImplementedError("it is traced, and computed by the program alone")


@cross_entropy_backward.register_fake
def _(grad: Tensor, scores: Tensor, *options: Any) -> Tensor:
    return torch.empty_like(scores)


def _cross_entropy_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    scores, labels, weight, *ctx.options = inputs
    ctx.save_for_backward(scores, labels, output[1], weight)


def _cross_entropy_grad(ctx: Any, grad: Tensor, unread: Tensor) -> tuple[Any, ...]:
    scores, labels, log_prob, weight = ctx.saved_tensors
    return cross_entropy_backward(grad, scores, labels, log_prob, weight, *ctx.options), *[None] * 5


cross_entropy.register_autograd(_cross_entropy_grad, setup_context=_cross_entropy_setup)


@_replaces("cross_entropy")
def _cross_entropy_of(
    draws: Draws,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """For labels in a batch; other targets are shares of classes, or one sample, and are traced."""
    labelled = not target.is_floating_point() and input.dim() > 1 and input.dtype == torch.float32
    trained = weight is not None and weight.requires_grad
    if not labelled or trained or size_average is not None or reduce is not None:
        return NotImplemented
    return cross_entropy(input, target, weight, ignore_index, float(label_smoothing), reduction)[0]


@torch.library.custom_op(f"{LIBRARY}::rms_norm", mutates_args=())
def rms_norm(x: Tensor, scale: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x over the root of the mean of its squares along the axes of scale, times scale; and one over each root."""
    raise NotImplementedError("it is traced, and computed by the program alone")


@rms_norm.register_fake
def _(x: Tensor, scale: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    row = (*x.shape[: x.dim() - scale.dim()], *[1] * scale.dim())
    return torch.empty_like(x, memory_format=torch.contiguous_format), x.new_empty(row)


@torch.library.custom_op(f"{LIBRARY}::rms_norm_backward", mutates_args=())
def rms_norm_backward(grad: Tensor, x: Tensor, scale: Tensor, inv_std: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The gradients of x and of scale."""
    raise NotImplementedError("it is traced, and computed by the program alone")


@rms_norm_backward.register_fake
def _(grad: Tensor, x: Tensor, scale: Tensor, inv_std: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x, memory_format=torch.contiguous_format), torch.empty_like(scale)


def _rms_norm_setup(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: tuple[Tensor, Tensor]) -> None:
    x, scale, ctx.eps = inputs
    ctx.save_for_backward(x, scale, output[1])


def _rms_norm_grad(ctx: Any, grad: Tensor, unread: Tensor) -> tuple[Any, ...]:
    return *rms_norm_backward(grad, *ctx.saved_tensors, ctx.eps), None


rms_norm.register_autograd(_rms_norm_grad, setup_context=_rms_norm_setup)


@_replaces("rms_norm")
def _rms_norm_of(
    draws: Draws, input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Any:
    """Of floats; shapes that do not fit are traced, so that PyTorch says so."""
    shape = tuple(normalized_shape)
    if input.dtype != torch.float32 or not shape or input.shape[-len(shape) :] != shape:
        return NotImplemented
    if weight is not None and (weight.dtype != torch.float32 or weight.shape != shape):
        return NotImplemented
    scale = input.new_ones(shape) if weight is None else weight
    return rms_norm(input, scale, torch.finfo(input.dtype).eps if eps is None else float(eps))[0]


@torch.library.custom_op(f"{LIBRARY}::dropout", mutates_args=())
def dropout(x: Tensor, share: float, stream: int) -> Tensor:
    """x without a share of its elements, the others scaled; the gradient is the same of what arrives."""
    raise NotImplementedError("it is traced, and computed by the program alone")


@dropout.register_fake
def _(x: Tensor, share: float, stream: int) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _dropout_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.options = inputs[1:]


def _dropout_grad(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    return dropout(grad, *ctx.options), None, None


dropout.register_autograd(_dropout_grad, setup_context=_dropout_setup)


@_replaces("dropout", "dropout_")
def _dropout_of(
    draws: Draws, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, train: bool = True
) -> Any:
    """The input where nothing is dropped, and dropout that drops some elements and keeps others; all else is traced."""
    if 0 <= p <= 1 and (p == 0 or not (training and train and draws.drops)):
        return input
    if inplace or not 0 < p < 1 or input.dtype != torch.float32:
        return NotImplemented
    return dropout(input, float(p), draws.next_stream())


@_replaces("gaussian_nll_loss")
def _gaussian_nll_loss(
    draws: Draws,
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """The same without a look at whether a variance is negative, on which no program can branch."""
    if isinstance(var, float):
        return NotImplemented
    if var.shape != input.shape and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    bounded = var + (var.clamp(min=eps) - var).detach()  # the gradient passes below the bound, too
    loss = 0.5 * (torch.log(bounded) + (input - target) ** 2 / bounded)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


@_replaces("_weight_norm")
def _weight_norm(draws: Draws, v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """In operators that have gradients of their own."""
    return v * (g / torch.norm_except_dim(v, 2, dim))


@_replaces("embedding")
def _embedding(
    draws: Draws,
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """A sparse gradient as a dense one, which has the same elements."""
    if not sparse or max_norm is not None:
        return NotImplemented
    return torch.nn.functional.embedding(input, weight, padding_idx, scale_grad_by_freq=scale_grad_by_freq)


@torch.library.custom_op(f"{LIBRARY}::recurrent", mutates_args=())
def recurrent(kind: str, x: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor], reverse: bool) -> list[Tensor]:
    """One direction of one layer over x [time, batch, features]: its outputs, and its last states [1, batch, units].

    `weights` are those of the input, of the state, and biases of both if there are any.
    """
    raise NotImplementedError("it is traced, and computed by the program alone")


@recurrent.register_fake
def _(kind: str, x: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor], reverse: bool) -> list[Tensor]:
    units = weights[1].shape[1]
    return [x.new_empty((*x.shape[:2], units)), *(x.new_empty((1, x.shape[1], units)) for _ in states)]


@torch.library.custom_op(f"{LIBRARY}::recurrent_backward", mutates_args=())
def recurrent_backward(
    grads: Sequence[Tensor],
    kind: str,
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    outputs: Sequence[Tensor],
) -> list[Tensor]:
    """The gradients of x, of the states, and of the weights."""
    raise NotImplementedError("it is traced, and computed by the program alone")


@recurrent_backward.register_fake
def _(
    grads: Sequence[Tensor],
    kind: str,
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    outputs: Sequence[Tensor],
) -> list[Tensor]:
    return [torch.empty_like(t, memory_format=torch.contiguous_format) for t in (x, *states, *weights)]


def _recurrent_setup(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    kind, x, states, weights, _ = inputs
    ctx.kind, ctx.counts = kind, (len(states), len(weights), len(output))
    ctx.save_for_backward(x, *states, *weights, *output)


def _recurrent_grad(ctx: Any, grads: Sequence[Tensor | None]) -> tuple[Any, ...]:
    x, *rest = ctx.saved_tensors
    states, weights, _ = ctx.counts
    outputs = rest[states + weights :]
    arriving = [torch.zeros_like(y) if g is None else g for g, y in zip(grads, outputs, strict=True)]
    found = recurrent_backward(arriving, ctx.kind, x, rest[:states], rest[states : states + weights], outputs)
    return None, found[0], found[1 : 1 + states], found[1 + states :], None


recurrent.register_autograd(_recurrent_grad, setup_context=_recurrent_setup)


def _layers(
    draws: Draws,
    kind: str,
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    has_bias: bool,
    count: int,
    dropout_p: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """All layers and directions; the outputs of the last, and the last state of each."""
    directions, each = 2 if bidirectional else 1, 4 if has_bias else 2
    if len(weights) != count * directions * each:
        hint = "proj_size=0, and a Linear behind the layer"
        raise UnsupportedOperator(f"aten.{kind}: projected states (proj_size) are not supported", hint=hint)
    unbatched = x.dim() == 2
    x, states = (x.unsqueeze(1), [s.unsqueeze(1) for s in states]) if unbatched else (x, list(states))
    x = x.transpose(0, 1) if batch_first and not unbatched else x
    last: list[list[Tensor]] = [[] for _ in states]
    for layer in range(count):
        x = torch.dropout(x, dropout_p, train) if layer else x
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            own = [s[place : place + 1] for s in states]
            y, *ends = recurrent(kind, x, own, list(weights[place * each : (place + 1) * each]), bool(direction))
            outputs.append(y)
            for kept, end in zip(last, ends, strict=True):
                kept.append(end)
        x = torch.cat(outputs, 2) if directions > 1 else outputs[0]
    ends = [torch.cat(kept, 0) for kept in last]
    if unbatched:
        return x.squeeze(1), *(end.squeeze(1) for end in ends)
    return x.transpose(0, 1) if batch_first else x, *ends


def _refuse_packed(kind: str, options: Sequence[Any]) -> None:
    """Refuse packed sequences, whose second argument is a tensor of batch sizes and whose third has the states."""
    if not isinstance(options[0], bool):
        hint = "padded sequences, whose padding the loss leaves out"
        raise UnsupportedOperator(f"aten.{kind}: its input is a packed sequence", hint=hint)


@_replaces("lstm")
def _lstm(draws: Draws, x: Tensor, states: Any, weights: Any, *options: Any) -> Any:
    _refuse_packed("lstm", options)
    return _layers(draws, "lstm", x, states, weights, *options)


def _of_one_state(kind: str) -> None:
    @_replaces(kind)
    def layer(draws: Draws, x: Tensor, state: Any, weights: Any, *options: Any) -> Any:
        _refuse_packed(kind, options)
        return _layers(draws, kind, x, [state], weights, *options)


for _kind in ("gru", "rnn_tanh", "rnn_relu"):
    _of_one_state(_kind)
