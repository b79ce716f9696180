"""`deployer lm`: from a text to tokens, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.fitting.safetensors import read_safetensors, safetensors_bytes
from deployer.lm.adapters.files import CONFIG, WEIGHTS, SavedAdapter, write_adapter
from deployer.lm.adapters.low_rank import LowRank
from deployer.lm.folder import read_model
from deployer.lm.model import shapes
from deployer.lm.rows import IGNORED, split_rows
from DeployTest.support.building.command_line import deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
Capture = pytest.CaptureFixture[str]
SIZES = ["-s", "layers=1", "-s", "dim=16", "-s", "hidden=24", "-s", "context=16"]


def events(capsys: Capture) -> list[dict[str, Any]]:
    """The lines of JSON since the last call."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text of five stories."""
    assert deployer("lm", "stories", tmp_path / "stories.txt", "--count", 5) == 0
    return tmp_path / "stories.txt"


def test_from_text_to_tokens(text: Path, tmp_path: Path, capsys: Capture) -> None:
    """A model is made, trained, interrupted and resumed, evaluated and run; training lowers the loss of the text."""
    folder = tmp_path / "model"
    capsys.readouterr()
    assert deployer("lm", "new", folder, *SIZES, "--seed", 4, "--json") == 0
    (made,) = events(capsys)
    assert made["parameters"] == read_model(folder).architecture.parameters
    losses = []
    for _ in range(2):
        assert deployer("lm", "eval", folder, "--text", text, "--json") == 0
        losses.append(events(capsys)[-1]["loss"])
        words = ["--text", text, "--lr", 0.01, "--batch-size", 4, "--check-passes", 1, "--max-grad-norm", 1]
        assert deployer("lm", "train", folder, *words, "--epochs", 2, "--json") == 0
        found = events(capsys)
        assert [e["event"] for e in found if e["event"] in ("epoch", "end")] == ["epoch", "epoch", "end"]
        assert found[-1]["verdict"] == "passed"
    assert losses[1] < losses[0] - 0.5
    before = (folder / "weights.safetensors").read_bytes()
    assert deployer("lm", "train", folder, *words, "--epochs", 3, "--resume", "--json") == 0
    assert [e["epoch"] for e in events(capsys) if e["event"] == "epoch"] == [3]
    assert (folder / "weights.safetensors").read_bytes() != before
    arrays = read_safetensors(folder / "weights.safetensors")[0]
    trained = read_safetensors(folder / "run/trained.safetensors")[0]
    assert all((arrays[name] == trained[name]).all() for name in arrays)
    texts = []
    for _ in range(2):
        assert deployer("lm", "generate", folder, "--prompt", "The ", "--tokens", 9, "--seed", 2, "--json") == 0
        texts.append(events(capsys)[-1])
    assert texts[0] == texts[1]
    assert len(texts[0]["ids"]) <= 9


def test_validation(text: Path, tmp_path: Path, capsys: Capture) -> None:
    """A text of its own is validated as `lm eval` evaluates it."""
    folder = tmp_path / "model"
    assert deployer("lm", "new", folder, *SIZES, "--preset", "gpt2") == 0
    other = tmp_path / "other.txt"
    other.write_text("Once upon a time there was another text.")
    words = ["--text", text, "--batch-size", 4, "--check-passes", "none"]
    capsys.readouterr()
    assert deployer("lm", "train", folder, *words, "--validation", other, "--json") == 0
    (epoch,) = [e for e in events(capsys) if e["event"] == "epoch"]
    assert deployer("lm", "eval", folder, "--text", other, "--json") == 0
    assert events(capsys)[-1]["loss"] == pytest.approx(epoch["metrics"]["loss"], rel=1e-12)


@pytest.mark.slow
def test_validation_keeps_whole_documents(tmp_path: Path, capsys: Capture) -> None:
    """No id of one side's documents is on the other, also in a row that both would share; one document is refused."""
    folder, mixed, kept = tmp_path / "model", tmp_path / "mixed.txt", tmp_path / "kept.txt"
    mixed.write_text("\n\n".join(letter * 21 for letter in "abcdefg"))
    kept.write_text("\n\n".join(letter * 21 for letter in "fg"))
    assert deployer("lm", "new", folder, *SIZES) == 0
    model = read_model(folder)
    rows = split_rows(mixed, 0.3, model.tokenizer, model.architecture)
    sides = [{*map(int, side.ids.ravel()), *map(int, side.labels.ravel())} for side in rows]
    end = {model.tokenizer.end, IGNORED}
    assert [side - end for side in sides] == [{*b"abcde"}, {*b"fg"}]
    assert [side.size for side in rows] == [5 * 21, 2 * 21], "every byte is predicted once"

    words = ["--text", mixed, "--batch-size", 4, "--check-passes", "none"]
    capsys.readouterr()
    assert deployer("lm", "train", folder, *words, "--validation", 0.3, "--json") == 0
    (epoch,) = [e for e in events(capsys) if e["event"] == "epoch"]
    assert deployer("lm", "eval", folder, "--text", kept, "--json") == 0
    assert events(capsys)[-1]["loss"] == pytest.approx(epoch["metrics"]["loss"], rel=1e-12)

    mixed.write_text("a" * 50 + "|" + "b" * 50)
    message = refused(capsys, "lm", "train", folder, *words, "--validation", 0.3)
    assert "one document cannot be both" in message
    assert "--validation FILE" in message
    for way in (["--validation", kept], ["--validation", 0.3, "--separator", "|"]):
        assert deployer("lm", "train", folder, *words, *way, "--quiet", "--force") == 0


