"""Each kind of cell turns red once: by a fault that is planted in the model that it compares with the reference."""

import numpy as np
import pytest

from deployer.lm.blocks import OWN, Attend, BlockBuilder, TokenPlaces, layer_name
from deployer.lm.cached import BEGIN, MASK, cache_names
from deployer.lm.graph import NodeWriter
from deployer.operators.attention.cache import CacheUpdate
from DeployTest.consistency import subjects
from DeployTest.consistency.cells import DIFFERENT, EQUAL, Result, all_cells, cell_of, compared, contract, shown
from DeployTest.consistency.observed import Laboratory
from DeployTest.consistency.settings import Setting

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.fixture(scope="module")
def reference() -> Laboratory:
    """The laboratory without a fault."""
    return Laboratory()


def red(name: str, reference: Laboratory, monkeypatch: pytest.MonkeyPatch, place: str, fault: object) -> Result:
    """The result of a cell of attention without gradients, with a fault in place of what is there."""
    cell = next(cell for cell in all_cells() if str(cell) == name)
    given = {"batch": cell.setting.batch, "layout": cell.setting.layout, "chunk": cell.setting.chunk, "trains": False}
    cell = cell_of(cell.subject, cell.factor, cell.level, {**given, "texts": cell.workload.texts})
    assert shown(cell, reference).status == EQUAL
    monkeypatch.setattr(place, fault)
    faulty = Laboratory()
    try:
        own = faulty.observed(cell.subject, cell.setting, cell.workload)
        return compared(cell, own, reference.observed(cell.subject, Setting(), cell.workload), contract())
    finally:
        faulty.close()


def _products(graph: NodeWriter, q: str, k: str, v: str, heads: int) -> tuple[str, str]:
    """Scores of queries [batch, heads, places, keys], and values for each of the heads."""
    shared = graph.ints("heads.shared", *(i // 2 for i in range(heads)))
    k, v = (graph.emit("Gather", (n, shared), f"{n}.each", axis=1) for n in (k, v))
    turned = graph.emit("Transpose", (k,), f"{k}.turned", perm=(0, 1, 3, 2))
    scores = graph.emit("MatMul", (q, turned), f"{q}.products")
    return graph.emit("Mul", (scores, graph.number("scale", 8**-0.5)), f"{q}.scaled"), v


def multiplied() -> Attend:
    """A mask that multiplies scores by 0 and 1, so that hidden tokens have a share."""

    def attend(graph: NodeWriter, places: TokenPlaces, layer: int, q: str, k: str, v: str) -> str:
        scores, v = _products(graph, q, k, v, 4)
        seen = graph.emit("Exp", (subjects.HIDDEN,), "seen")
        masked = graph.emit("Mul", (scores, seen), "masked")
        return graph.emit("MatMul", (graph.emit("Softmax", (masked,), "shares", axis=-1), v), "mixed.values")

    return attend


def _cached(stale: bool, rescaled: bool) -> Attend:
    def attend(graph: NodeWriter, places: TokenPlaces, layer: int, q: str, k: str, v: str) -> str:
        begin = BEGIN
        if stale:
            zero = graph.constant("stale.zero", np.zeros(1, np.int32))
            one = graph.constant("stale.one", np.ones(1, np.int32))
            begin = graph.emit("Max", (graph.emit("Sub", (BEGIN, one), "before"), zero), "begin.before")
        names = cache_names(layer)
        places_of = dict(zip(names, (BEGIN, begin), strict=True))
        read = [
            graph.emit(CacheUpdate.name, (cache, new, places_of[cache]), f"{cache}.read", domain=OWN)
            for cache, new in zip(names, (k, v), strict=True)
        ]
        scale = None
        if rescaled:
            q, scale = graph.emit("Mul", (q, graph.number("scale", 8**-0.5)), f"{q}.rescaled"), 1.0
        return graph.emit("Attention", (q, *read, MASK), f"{layer_name(layer)}.self_attn.attended_values", scale=scale)

    return attend


def _whole_norm(build: BlockBuilder, name: str, x: str) -> str:
    """A norm over all rows."""
    a = build.architecture
    normed = build.graph.emit("RMSNormalization", (x, f"{name}.weight"), f"{name}.output", axis=0, epsilon=a.norm_eps)
    return normed


def test_multiplied_mask(reference: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    result = red("attention / left padding / 5", reference, monkeypatch, f"{subjects.__name__}._masked", multiplied)
    assert result.status == DIFFERENT
    assert {key[2] for key in result.different} >= {1, 2, 3}


def test_stale_row(reference: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of a chunk begin a row too early: the first chunk is right, and tokens behind it are not."""
    place = "deployer.lm.cached.cached_attention"
    result = red("attention / prefill / 7", reference, monkeypatch, place, lambda: _cached(True, False))
    assert result.status == DIFFERENT
    assert min(key[2] for key in result.different) == 7


def test_rescaled_softmax(reference: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries are scaled before their products: the same in exact arithmetic, and other bits."""
    place = "deployer.lm.cached.cached_attention"
    result = red("attention / prefill / 1", reference, monkeypatch, place, lambda: _cached(False, True))
    assert result.status == DIFFERENT
    assert red("attention / prefill / 1", reference, monkeypatch, place, lambda: _cached(False, False)).status == EQUAL


def test_norm_over_rows(reference: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A norm whose axis is wrong depends on the tokens beside its own."""
    place = f"{BlockBuilder.__module__}.{BlockBuilder.__name__}.norm"
    result = red("rms norm / batch / 2", reference, monkeypatch, place, _whole_norm)
    assert result.status == DIFFERENT
