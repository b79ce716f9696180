"""Attention, which stays one operator while a step is traced, also where PyTorch's own layer calls it."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from deployer.torch.tracing.draws import LIBRARY, Draws


@torch.library.custom_op(f"{LIBRARY}::attention", mutates_args=())
def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, is_causal: bool
) -> tuple[Tensor, Tensor]:
    """softmax(scale Q K^T + mask) V over the last two axes, in the memory order of Q, and the softmax."""
    raise NotImplementedError("it is traced, and computed by the program alone")


@attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, is_causal: bool) -> tuple[Tensor, Tensor]:
    y = (
        torch.empty_like(q)
        if q.dim() == 4 and v.shape[-1] == q.shape[-1]
        else q.new_empty((*q.shape[:-1], v.shape[-1]))
    )
    return y, q.new_empty((*q.shape[:-1], k.shape[-2]))


@torch.library.custom_op(f"{LIBRARY}::attention_backward", mutates_args=())
def attention_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    shares: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    wanted: Sequence[int],
) -> list[Tensor]:
    """The gradients of those of Q, K and V whose positions are wanted."""
    raise NotImplementedError("it is traced, and computed by the program alone")


@attention_backward.register_fake
def _(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *options: Any) -> list[Tensor]:
    return [torch.empty_like((q, k, v)[i], memory_format=torch.contiguous_format) for i in options[-1]]


def _attention_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, mask, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, output[1], mask)


def _attention_grad(ctx: Any, grad: Tensor, unread: Tensor) -> tuple[Any, ...]:
    wanted = [i for i in range(3) if ctx.needs_input_grad[i]]
    found = attention_backward(grad, *ctx.saved_tensors, *ctx.options, wanted) if wanted else []
    given = dict(zip(wanted, found, strict=True))
    return *(given.get(i) for i in range(3)), *[None] * 3


attention.register_autograd(_attention_grad, setup_context=_attention_setup)


def attended(
    draws: Draws,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """For heads that share batches, without dropout, with a mask that is not trained; all else is traced."""
    operands, lead = (query, key, value), query.shape[:-3]
    if (dropout_p and draws.drops) or any(x.dtype != torch.float32 or x.dim() != query.dim() for x in operands):
        return NotImplemented
    if query.dim() < 2 or key.shape[:-1] != value.shape[:-1] or query.shape[-1] != key.shape[-1]:
        return NotImplemented
    heads = (query.shape[-3], key.shape[-3]) if query.dim() > 2 else (1, 1)
    shared = enable_gqa and query.dim() > 3 and heads[1] > 0 and heads[0] % heads[1] == 0
    if key.shape[:-3] != lead or (heads[0] != heads[1] and not shared) or not all(x.numel() for x in operands):
        return NotImplemented
    if attn_mask is not None:
        added = attn_mask.dtype in (torch.bool, torch.float32)
        if not added or attn_mask.requires_grad or attn_mask.dim() > query.dim():
            return NotImplemented
        if attn_mask.dtype == torch.bool:
            attn_mask = torch.where(attn_mask, 0.0, -math.inf)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    return attention(query, key, value, attn_mask, factor, is_causal)[0]


@contextmanager
def attending_inside(draws: Draws) -> Iterator[None]:
    """Replace attention where a function of PyTorch calls it: no mode sees what is called inside of one."""
    plain = functional.scaled_dot_product_attention

    def attends(*args: Any, **kwargs: Any) -> Any:
        result = attended(draws, *args, **kwargs)
        return plain(*args, **kwargs) if result is NotImplemented else result

    functional.scaled_dot_product_attention = attends
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = plain