def test_new_is_refused(tmp_path: Path, capsys: Capture) -> None:
    """Fields, presets, files and vocabularies that are wrong; nothing is written."""
    folder, architecture = tmp_path / "model", tmp_path / "a.json"
    for words, message in (
        (["-s", "dimm=3"], "did you mean dim?"),
        (["-s", "vocab=100"], "ids of the tokenizer 257"),
        (["--preset", "lama"], "invalid choice: 'lama'"),
        (["--tokenizer", tmp_path / "none.json"], "does not exist"),
        (["--architecture", tmp_path / "none.json"], "does not exist"),
        (["--presets", "llama"], "did you mean --preset?"),
    ):
        assert message in refused(capsys, "lm", "new", folder, *words)
    architecture.write_text('{"dim": 32, "depth": 3}')
    assert "has no field 'depth'" in refused(capsys, "lm", "new", folder, "--architecture", architecture)
    architecture.write_text("[1]")
    assert "is no object" in refused(capsys, "lm", "new", folder, "--architecture", architecture)
    assert not folder.exists()
    architecture.write_text(json.dumps({"layers": 1, "dim": 8, "heads": 2, "hidden": 8, "context": 4}))
    assert deployer("lm", "new", folder, "--architecture", architecture, "-s", "dim=12") == 0
    assert (read_model(folder).architecture.dim, read_model(folder).architecture.layers) == (12, 1)
    assert deployer("lm", "new", folder) == 0, "its own files are replaced"
    (folder / "lm.json").write_text("{}")
    assert "--force" in refused(capsys, "lm", "new", folder)


def test_damaged_folders(text: Path, tmp_path: Path, capsys: Capture) -> None:
    """A folder without a model, and one whose files do not belong together."""
    folder = tmp_path / "model"
    assert "does not exist" in refused(capsys, "lm", "eval", folder, "--text", text)
    assert deployer("lm", "new", folder, *SIZES) == 0
    record = json.loads((folder / "lm.json").read_text())
    for fields, message in (({"dim": 24}, "does not fit"), ({"vocab": 200}, "ids of the tokenizer")):
        changed = {**record, "architecture": {**record["architecture"], **fields}}
        (folder / "lm.json").write_text(json.dumps(changed))
        assert message in refused(capsys, "lm", "eval", folder, "--text", text)
    for content in ("[]", "{}", json.dumps({**record, "version": 2}), json.dumps({**record, "architecture": 3})):
        (folder / "lm.json").write_text(content)
        assert "lm.json" in refused(capsys, "lm", "eval", folder, "--text", text)


def test_options_of_a_file(text: Path, tmp_path: Path, capsys: Capture) -> None:
    """An action's options are in a table of both names; an unknown one is answered by what was meant."""
    folder, options = tmp_path / "model", tmp_path / "o.toml"
    options.write_text('["lm new"]\npreset = "qwen3"\nset = ["layers=1"]\n')
    assert deployer("lm", "new", folder, "--config", options) == 0
    assert read_model(folder).architecture.qk_norm
    options.write_text('["lm eval"]\nbatch = 3\n')
    words = ("lm", "eval", folder, "--text", text, "--config", options)
    assert "did you mean batch-size?" in refused(capsys, *words)
    assert "--resume" in refused(capsys, "lm", "train", folder, "--text", text, "--resume")
    assert "temperature of a sampler is out of range" in refused(capsys, "lm", "generate", folder, "--temperature", -1)
    assert "--force" in refused(capsys, "lm", "stories", text)


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize(
    ("pattern", "trained"),
    [(r"layers\.1\.", 4 * 16 * 16 + 3 * 16 * 24 + 2 * 16), ("norm", 5 * 16), (r"norm|\.bias$", 5 * 16)],
)
def test_parts_alone(pattern: str, trained: int, text: Path, tmp_path: Path, capsys: Capture) -> None:
    """The last layer, or norms: what is trained is in the folder, and no constant of the model is among it."""
    folder = tmp_path / "model"
    sizes = [*SIZES, "-s", "layers=2", "-s", "heads=2", "-s", "kv_heads=2", "-s", "head_dim=8"]
    assert deployer("lm", "new", folder, *sizes, "--preset", "gemma") == 0
    before = dict(read_model(folder).weights)
    capsys.readouterr()
    words = ["--text", text, "--n-steps", 2, "--batch-size", 2, "--trainable", pattern]
    assert deployer("lm", "train", folder, *words, "--json") == 0
    assert events(capsys)[-1]["trained"] == trained
    arrays = read_safetensors(folder / "run/trained.safetensors")[0]
    for name, array in read_model(folder).weights.items():
        moved = name in arrays
        assert (array == (arrays if moved else before)[name]).all()
        assert moved == bool((array != before[name]).any()), name
        assert moved == ("layers.1." in name if "layers" in pattern else "norm" in name)
    for wrong, message in (("offset", "matches no parameter"), ("(", "is not a regular expression")):
        assert message in refused(capsys, "lm", "train", folder, "--text", text, "--trainable", wrong)


