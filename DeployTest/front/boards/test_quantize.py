"""Modules with a frozen part of 8 bits: files, numbers beside PyTorch and ONNX Runtime, training of the head."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deployer.core.errors import OptionProblem
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn = torch.nn
X = torch.randn(96, 1, 12, 12, generator=torch.Generator().manual_seed(3))
Y = (X.mean((1, 2, 3)) > 0).long()


def net() -> Any:
    """Two convolutions with batch norms that have seen samples, dropout, and a head."""
    torch.manual_seed(0)
    blocks = [nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    blocks += [nn.Conv2d(8, 16, 3, padding=1, groups=8), nn.BatchNorm2d(16), nn.ReLU6()]
    module = nn.Sequential()
    module.add_module("features", nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    module.add_module("drop", nn.Dropout(0.5))
    module.add_module("head", nn.Linear(16, 2))
    module(X)
    return module


@pytest.mark.parametrize(("freeze", "layers"), [(None, 5), (["features"], 4), (["features.0", "features.1"], 2)])
def test_whole_and_frozen(freeze: list[str] | None, layers: int, tmp_path: Path) -> None:
    """Outputs are PyTorch's in evaluation mode to the reported noise; the module is as it was."""
    from DeployTest.quantization.nets import by_reference

    module, out = net(), tmp_path / "net.onnx"
    before = {name: value.clone() for name, value in module.state_dict().items()}
    report = front.quantize(module, (X, Y), out, freeze=freeze, loss="cross_entropy", metrics=["top_2"])
    assert module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert len(report.layers) == layers
    assert report.metrics.keys() == {"loss", "accuracy", "top_2"}
    with torch.no_grad():
        right = module.eval()(X).numpy()
    name, arrays = onnx.load(out).graph.input[0].name, X.numpy()
    assert name
    ours = by_reference(out, arrays, 32, name)
    noise = np.square(ours - right, dtype=np.float64).sum() / np.square(right, dtype=np.float64).sum()
    (snr,) = report.output_snr_db.values()
    assert_close("decibels", np.float32(-10 * np.log10(noise)), np.float32(snr))
    assert snr > 30
    assert report.metrics["accuracy"] == pytest.approx(float((ours.argmax(1) == Y.numpy()).mean()))


def test_head_is_trained(tmp_path: Path) -> None:
    """Exactly what is not frozen is trained, by the module's names; inputs alone calibrate the same file."""
    import deployer

    out, alone = tmp_path / "net.onnx", tmp_path / "alone.onnx"
    front.quantize(net(), (X, Y), out, freeze=["features"])
    front.quantize(net(), X, alone, freeze="^features")
    assert out.read_bytes() == alone.read_bytes()
    run = deployer.fit(out, (X, Y), "cross_entropy", folder=tmp_path / "run", epochs=2)
    assert run.verdict == "passed"
    assert sorted(run.weights) == ["head.bias", "head.weight"]


def test_refused(tmp_path: Path) -> None:
    """A name that no parameter has, a loss that there is not, one without targets, and a file that is there."""
    out = tmp_path / "net.onnx"
    with pytest.raises(OptionProblem, match="below which the module has no parameter") as caught:
        front.quantize(net(), (X, Y), out, freeze=["feature"])
    assert caught.value.facts == (("has", "features, head"),)
    with pytest.raises(OptionProblem, match="no loss 'best'"):
        front.quantize(net(), (X, Y), out, loss="best")
    with pytest.raises(OptionProblem, match="no target"):
        front.quantize(net(), X, out, loss="cross_entropy")
    out.write_text("mine")
    with pytest.raises(OptionProblem, match="exists"):
        front.quantize(net(), X, out)
    assert out.read_text() == "mine"
