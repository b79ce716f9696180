"""Decoders in PyTorch by their families' papers, with the parameter names of Hugging Face's Llama: needs torch."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, relu, scaled_dot_product_attention, silu

from deployer.lm.architecture import Architecture

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "swiglu": silu,
    "silu": silu,
    "geglu": gelu,
    "gelu": gelu,
    "geglu_tanh": lambda x: gelu(x, approximate="tanh"),
    "gelu_tanh": lambda x: gelu(x, approximate="tanh"),
    "relu": relu,
}


class RootMeanSquare(nn.Module):
    """An RMS norm whose scale has an offset."""

    def __init__(self, width: int, eps: float, offset: float) -> None:
        """Ones, or what with the offset is one."""
        super().__init__()
        self.weight, self.eps, self.offset = nn.Parameter(torch.ones(width) - offset), eps, offset

    def forward(self, x: Tensor) -> Tensor:
        """X over the root of the mean of its squares, scaled."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (self.weight + self.offset)


def norm(a: Architecture, width: int) -> nn.Module:
    """The norm of an architecture."""
    return nn.LayerNorm(width, a.norm_eps) if a.norm == "layer" else RootMeanSquare(width, a.norm_eps, a.norm_offset)


@cache
def angles(half: int, base: float, tokens: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines [tokens, half] of each position's turns."""
    speeds = 1.0 / base ** (torch.arange(half, dtype=torch.float64) / half)
    turns = torch.outer(torch.arange(tokens, dtype=torch.float64), speeds)
    return turns.cos().float(), turns.sin().float()


def turned(a: Architecture, x: Tensor) -> Tensor:
    """[batch, heads, tokens, width] as complex numbers times those of their positions."""
    half = a.head_dim // 2
    cos, sin = angles(half, a.rope_base, x.shape[2])
    if a.rope_form == "pairs":
        first, second = x[..., ::2], x[..., 1::2]
        return torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class SelfAttention(nn.Module):
    """Attention of grouped queries."""

    def __init__(self, a: Architecture) -> None:
        """The products, and norms of queries and keys."""
        super().__init__()
        self.a = a
        wide, narrow = a.heads * a.head_dim, a.kv_heads * a.head_dim
        self.q_proj = nn.Linear(a.dim, wide, a.attention_bias)
        self.k_proj = nn.Linear(a.dim, narrow, a.attention_bias)
        self.v_proj = nn.Linear(a.dim, narrow, a.attention_bias)
        self.o_proj = nn.Linear(wide, a.dim, a.output_bias)
        if a.qk_norm:
            self.q_norm = RootMeanSquare(a.head_dim, a.norm_eps, a.norm_offset)
            self.k_norm = RootMeanSquare(a.head_dim, a.norm_eps, a.norm_offset)

    def forward(self, x: Tensor) -> Tensor:
        """Scores in full, a mask, and a softmax."""
        a, (n, t, _) = self.a, x.shape
        q, k, v = (
            layer(x).view(n, t, heads, a.head_dim)
            for layer, heads in ((self.q_proj, a.heads), (self.k_proj, a.kv_heads), (self.v_proj, a.kv_heads))
        )
        if a.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        if a.positions == "rope":
            q, k = turned(a, q), turned(a, k)
        k, v = (x.repeat_interleave(a.heads // a.kv_heads, 1) for x in (k, v))
        behind = torch.arange(t)[:, None] - torch.arange(t)
        seen = (behind >= 0) & ((behind < a.window) if a.window else True)
        mask = torch.zeros(t, t).masked_fill(~seen, float("-inf"))
        y = scaled_dot_product_attention(q, k, v, mask if a.window else None, is_causal=not a.window)
        return self.o_proj(y.transpose(1, 2).reshape(n, t, -1))


class FeedForward(nn.Module):
    """Two products, or three with a gate."""

    def __init__(self, a: Architecture) -> None:
        """The products."""
        super().__init__()
        self.activation = ACTIVATIONS[a.activation]
        self.up_proj, self.down_proj = (nn.Linear(*ends, a.mlp_bias) for ends in ((a.dim, a.hidden), (a.hidden, a.dim)))
        self.gate_proj = nn.Linear(a.dim, a.hidden, a.mlp_bias) if "glu" in a.activation else None

    def forward(self, x: Tensor) -> Tensor:
        """Behind the activation."""
        if self.gate_proj is None:
            return self.down_proj(self.activation(self.up_proj(x)))
        return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))


class DecoderBlock(nn.Module):
    """Attention and feed-forward layer, each behind a norm and beside a residual."""

    def __init__(self, a: Architecture) -> None:
        """Both, and norms."""
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = norm(a, a.dim), norm(a, a.dim)
        self.self_attn, self.mlp = SelfAttention(a), FeedForward(a)

    def forward(self, x: Tensor) -> Tensor:
        """Of [batch, tokens, dim]."""
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    """Everything but the output's weights."""

    def __init__(self, a: Architecture) -> None:
        """Embeddings, blocks and the last norm."""
        super().__init__()
        self.a, self.embed_tokens = a, nn.Embedding(a.vocab, a.dim)
        self.embed_positions = nn.Embedding(a.context, a.dim) if a.positions == "learned" else None
        self.layers, self.norm = nn.ModuleList(DecoderBlock(a) for _ in range(a.layers)), norm(a, a.dim)

    def forward(self, ids: Tensor) -> Tensor:
        """Hidden states of ids."""
        x = self.embed_tokens(ids) * self.a.embedding_scale
        x = x if self.embed_positions is None else x + self.embed_positions(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Decoder(nn.Module):
    """A language model: ids [batch, tokens] to scores [batch * tokens, vocab]."""

    def __init__(self, a: Architecture) -> None:
        """The body and the output's weights, which may be the embeddings."""
        super().__init__()
        self.model, self.lm_head = Body(a), nn.Linear(a.dim, a.vocab, bias=False)
        if a.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Scores."""
        return self.lm_head(self.model(ids)).flatten(0, 1)
