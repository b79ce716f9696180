"""`deployer quantize` of a trained net: accuracy beside ONNX Runtime's tool, report, errors, and a head behind it."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime import quantization as peer

from deployer.core.operator import Array
from deployer.fitting.call import fit
from deployer.fitting.export import export_weights
from DeployTest.quantization.nets import BATCH, by_reference, by_runtime, classifier
from DeployTest.quantized.models import calibration_reader
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]
CLASSES, TRAINED, TESTED = 3, 240, 400


def _drawn(count: int, seed: int) -> dict[str, Array]:
    """Images of three patterns below noise, of which a trained net tells most apart."""
    patterns = np.random.default_rng(5).standard_normal((CLASSES, 2, 8, 8))
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, CLASSES, count)
    noise = 2.6 * draw.standard_normal((count, 2, 8, 8))
    return {"x": (patterns[labels] + noise).astype(np.float32), "labels": labels.astype(np.int64)}


class Place:
    """A trained classifier, and files of samples."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        bare = classifier().save(folder / "bare.onnx", "head.out")
        self.train, self.test = _drawn(TRAINED, 1), _drawn(TESTED, 2)
        fit(bare, self.train, "cross_entropy", folder=folder / "run", optimizer="adam", lr=0.01, epochs=4)
        self.model = folder / "net.onnx"
        export_weights(bare, folder / "run/trained.npz", self.model)
        self.data, self.tested = folder / "train.npz", folder / "test.npz"
        np.savez(self.data, x=self.train["x"], labels=self.train["labels"])
        np.savez(self.tested, x=self.test["x"], labels=self.test["labels"])

    def quantize(self, name: str, *words: object) -> Path:
        """Run the command."""
        out = self.folder / name
        assert deployer("quantize", self.model, "--data", self.data, "-o", out, "--force", *words) == 0
        return out

    def accuracy(self, scores: Array) -> float:
        """The share of the tested samples that scores are right of."""
        return float((scores.argmax(1) == self.test["labels"]).mean())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """One for all tests."""
    return Place(tmp_path_factory.mktemp("quantized"))