@pytest.mark.slow
def test_kept_adapters(text: Path, tmp_path: Path, capsys: Capture) -> None:
    """Adapters in a folder of their own: weights stay, and both together are what was validated, to the bit."""
    folder, adapter, other = tmp_path / "model", tmp_path / "adapter", tmp_path / "other.txt"
    other.write_text("Once upon a time there was another text.")
    assert deployer("lm", "new", folder, *SIZES, "--seed", 4) == 0
    before = dict(read_model(folder).weights)
    words = ["--text", text, "--lr", 0.03, "--batch-size", 4, "--lora", "q_proj|up_proj", "--lora-dropout", 0.25]
    words += ["--lora-rank", 2, "--adapter", adapter, "--validation", other]
    losses = []
    for epochs in (1, 2):
        more = ["--epochs", epochs, "--lora-alpha", 8, *["--resume"] * (epochs - 1)]
        capsys.readouterr()
        assert deployer("lm", "train", folder, *words, *more, "--json") == 0
        losses.append([e for e in events(capsys) if e["event"] == "epoch"][-1]["metrics"]["loss"])
    assert all((array == before[name]).all() for name, array in read_model(folder).weights.items())
    arrays = read_safetensors(adapter / "adapter_model.safetensors")[0]
    layer = "base_model.model.model.layers.0"
    shapes = {name: array.shape for name, array in arrays.items()}
    assert shapes == {
        f"{layer}.self_attn.q_proj.lora_A.weight": (2, 16),
        f"{layer}.self_attn.q_proj.lora_B.weight": (16, 2),
        f"{layer}.mlp.up_proj.lora_A.weight": (2, 16),
        f"{layer}.mlp.up_proj.lora_B.weight": (24, 2),
    }
    record = json.loads((adapter / "adapter_config.json").read_text())
    assert [record[name] for name in ("peft_type", "r", "lora_alpha", "lora_dropout")] == ["LORA", 2, 8, 0.25]
    assert record["target_modules"] == ["q_proj", "up_proj"]
    for more, expected in (([], losses[1]), (["--adapter", adapter], losses[1])):
        assert deployer("lm", "eval", folder, "--text", other, *more, "--json") == 0
        found = events(capsys)[-1]["loss"]
        assert (found == pytest.approx(expected, rel=1e-12)) == bool(more), "nothing is dropped, and B counts"
    texts = []
    for more in ([], ["--adapter", adapter], ["--adapter", adapter]):
        assert deployer("lm", "generate", folder, "--tokens", 30, *more, "--seed", 2, "--json") == 0
        texts.append(events(capsys)[-1]["ids"])
    assert texts[0] != texts[1] == texts[2]
    for more, message in (
        (["--lora-alpha", 4, "--resume"], "is a run of other adapters"),
        (["--lora-dropout", 0.5, "--resume"], "is a run of other adapters"),
    ):
        assert message in refused(capsys, "lm", "train", folder, *words, "--epochs", 3, "--lora-alpha", 8, *more)
    assert "add --lora" in refused(capsys, "lm", "train", folder, "--text", text, "--adapter", adapter)


FAULTS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"r": 3}, "expected with rank 3"),
    ({"r": 0}, "adapters have no such numbers"),
    ({"r": "2"}, "is no number"),
    ({"lora_dropout": 2}, "dropout of adapters is 2"),
    ({"peft_type": "LOHA"}, "no record of an adapter of low rank"),
    ({"use_rslora": True}, "use_rslora changes what is computed"),
    ({"bias": "all"}, "bias changes what is computed"),
    ({"alpha_pattern": {"q_proj": 3}}, "alpha_pattern changes what is computed"),
    ({"target_modules": ["q_proj", "v_proj"]}, "lora_A.weight"),
    ({"target_modules": ["query"]}, "none of its layers is a linear layer"),
    ({"target_modules": None}, "target_modules names no layers"),
)


