"""Small language models, each with one part of a decoder between its embedding and its scores."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from deployer.core.operator import Array, rng
from deployer.lm.architecture import Architecture
from deployer.lm.blocks import COS, HEAD, SIN, Attend, BlockBuilder, TokenPlaces, layer_name, rope_tables
from deployer.lm.cached import BEGIN, TOKENS, cache_names, cached_places
from deployer.lm.graph import NodeWriter, floats_value, ids_value
from deployer.lm.model import IDS, LOGITS, ordered, shapes, whole_text

LABELS, PLACES, HIDDEN = "labels.observed", "places", "hidden"
"""Names of inputs: labels whose log-probability is observed, positions of tokens, and what is added to scores."""
OBSERVED, CHOSEN = "observed", "chosen"
VOCAB = 41
FIELDS: dict[str, Any] = {"layers": 2, "dim": 32, "heads": 4, "kv_heads": 2, "hidden": 48, "vocab": VOCAB}
SELECTED = (3, 17, 40, 0)
"""The ids whose scores are computed alone."""
PART, SCORES, LOG_PROBABILITY, SELECTED_SCORES = "part", "scores", "log-probability", "selected scores"
Body = Callable[[BlockBuilder, str], str]


def _nothing(build: BlockBuilder, x: str) -> str:
    """The rows as they are."""
    return x


def _rope(build: BlockBuilder, x: str) -> str:
    """The rows turned by their positions, as heads of queries."""
    a = build.architecture
    y = build.turned(f"{layer_name(0)}.q", build.heads(f"{layer_name(0)}.q", x, a.heads))
    return build.graph.emit("Reshape", (y, build.graph.ints("shape.back", -1, a.dim)), "turned.rows")


def _chain(build: BlockBuilder, x: str) -> str:
    """Norm, product and attention, one behind another."""
    x = build.norm(f"{layer_name(0)}.input_layernorm", x)
    return build.attention(0, build.linear(f"{layer_name(1)}.self_attn.o_proj", x, False))


def _whole(build: BlockBuilder, x: str) -> str:
    """All blocks."""
    for layer in range(build.architecture.layers):
        x = build.block(layer, x)
    return x


SUBJECTS: Mapping[str, Body] = {
    "embedding": _nothing,
    "rms norm": lambda build, x: build.norm(f"{layer_name(0)}.input_layernorm", x),
    "rope": _rope,
    "matmul": lambda build, x: build.linear(f"{layer_name(0)}.self_attn.o_proj", x, False),
    "attention": lambda build, x: build.attention(0, x),
    "swiglu": lambda build, x: build.feed_forward(0, x),
    "lm head": _nothing,
    "log-probability": _nothing,
    "chain": _chain,
    "whole model": _whole,
}
"""What stands between the rows of an embedding and the scores. Where that is nothing, the part observed is another."""


def architecture(context: int) -> Architecture:
    """The sizes of all subjects, with texts of at most so many tokens."""
    return Architecture(**FIELDS, context=context)


def weights() -> dict[str, Array]:
    """Weights that let tokens differ, by the names of a whole model's; the same for any context."""
    r = rng(11)
    known = shapes(architecture(1))
    return {name: r.normal(size=shape).astype(np.float32) / np.float32(4) for name, shape in known.items()}


@dataclass(frozen=True)
class Layout:
    """Layout of tokens in rows: `batch` rows of `length` places.

    With a `chunk` rows are chunks of so many tokens, and the keys and values of those before them lie in caches. If it
    is `placed`, positions and what each token sees are inputs.
    """

    batch: int
    length: int
    chunk: int = 0
    placed: bool = False

    @property
    def width(self) -> int:
        """Tokens of a sequence in one pass."""
        return self.chunk or self.length


def subject_model(subject: str, layout: Layout, observes: bool) -> ModelProto:
    """The model of a subject: ids to scores [rows, vocab].

    If it `observes`, labels are an input too, and the one result is [rows, n]: the part's output, scores, the negated
    log-probability of labels, and the scores of some ids, computed alone.
    """
    a, graph = architecture(layout.length), NodeWriter()
    places, inputs = _places(a, graph, layout)
    build = BlockBuilder(a, graph, places)
    ids = TOKENS if layout.chunk else IDS
    part = SUBJECTS[subject](build, build.embedding(ids))
    scores = build.logits(part, LOGITS)
    width, rows = VOCAB, layout.batch * layout.width
    if observes:
        inputs.append(helper.make_tensor_value_info(LABELS, TensorProto.INT64, [rows]))
        lost = graph.emit("SoftmaxCrossEntropyLoss", (scores, LABELS), "lost", reduction="none")
        column = graph.emit("Reshape", (lost, graph.ints("shape.lost", -1, 1)), "lost.column")
        some = graph.emit("Gather", (HEAD, graph.ints("some", *SELECTED)), "some.rows", axis=0)
        normed = next(node.input[0] for node in graph.nodes if node.output[0] == LOGITS)
        chosen = graph.emit("Gemm", (normed, some), CHOSEN, transB=1)
        graph.emit("Concat", (part, scores, column, chosen), OBSERVED, axis=1)
        width += a.dim + 1 + len(SELECTED)
    result = floats_value(OBSERVED if observes else LOGITS, rows, width)
    used = {name for node in graph.nodes for name in node.input}
    inputs = [value for value in inputs if value.name in used]
    known = {name: shape for name, shape in shapes(a).items() if name in used}
    return graph.model(
        "subject", (ids_value(ids, layout.batch, layout.width), *inputs), (result,), ordered(known, weights())
    )


def observations(rows: Array) -> dict[str, Array]:
    """The columns of what a model that observes computes."""
    edges = np.cumsum([FIELDS["dim"], VOCAB, 1])
    parts = np.split(rows, edges, axis=-1)
    return dict(zip((PART, SCORES, LOG_PROBABILITY, SELECTED_SCORES), parts, strict=True))


def _places(a: Architecture, graph: NodeWriter, layout: Layout) -> tuple[TokenPlaces, list[ValueInfoProto]]:
    """The places that a graph computes, and the inputs that say where they are."""
    tables = dict(zip((COS, SIN), rope_tables(a, np.arange(a.context)), strict=True))
    if layout.chunk:
        begin = helper.make_tensor_value_info(BEGIN, TensorProto.INT32, [layout.batch])
        caches = [
            floats_value(name, layout.batch, a.kv_heads, a.context, a.head_dim)
            for layer in range(a.layers)
            for name in cache_names(layer)
        ]
        return cached_places(a, graph, layout.batch, layout.chunk), [begin, *caches]
    if not layout.placed:
        for name, table in tables.items():
            graph.constant(name, table)
        return TokenPlaces(a.context, whole_text(a)), []
    for name, table in tables.items():
        rows = graph.constant(f"{name}.table", table)
        graph.emit("Gather", (rows, PLACES), name, axis=0)
    inputs = [ids_value(PLACES, layout.batch, a.context), floats_value(HIDDEN, layout.batch, 1, a.context, a.context)]
    return TokenPlaces(a.context, _masked()), inputs


def _masked() -> Attend:
    """Attention that sees what an input says."""

    def attend(graph: NodeWriter, places: TokenPlaces, layer: int, q: str, k: str, v: str) -> str:
        return graph.emit("Attention", (q, k, v, HIDDEN), f"{layer_name(layer)}.self_attn.values")

    return attend
