"""The forward model over a cache: a chunk of tokens of each sequence, which sees all that were read before it."""

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, TensorProto, helper

from deployer.core.errors import OptionProblem
from deployer.core.operator import Array
from deployer.lm.adapters.low_rank import LowRank
from deployer.lm.architecture import Architecture
from deployer.lm.blocks import COS, OWN, SIN, Attend, BlockBuilder, TokenPlaces, layer_name, rope_tables
from deployer.lm.graph import NodeWriter, floats_value, ids_value
from deployer.lm.model import LOGITS, ordered, parameter_shapes
from deployer.operators.attention.cache import CacheUpdate

TOKENS, BEGIN, LAST = "tokens", "begin", "last"
"""Names of inputs: ids of the chunk, how many tokens of a sequence were read before, and whose scores are returned."""
MASK = "attention.mask"


def cache_names(layer: int) -> tuple[str, str]:
    """The names of a layer's caches of keys and of values."""
    return f"{layer_name(layer)}.self_attn.cached_keys", f"{layer_name(layer)}.self_attn.cached_values"


def check_sizes(architecture: Architecture, sequences: int, chunk: int) -> None:
    """OptionProblem where there is no sequence, or a chunk that no sequence has room for."""
    if sequences < 1:
        raise OptionProblem(f"sequences is {sequences}", hint="sequences 1, or more")
    if not 1 <= chunk <= architecture.context:
        facts = [("possible", f"1 to {architecture.context}, the context")]
        raise OptionProblem(f"chunk is {chunk}", facts, f"chunk {architecture.context}")


def cached_model(
    architecture: Architecture,
    weights: Mapping[str, Array],
    chunk: int = 1,
    sequences: int = 1,
    selects: bool = False,
    adapters: LowRank | None = None,
) -> ModelProto:
    """The model of a chunk: `tokens` [sequences, chunk] and `begin` [sequences] to scores of all tokens in order.

    A program keeps the keys and values of tokens from call to call, for `context` of them in each sequence; rows behind
    those that were read are never seen. If it `selects`, scores are those of one token of each sequence, whose index in
    the chunk `last` [sequences] is. With `adapters` their weights are
    among the others. OptionProblem for numbers below 1, and a chunk beyond the context.
    """
    check_sizes(architecture, sequences, chunk)
    a, graph = architecture, NodeWriter()
    inputs = [
        ids_value(TOKENS, sequences, chunk),
        helper.make_tensor_value_info(BEGIN, TensorProto.INT32, [sequences]),
    ]
    build = BlockBuilder(a, graph, cached_places(a, graph, sequences, chunk), adapters and adapters.evaluated)
    x = build.embedding(TOKENS)
    for layer in range(a.layers):
        x = build.block(layer, x)
    if selects:
        inputs.append(helper.make_tensor_value_info(LAST, TensorProto.INT32, [sequences]))
        first = graph.constant("chunk.first", np.arange(sequences, dtype=np.int32) * chunk)
        x = graph.emit("Gather", (x, graph.emit("Add", (LAST, first), "last.rows")), "last.output", axis=0)
    build.logits(x, LOGITS)
    caches = [
        floats_value(name, sequences, a.kv_heads, a.context, a.head_dim)
        for layer in range(a.layers)
        for name in cache_names(layer)
    ]
    count = sequences if selects else sequences * chunk
    return graph.model(
        "cached_model",
        (*inputs, *caches),
        (floats_value(LOGITS, count, a.vocab),),
        ordered(parameter_shapes(a, adapters), weights),
    )


def cached_places(architecture: Architecture, graph: NodeWriter, sequences: int, chunk: int) -> TokenPlaces:
    """The places of a chunk that begins at the input `begin`, in a graph that gets their angles and their mask."""
    a = architecture
    column = graph.emit("Reshape", (BEGIN, graph.ints("shape.column", sequences, 1)), "begin.column")
    places = graph.emit("Add", (column, graph.constant("chunk", np.arange(chunk, dtype=np.int32))), "places")
    if a.positions == "rope":
        flat = graph.emit("Reshape", (places, graph.ints("shape.flat", -1)), "places.flat")
        for name, table in zip((COS, SIN), rope_tables(a, np.arange(a.context)), strict=True):
            rows = graph.constant(f"{name}.table", table.reshape(a.context, -1))
            graph.emit("Gather", (rows, flat), name, axis=0)
    _mask(a, graph, places, sequences, chunk)
    return TokenPlaces(chunk, cached_attention(), positions=places, turns_at_once=True)


def _mask(a: Architecture, graph: NodeWriter, places: str, sequences: int, chunk: int) -> None:
    """Add what is added to the scores [sequences, 1, chunk, context]: 0 for tokens that are seen, else -inf."""
    keys = graph.constant("keys", np.arange(a.context, dtype=np.int32))
    shape = graph.ints("shape.queries", sequences, 1, chunk, 1)
    queries = graph.emit("Reshape", (places, shape), "queries")
    seen = graph.emit("LessOrEqual", (keys, queries), "seen")
    if 0 < a.window < a.context:
        edge = graph.constant("window", np.array(a.window, np.int32))
        recent = graph.emit("Greater", (graph.emit("Add", (keys, edge), "keys.edge"), queries), "recent")
        seen = graph.emit("And", (seen, recent), "seen.recent")
    values = graph.number("mask.seen", 0.0), graph.number("mask.hidden", -np.inf)
    graph.emit("Where", (seen, *values), MASK)


def cached_attention() -> Attend:
    """Attention of a chunk over the cache, to which it adds its own keys and values first."""

    def attend(graph: NodeWriter, places: TokenPlaces, layer: int, q: str, k: str, v: str) -> str:
        name = f"{layer_name(layer)}.self_attn"
        read = [
            graph.emit(CacheUpdate.name, (cache, new, BEGIN), f"{cache}.read", domain=OWN)
            for cache, new in zip(cache_names(layer), (k, v), strict=True)
        ]
        return graph.emit("Attention", (q, *read, MASK), f"{name}.attended_values")

    return attend
