"""The forward model of an architecture: ids [batch, context] in, scores [batch * context, vocab] out."""

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto

from deployer.core.operator import Array
from deployer.lm.adapters.low_rank import LowRank
from deployer.lm.architecture import Architecture
from deployer.lm.blocks import (
    COS,
    EMBEDDING,
    FINAL_NORM,
    HEAD,
    POSITION,
    SIN,
    Attend,
    BlockBuilder,
    TokenPlaces,
    layer_name,
    rope_tables,
)
from deployer.lm.graph import NodeWriter, floats_value, ids_value

IDS, LOGITS, BATCH = "ids", "logits", "batch"
"""Names of the model's input, of its output, and of the axis that is open."""
TRAINABLE = r"\.(weight|bias)$"
"""The names of parameters, as a regular expression: all other tensors of the model are constants."""
Shape = tuple[int, ...]


def shapes(architecture: Architecture) -> dict[str, Shape]:
    """The shape of each parameter, in the order in which the model uses them."""
    a = architecture
    found: dict[str, Shape] = {EMBEDDING: (a.vocab, a.dim)}
    if a.positions == "learned":
        found[POSITION] = (a.context, a.dim)
    for layer in range(a.layers):
        found |= {f"{layer_name(layer)}.{name}": shape for name, shape in _layer_shapes(a).items()}
    found |= _norm_shapes(a, FINAL_NORM, a.dim)
    return found if a.tied else found | {HEAD: (a.vocab, a.dim)}


def parameter_shapes(architecture: Architecture, adapters: LowRank | None = None) -> dict[str, Shape]:
    """The shapes of the parameters, and behind them those of adapters."""
    known = shapes(architecture)
    return known | (adapters.shapes(known) if adapters else {})


def _layer_shapes(a: Architecture) -> dict[str, Shape]:
    found = _norm_shapes(a, "input_layernorm", a.dim)
    for name, width in (("q", a.query_dim), ("k", a.kv_dim), ("v", a.kv_dim)):
        found |= _linear_shapes(f"self_attn.{name}_proj", width, a.dim, a.attention_bias)
    if a.qk_norm:
        found |= {f"self_attn.{name}_norm.weight": (a.head_dim,) for name in "qk"}
    found |= _linear_shapes("self_attn.o_proj", a.dim, a.query_dim, a.output_bias)
    found |= _norm_shapes(a, "post_attention_layernorm", a.dim)
    for name in ("gate", "up") if a.is_gated else ("up",):
        found |= _linear_shapes(f"mlp.{name}_proj", a.hidden, a.dim, a.mlp_bias)
    return found | _linear_shapes("mlp.down_proj", a.dim, a.hidden, a.mlp_bias)


def _norm_shapes(a: Architecture, name: str, width: int) -> dict[str, Shape]:
    return {f"{name}.weight": (width,), **({f"{name}.bias": (width,)} if a.norm == "layer" else {})}


def _linear_shapes(name: str, outputs: int, inputs: int, bias: bool) -> dict[str, Shape]:
    return {f"{name}.weight": (outputs, inputs), **({f"{name}.bias": (outputs,)} if bias else {})}


def forward_model(
    architecture: Architecture, weights: Mapping[str, Array], adapters: LowRank | None = None
) -> ModelProto:
    """The model with these weights by the names of `shapes`, and adapters; the length of its axis `batch` is open."""
    a, graph = architecture, NodeWriter()
    positions = np.arange(a.context)
    if a.positions == "rope":
        for name, table in zip((COS, SIN), rope_tables(a, positions), strict=True):
            graph.constant(name, table)
    else:
        graph.constant("positions", positions)
    build = BlockBuilder(a, graph, TokenPlaces(a.context, whole_text(a)), adapters)
    x = build.embedding(IDS)
    for layer in range(a.layers):
        x = build.block(layer, x)
    build.logits(x, LOGITS)
    rows = f"{BATCH} * {a.context}"
    ends = ids_value(IDS, BATCH, a.context), floats_value(LOGITS, rows, a.vocab)
    return graph.model("language_model", ends[:1], ends[1:], ordered(parameter_shapes(a, adapters), weights))


def ordered(known: Mapping[str, Shape], weights: Mapping[str, Array]) -> dict[str, Array]:
    """The weights as float32 in the order of known shapes, and with these."""
    return {name: np.asarray(weights[name], np.float32).reshape(shape) for name, shape in known.items()}


def whole_text(architecture: Architecture) -> Attend:
    """Attention of places among themselves: each sees itself and those before it, as far as the window goes."""

    def attend(graph: NodeWriter, places: TokenPlaces, layer: int, q: str, k: str, v: str) -> str:
        window, y = architecture.window, f"{layer_name(layer)}.self_attn.values"
        if not 0 < window < places.length:
            return graph.emit("Attention", (q, k, v), y, is_causal=1)
        mask = graph.constant("attention.mask", window_mask(places.length, window))
        return graph.emit("Attention", (q, k, v, mask), y)

    return attend


def window_mask(length: int, window: int) -> Array:
    """The mask that is added to scores [length, length]: 0 for the last `window` places up to a query, else -inf."""
    behind = np.arange(length)[:, None] - np.arange(length)
    return np.where((behind >= 0) & (behind < window), 0, -np.inf).astype(np.float32)
