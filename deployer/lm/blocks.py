"""The blocks of a decoder as ONNX nodes, for any number of places of a sequence.

Activations are [rows, dim], a row for each place of each sequence of the batch. Where queries meet keys, an
`Attend` decides which keys and values there are: those of the same rows, or of a cache as well.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deployer.core.operator import Array
from deployer.lm.adapters.low_rank import DOWN, UP, LowRank
from deployer.lm.architecture import Architecture
from deployer.lm.graph import NodeWriter

Attend = Callable[[NodeWriter, "TokenPlaces", int, str, str, str], str]
"""Of a graph, its places, the layer's number and the names of Q [batch, heads, places, head_dim], K and V
[batch, kv_heads, places, head_dim] the name of the result, shaped as Q."""
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
POSITION = "model.embed_positions.weight"
FINAL_NORM = "model.norm"
COS, SIN = "rope.cos", "rope.sin"
ROTATION, OWN = "Rotation", "com.microsoft"
"""This compiler's operator that turns pairs, and the domain of its own operators in files."""


@dataclass(frozen=True)
class TokenPlaces:
    """The places that a graph computes: `length` consecutive ones of each sequence.

    `attend` is the attention between them and their past. `cos` and `sin` are the names of the tables
    [length, 1, head_dim / 2] of their positions' angles, `positions` that of their rows [length] in a table of learned
    positions. A graph that `turns_at_once` has an operator without a gradient for that, and tables
    [rows, head_dim / 2].
    """

    length: int
    attend: Attend
    cos: str = COS
    sin: str = SIN
    positions: str = "positions"
    turns_at_once: bool = False


def layer_name(layer: int) -> str:
    """The prefix of the names of a layer's parameters."""
    return f"model.layers.{layer}"


def rope_tables(architecture: Architecture, positions: Array) -> tuple[Array, Array]:
    """Cosine and sine of the angles of positions, float32 [positions, 1, head_dim / 2], rounded from float64.

    Su et al., RoFormer, 2021, section 3.2.2: pair i turns by position / base^(2 i / head_dim).
    """
    half = architecture.head_dim // 2
    speeds = architecture.rope_base ** (-np.arange(half, dtype=np.float64) / half)
    angles = (np.asarray(positions, np.float64)[:, None] * speeds)[:, None]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