@pytest.mark.parametrize(
    "words", [(), ("--per-tensor",), ("--method", "percentile", "--percentile", "99.9"), ("--freeze", "features")]
)
def test_accuracy(words: tuple[str, ...], place: Place) -> None:
    """At most 1 % of the samples less than by floats, and than by ONNX Runtime's own tool."""
    out, other = place.quantize("quantized.onnx", *words), place.folder / "peer.onnx"
    kind, per_channel = peer.QuantType.QInt8, "--per-tensor" not in words
    form = {"quant_format": peer.QuantFormat.QDQ, "activation_type": kind, "weight_type": kind}
    peer.quantize_static(
        place.model,
        other,
        calibration_reader([{"x": part} for part in np.split(place.train["x"], len(place.train["x"]) // BATCH)]),
        per_channel=per_channel,
        **form,
    )
    x = place.test["x"]
    floats, theirs, ours = (by_runtime(path, x) for path in (place.model, other, out))
    right = place.accuracy(floats)
    assert 0.6 < right < 0.99
    assert place.accuracy(ours) >= max(right, place.accuracy(theirs)) - 0.01
    np.testing.assert_array_equal(ours.argmax(1), by_reference(out, x).argmax(1))


def test_report(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line of JSON has layers, bytes, and metrics as the outputs of ONNX Runtime have them."""
    capsys.readouterr()
    out = place.folder / "reported.onnx"
    words = ("--loss", "cross_entropy", "--metric", "top_2", "--json", "-o", out)
    assert deployer("quantize", place.model, "--data", place.tested, *words) == 0
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (record["event"], record["output"], record["samples"]) == ("end", str(out), TESTED)
    assert [row["op"] for row in record["layers"]] == ["Conv", "MaxPool", "Conv", "AveragePool", "Gemm"]
    for metrics, path in (("float_metrics", place.model), ("metrics", out)):
        assert record[metrics]["accuracy"] == pytest.approx(place.accuracy(by_runtime(path, place.test["x"])))
        assert record[metrics].keys() == {"loss", "accuracy", "top_2"}
    for name, row in (("c", record["layers"][2]), ("head.out", record["layers"][4])):
        floats, eights = (_value(path, row["value"], place.test["x"]) for path in (place.model, out))
        noise = np.square(floats - eights, dtype=np.float64).sum() / np.square(floats, dtype=np.float64).sum()
        assert row["value"] == name
        measured = np.array([row["snr_db"], row["relative_error"]], np.float32)
        assert_close("noise", measured, np.array([-10 * np.log10(noise), np.sqrt(noise)], np.float32))
        assert row["weight_scales"][0] <= row["weight_scales"][1]
    assert record["bytes_after"] < 0.35 * record["bytes_before"]
    assert record["folded"] == [["features.1.out", "features.0.out"]]
    few = BATCH + 2
    for count in (1, few):  # the last batch is filled up, and what fills it does not count
        assert deployer("quantize", place.model, "--data", place.tested, "--samples", count, "--force", *words) == 0
        record = json.loads(capsys.readouterr().out.splitlines()[-1])
        right = by_runtime(out, place.test["x"][: 2 * BATCH])[:count].argmax(1) == place.test["labels"][:count]
        assert record["metrics"]["accuracy"] == pytest.approx(right.mean())
    assert deployer("quantize", place.model, "--data", place.tested, *words[:2], "-o", out, "--force") == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("features.3.out", "SNR dB", "accuracy:", "of 8 bits", "B after"))


def _value(path: Path, name: str, x: Array) -> Array:
    """A value of a file by ONNX Runtime, dequantized where it has 8 bits."""
    model = onnx.load(path)
    made = {out for node in model.graph.node for out in node.output}
    found = next(each for each in (f"{name}/dequantized", name) if each in made)
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info(found, 1, None))
    return by_runtime(model.SerializeToString(), x)


def test_head_is_trained(place: Place) -> None:
    """The head behind a quantized part trains as the float model's does, and the whole file runs compiled."""
    out = place.quantize("frozen.onnx", "--freeze", "^features")
    run = place.folder / "head"
    words = ("--loss", "cross_entropy", "--epochs", "1", "--lr", "0.001")
    assert deployer("fit", out, "--data", place.data, *words, "-o", run) == 0
    with np.load(run / "trained.npz") as trained:
        assert sorted(trained.files) == ["head.bias", "head.weight"]
    whole = place.quantize("whole.onnx")
    assert deployer("infer", "-t", whole, "-o", place.folder / "infer") == 0


def test_samples(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """The first samples alone, as many as are asked for; the same model from the same request, to the last byte."""
    capsys.readouterr()
    few = place.quantize("few.onnx", "--samples", "8", "--json")
    found = capsys.readouterr()
    assert json.loads(found.out.splitlines()[-1])["samples"] == 8
    assert not found.err, "labels that nothing asks for are no oddity"
    np.savez(place.folder / "few.npz", x=place.train["x"][:8])
    again = place.folder / "again.onnx"
    assert deployer("quantize", place.model, "--data", place.folder / "few.npz", "-o", again) == 0
    assert few.read_bytes() == again.read_bytes()


def test_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing and unfit samples, options without effect, and a file that is there: exit code 2, with a way out."""
    out = place.folder / "refused.onnx"
    words = ("quantize", place.model, "-o", out)
    wrong = place.folder / "wrong.npz"
    np.savez(wrong, x=np.zeros((5, 2, 8, 7), np.float32))
    np.savez(place.folder / "none.npz", x=np.zeros((0, 2, 8, 8), np.float32))
    np.savez(place.folder / "nan.npz", x=np.full((8, 2, 8, 8), np.nan, np.float32))
    for data, cause in (
        (place.folder / "absent.npz", "absent.npz"),
        (wrong, "has no samples for 'x'"),
        (place.folder / "none.npz", "no samples"),
        (place.folder / "nan.npz", "'x'"),
    ):
        message = refused(capsys, *words, "--data", data)
        assert cause in message
        assert " try " in message or "expected" in message, message
    given = (*words, "--data", place.data)
    assert "--method percentile" in refused(capsys, *given, "--percentile", "99")
    for idle in (("--metric", "top_2"), ("--target", place.folder / "y.npy"), ("--target-column", "kind")):
        assert "add the --loss" in refused(capsys, *given, *idle)
    assert "found in no parameter's name" in refused(capsys, *given, "--freeze", "nothing")
    assert "no share" in refused(capsys, *given, "--method", "percentile", "--percentile", "0")
    np.savez(wrong, x=place.train["x"][:8], labels=np.full(8, CLASSES))
    assert f"holds {CLASSES}, which is no class" in refused(capsys, *words, "--data", wrong, "--loss", "cross_entropy")
    assert not out.exists()
    out.write_bytes(b"mine")
    assert "--force" in refused(capsys, *given)
    assert out.read_bytes() == b"mine"
    assert "is not a folder" in refused(capsys, "quantize", place.model, "--data", place.data, "-o", out / "x.onnx")