UNUSED: dict[str, Any] = {
    **{"alpha_pattern": {}, "base_model_name_or_path": "tiny", "bias": "none", "init_lora_weights": "gaussian"},
    **{"loftq_config": {}, "megatron_core": "megatron.core", "peft_version": "0.21.2", "qalora_group_size": 16},
    **{"revision": "main", "use_dora": False, "use_qalora": False, "layers_to_transform": None},
}
"""Fields of records of PEFT 0.21 that change nothing."""


def test_adapters_that_do_not_fit(tmp_path: Path, capsys: Capture) -> None:
    """Records and weights that are wrong, of other models, or mean what there is not here, say where and what."""
    folder, adapter = tmp_path / "model", tmp_path / "adapter"
    assert deployer("lm", "new", folder, *SIZES) == 0
    known, lora = shapes(read_model(folder).architecture), LowRank("q_proj", 2, 4.0)
    saved = SavedAdapter(lora, lora.initial(known, 1))
    write_adapter(adapter, saved, known)
    record, path = json.loads((adapter / CONFIG).read_text()), adapter / WEIGHTS
    words = ("lm", "generate", folder, "--adapter", adapter)
    for fields, message in FAULTS:
        (adapter / CONFIG).write_text(json.dumps({**record, **fields}))
        said = refused(capsys, *words)
        assert message in said, said
        assert "adapter" in said.splitlines()[0]
    (adapter / CONFIG).write_text(json.dumps({**record, **UNUSED, "target_modules": ".*q_proj"}))
    half = {f"base_model.model.{n}": a.astype(np.float16) for n, a in saved.weights.items()}
    path.write_bytes(safetensors_bytes(half))
    assert deployer(*words, "--tokens", 1) == 0, "an expression, and weights that float32 holds"
    name = next(iter(half))
    for arrays, message in (
        ({n: a.astype(np.int32) for n, a in half.items()}, "has another type"),
        ({**half, name: half[name] * np.float16(np.inf)}, "has infinite elements"),
        ({**half, "base_model.model.model.layers.7.lora_B.weight": half[name]}, "layers.7.lora_B.weight"),
        ({n: a.T for n, a in half.items()}, "[16, 2]"),
    ):
        path.write_bytes(safetensors_bytes(arrays))
        said = refused(capsys, *words)
        assert message in said, said
    path.write_bytes(b"nothing")
    assert "adapter_model.safetensors is truncated" in refused(capsys, *words)
    (adapter / CONFIG).unlink()
    assert "adapter_config.json does not exist" in refused(capsys, *words)


@pytest.mark.slow
def test_adapters(text: Path, tmp_path: Path, capsys: Capture) -> None:
    """Adapters are added to the weights they belong to, also by a run that goes on after its end; others stay."""
    folder = tmp_path / "model"
    assert deployer("lm", "new", folder, *SIZES, "--seed", 4) == 0
    before = dict(read_model(folder).weights)
    words = ["--text", text, "--lr", 0.03, "--batch-size", 4, "--check-passes", 1, "--lora", "q_proj|up_proj"]
    capsys.readouterr()
    for epochs in (1, 2):
        more = ["--epochs", epochs, "--lora-rank", 2, "--lora-alpha", 8, *["--resume"] * (epochs - 1)]
        assert deployer("lm", "train", folder, *words, *more, "--json") == 0
        assert events(capsys)[-1]["trained"] == 2 * (16 + 16) + 2 * (16 + 24)
        narrow = read_safetensors(folder / "run/trained.safetensors")[0]
        for name, array in read_model(folder).weights.items():
            layer = name.removesuffix(".weight")
            added = 0
            if "q_proj" in name or "up_proj" in name:
                added = 4 * narrow[f"{layer}.lora_B.weight"].astype(float) @ narrow[f"{layer}.lora_A.weight"]
                assert np.abs(added).max() > 0
            assert (array == (before[name] + added).astype(np.float32)).all(), name
    for more, message in (
        (["--lora", "nothing"], "matches no linear layer"),
        (["--lora", "q_proj", "--trainable", "norm"], "--trainable has no effect with --lora"),
        (["--lora-rank", 3], "--lora-rank has no effect here"),
        (["--lora", "q_proj", "--lora-dropout", 1], "dropout of adapters is 1"),
    ):
        assert message in refused(capsys, "lm", "train", folder, "--text", text, *more)