@dataclass(frozen=True)
class BlockBuilder:
    """Adds the parts of a decoder to a graph; names of parameters are those of Hugging Face's Llama."""

    architecture: Architecture
    graph: NodeWriter
    places: TokenPlaces
    adapters: LowRank | None = None

    def embedding(self, ids: str) -> str:
        """The rows [rows, dim] of ids [batch, places]."""
        a, g = self.architecture, self.graph
        x = g.emit("Gather", (EMBEDDING, ids), "embedded", axis=0)
        if a.embedding_scale != 1:
            x = g.emit("Mul", (x, g.number("embedding.scale", a.embedding_scale)), "embedded.scaled")
        if a.positions == "learned":
            rows = g.emit("Gather", (POSITION, self.places.positions), "position.rows", axis=0)
            x = g.emit("Add", (x, rows), "embedded.placed")
        return g.emit("Reshape", (x, g.ints("shape.rows", -1, a.dim)), "embedded.rows")

    def block(self, layer: int, x: str) -> str:
        """Attention and feed-forward layer of a number, both with their residual: [rows, dim] to [rows, dim]."""
        g, name = self.graph, layer_name(layer)
        mixed = self.attention(layer, self.norm(f"{name}.input_layernorm", x))
        x = g.emit("Add", (x, mixed), f"{name}.attended")
        fed = self.feed_forward(layer, self.norm(f"{name}.post_attention_layernorm", x))
        return g.emit("Add", (x, fed), f"{name}.output")

    def attention(self, layer: int, x: str) -> str:
        """Attention of the rows."""
        a, g, name = self.architecture, self.graph, f"{layer_name(layer)}.self_attn"
        q = self.heads(f"{name}.q", self.linear(f"{name}.q_proj", x, a.attention_bias), a.heads)
        k = self.heads(f"{name}.k", self.linear(f"{name}.k_proj", x, a.attention_bias), a.kv_heads)
        v = self.heads(f"{name}.v", self.linear(f"{name}.v_proj", x, a.attention_bias), a.kv_heads)
        if a.qk_norm:
            q, k = self.norm(f"{name}.q_norm", q), self.norm(f"{name}.k_norm", k)
        if a.positions == "rope":
            q, k = self.turned(f"{name}.q", q), self.turned(f"{name}.k", k)
        q, k, v = (g.emit("Transpose", (n,), f"{n}.by_head", perm=(0, 2, 1, 3)) for n in (q, k, v))
        y = self.places.attend(g, self.places, layer, q, k, v)
        y = g.emit("Transpose", (y,), f"{name}.by_token", perm=(0, 2, 1, 3))
        y = g.emit("Reshape", (y, g.ints("shape.heads", -1, a.query_dim)), f"{name}.mixed")
        return self.linear(f"{name}.o_proj", y, a.output_bias)

    def feed_forward(self, layer: int, x: str) -> str:
        """Two products with an activation between them, or with that of a gate."""
        a, g, name = self.architecture, self.graph, f"{layer_name(layer)}.mlp"
        first = self.linear(f"{name}.gate_proj" if a.is_gated else f"{name}.up_proj", x, a.mlp_bias)
        hidden = self._activated(name, first)
        if a.is_gated:
            up = self.linear(f"{name}.up_proj", x, a.mlp_bias)
            hidden = g.emit("Mul", (hidden, up), f"{name}.gated")
        return self.linear(f"{name}.down_proj", hidden, a.mlp_bias)

    def norm(self, name: str, x: str) -> str:
        """The norm of the last axis, with the parameters of that name."""
        a, g = self.architecture, self.graph
        scale, bias = f"{name}.weight", f"{name}.bias"
        if a.norm_offset:
            scale = g.emit("Add", (scale, g.number("norm.offset", a.norm_offset)), f"{name}.scale")
        if a.norm == "rms" or name.endswith(("q_norm", "k_norm")):
            return g.emit("RMSNormalization", (x, scale), f"{name}.output", axis=-1, epsilon=a.norm_eps)
        return g.emit("LayerNormalization", (x, scale, bias), f"{name}.output", axis=-1, epsilon=a.norm_eps)

    def linear(self, name: str, x: str, bias: bool) -> str:
        """The product of rows with a weight [outputs, inputs], a bias, and what an adapter adds."""
        g, operands = self.graph, (x, f"{name}.weight", *([f"{name}.bias"] if bias else []))
        y = g.emit("Gemm", operands, f"{name}.output", transB=1)
        if self.adapters is None or not self.adapters.is_adapted(name):
            return y
        narrow = g.emit("Gemm", (self._dropped(name, x), f"{name}.{DOWN}"), f"{name}.narrow", transB=1)
        wide = (narrow, f"{name}.{UP}", y)
        return g.emit("Gemm", wide, f"{name}.adapted", transB=1, alpha=self.adapters.scale)

    def _dropped(self, name: str, x: str) -> str:
        """The input of a layer's adapter: in training a share of it is dropped."""
        if self.adapters is None or not self.adapters.dropout:
            return x
        share = self.graph.number("adapters.dropout", self.adapters.dropout)
        return self.graph.emit(
            "Dropout", (x, share, self.graph.constant("adapters.drop", np.array(True))), f"{name}.dropped"
        )

    def logits(self, x: str, output: str = "logits") -> str:
        """Scores [rows, vocab] of the rows behind the last block."""
        weight = EMBEDDING if self.architecture.tied else HEAD
        return self.graph.emit("Gemm", (self.norm(FINAL_NORM, x), weight), output, transB=1)

    def heads(self, name: str, x: str, heads: int) -> str:
        """Rows as [batch, places, heads, head_dim]."""
        length, width = self.places.length, self.architecture.head_dim
        shape = self.graph.ints(f"shape.{heads}_heads", -1, length, heads, width)
        return self.graph.emit("Reshape", (x, shape), f"{name}.heads")

    def turned(self, name: str, x: str) -> str:
        """Pairs of [batch, places, heads, head_dim] turned by their positions' angles."""
        a, g, half = self.architecture, self.graph, self.architecture.head_dim // 2
        if self.places.turns_at_once:
            heads = a.heads if name.endswith(".q") else a.kv_heads
            neighbours = 1 if a.rope_form == "pairs" else None
            operands = (x, self.places.cos, self.places.sin)
            return g.emit(ROTATION, operands, f"{name}.turned", domain=OWN, inner=heads, neighbours=neighbours)
        cos, sin, axes = self.places.cos, self.places.sin, g.ints("axis.last", -1)
        pairs = a.rope_form == "pairs"
        steps = g.ints("rope.step", 2 if pairs else 1)
        spans = ((0, a.head_dim), (1, a.head_dim)) if pairs else ((0, half), (half, a.head_dim))
        parts = []
        for number, (begin, end) in enumerate(spans):
            edges = g.ints(f"rope.begin.{begin}", begin), g.ints(f"rope.end.{end}", end)
            parts.append(g.emit("Slice", (x, *edges, axes, steps), f"{name}.part{number}"))
        first, second = parts
        products = [
            g.emit("Mul", (part, table), f"{name}.{part_name}_{table_name}")
            for part, part_name in ((first, "first"), (second, "second"))
            for table, table_name in ((cos, "cos"), (sin, "sin"))
        ]
        real = g.emit("Sub", (products[0], products[3]), f"{name}.real")
        other = g.emit("Add", (products[2], products[1]), f"{name}.imaginary")
        if not pairs:
            return g.emit("Concat", (real, other), f"{name}.turned", axis=-1)
        columns = [g.emit("Unsqueeze", (n, axes), f"{n}.column") for n in (real, other)]
        joined = g.emit("Concat", columns, f"{name}.pairs", axis=-1)
        return g.emit("Reshape", (joined, g.ints("shape.turned", 0, 0, 0, a.head_dim)), f"{name}.turned")

    def _activated(self, name: str, x: str) -> str:
        """The activation of what is in front of it, or of the gate."""
        g, kind = self.graph, self.architecture.activation
        if kind in ("swiglu", "silu"):
            return g.emit("Swish", (x,), f"{name}.activated")
        if kind == "relu":
            return g.emit("Relu", (x,), f"{name}.activated")
        return g.emit("Gelu", (x,), f"{name}.activated", approximate="tanh" if kind.endswith("_tanh") else None)
