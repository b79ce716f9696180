"""Decoding over caches: every chunk of a text gives the scores that the whole text gives, in every bit."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.core.operator import Array, rng
from deployer.core.plan import Options
from deployer.fitting.engine import FitEvaluator, evaluated_program
from deployer.fitting.segments import build_segment
from deployer.frontend import parse
from deployer.frontend.prepare import Axes
from deployer.lm.architecture import Architecture
from deployer.lm.decoder import Decoder, replayed
from deployer.lm.graph import save_model
from deployer.lm.model import forward_model, shapes
from deployer.lm.presets import preset, preset_names
from DeployTest.targets.simulators import needs_simulator

SMALL: dict[str, Any] = {"layers": 2, "dim": 32, "heads": 4, "kv_heads": 2, "hidden": 48, "context": 70, "vocab": 41}
FORMS: dict[str, dict[str, Any]] = {
    **{name: {"preset": name} for name in preset_names()},
    "window": {"window": 9},
    "pairs": {"rope_form": "pairs", "qk_norm": True},
}


FEW = ("llama", "window")
"""Forms of the quick suite."""


def model(**fields: Any) -> tuple[Architecture, dict[str, Array]]:
    """A small model with weights that let tokens differ."""
    given = dict(fields)
    known = preset(given.pop("preset")) if "preset" in given else {}
    sizes = {name: number for name, number in SMALL.items() if name != "kv_heads" or known.get("kv_heads", 0)}
    architecture = Architecture(**{**known, "head_dim": 0, **sizes, **given})
    r = rng(11)
    weights = {n: r.normal(size=shape).astype(np.float32) / np.float32(4) for n, shape in shapes(architecture).items()}
    return architecture, weights


def whole(architecture: Architecture, weights: dict[str, Array], ids: list[int]) -> Array:
    """The scores of a text by the model that is trained, in one pass; it is filled up to the context."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        save_model(forward_model(architecture, weights), folder / "model.onnx")
        graph = parse.read_graphs(folder / "model.onnx", None, Axes(1)).main
        program = evaluated_program(graph, list(weights))
        plan = build_segment(program, Options("host_flat"), folder / "code")
        row = np.zeros((1, architecture.context), np.int32)
        row[0, : len(ids)] = ids
        scores = FitEvaluator(program, plan, folder / "code").outputs(weights, [(row,)])
    return scores.reshape(architecture.context, -1)[: len(ids)]


def text(architecture: Architecture, length: int, seed: int = 3) -> list[int]:
    return list(map(int, rng(seed).integers(0, architecture.vocab, length)))


@pytest.mark.parametrize("form", [pytest.param(n, marks=() if n in FEW else pytest.mark.slow) for n in sorted(FORMS)])
def test_chunks_have_the_bits_of_the_whole(form: str) -> None:
    """Prefill by chunks of 7 and all at once, and decoding, of 66 tokens: on both sides of a block of sums."""
    architecture, weights = model(**FORMS[form])
    ids = text(architecture, 66)
    expected = whole(architecture, weights, ids)
    assert len(np.unique(expected)) > expected.size // 2
    decoder = Decoder(architecture, weights, chunk=7)
    for at, token in enumerate(ids):
        assert decoder.decode([token])[0].tobytes() == expected[at].tobytes()
    decoder.reset()
    for begin in range(0, 66, 11):  # a chunk of 7, and one of 4 that is filled up
        assert decoder.prefill(ids[begin : begin + 11])[0].tobytes() == expected[begin + 10].tobytes()
    at_once = Decoder(architecture, weights, chunk=66)
    assert at_once.prefill(ids)[0].tobytes() == expected[-1].tobytes()


def test_sequences_go_on_by_themselves() -> None:
    """Of several lengths, with pauses and a new beginning, each has the scores that it has alone."""
    architecture, weights = model()
    texts = [text(architecture, 30, seed) for seed in (1, 2, 3)]
    expected = [whole(architecture, weights, ids) for ids in texts]
    decoder = Decoder(architecture, weights, sequences=3, chunk=5)
    decoder.prefill([texts[2][:20], texts[1][:9], []])
    decoder.reset(0)
    scores = decoder.prefill([texts[0][:12], texts[1][9:10], texts[2][:1]])
    for own, rows, at in zip(scores, expected, (11, 9, 0), strict=True):
        assert own.tobytes() == rows[at].tobytes()
    scores = decoder.decode([texts[0][12], texts[1][10], texts[2][1]])
    for own, rows, at in zip(scores, expected, (12, 10, 1), strict=True):
        assert own.tobytes() == rows[at].tobytes()
    assert decoder.lengths.tolist() == [13, 11, 2]


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(Options("host", budgets={"L1": 16_000}), marks=pytest.mark.host, id="host"),
        pytest.param(
            Options("host", budgets={"L1": 16_000, "L2": 60_000}, outermost="L3", cores=3),
            marks=pytest.mark.host,
            id="outermost level",
        ),
        pytest.param(Options("qemu_riscv"), marks=pytest.mark.qemu_riscv, id="qemu_riscv"),
        pytest.param(Options("siracusa"), marks=pytest.mark.siracusa, id="siracusa"),
    ],
)
def test_targets_decode_with_the_same_bits(options: Options, tmp_path: Path) -> None:
    needs_simulator(options.target)
    architecture, weights = model()
    ids = text(architecture, 20)
    scores = replayed(architecture, weights, ids, options, tmp_path / "code")
    assert scores.tobytes() == np.ascontiguousarray(whole(architecture, weights, ids)).tobytes()


def test_other_weights_begin_anew() -> None:
    architecture, weights = model()
    ids, changed = text(architecture, 8), {n: x * np.float32(0.5) for n, x in weights.items()}
    decoder = Decoder(architecture, weights, chunk=4)
    decoder.prefill(ids)
    decoder.load(changed)
    assert decoder.prefill(ids)[0].tobytes() == whole(architecture, changed, ids)[-1].tobytes()


def test_wrong_ids_are_refused_before_anything_is_read() -> None:
    architecture, weights = model()
    decoder = Decoder(architecture, weights, chunk=4)
    decoder.prefill([1, 2])
    with pytest.raises(DatasetMismatch, match="token 2 of sequence 0 is no id"):
        decoder.prefill([1, 2, 41])
    with pytest.raises(DatasetMismatch, match="sequence 0 has no room for 69 tokens"):
        decoder.prefill([0] * 69)
    with pytest.raises(DatasetMismatch, match="ids of 2 sequences, not of 1"):
        decoder.prefill([[1], [2]])
    assert decoder.lengths.tolist() == [2]
    with pytest.raises(OptionProblem, match="chunk is 71"):
        Decoder(architecture, weights, chunk=71)
