"""Warnings about parameters that an exporter merged, folded or left out."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deployer.core.errors import DeployerWarning
from deployer.training.train_graph import build_train_graph
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.small_graphs import Model, node, value

pytestmark = [pytest.mark.host, pytest.mark.training]


def _warnings(path: Path, folder: Path, expected: tuple[str, ...] = (), trainable: str = "") -> list[DeployerWarning]:
    found: list[DeployerWarning] = []
    build_train_graph(path, "mse", "sgd", 0.01, trainable, folder, samples=1, expected=expected, warn=found.append)
    return found


def _chain(name: str, values: np.ndarray[Any, Any]) -> Model:
    """Two products with the same factor."""
    factor = onnx.numpy_helper.from_array(values.astype(np.float32), name)
    nodes = (node("Mul", ("x", name), ("h",)), node("Mul", ("h", name), ("y",)))
    return Model(nodes, (value("x", (2, 3)),), (value("y", (2, 3)),), (factor,))


@pytest.mark.parametrize(
    ("name", "values", "expected", "said"),
    [
        ("scale", np.ones(3), (), ["'scale' has equal values, and several nodes train it as one tensor"]),
        ("scale", np.arange(3.0), (), []),
        ("scale", np.ones(1), (), []),
        ("onnx::Mul_12", np.arange(3.0), (), ["parameters have names of the exporter's"]),
        ("const_fold_opt__48", np.ones(1), (), ["parameters have names of the exporter's"]),
        ("scale", np.arange(3.0), ("scale",), []),
        ("scale", np.arange(3.0), ("scale", "bias"), ["the file lacks parameters of the module"]),
    ],
)
def test_signs(name: str, values: Any, expected: tuple[str, ...], said: list[str], tmp_path: Path) -> None:
    """Each sign has its warning, which names the call that keeps parameters; files without one have none."""
    found = _warnings(_chain(name, values).save(tmp_path / "net.onnx"), tmp_path, expected, name)
    assert len(found) == len(said)
    for warning, words in zip(found, said, strict=True):
        assert words in warning.cause
        assert "optimize=False" in warning.hint


@pytest.mark.parametrize(("mode", "pattern", "said"), [(0, "", 1), (0, "^w$", 0), (1, "", 0)])
def test_norms_in_use(mode: int, pattern: str, said: int, tmp_path: Path) -> None:
    """One whose parameters are trained while its statistics stand still has a warning; one that is frozen has none."""
    names = ("scale", "bias", "mean", "var")
    constants = [onnx.numpy_helper.from_array(np.arange(1, 4, dtype=np.float32), name) for name in names]
    constants += [onnx.numpy_helper.from_array(np.ones((3, 3), np.float32), "w")]
    outputs = ("n", "m", "v") if mode else ("n",)
    nodes = (
        node("MatMul", ("x", "w"), ("h",)),
        node("BatchNormalization", ("h", *names), outputs, training_mode=mode),
        node("Relu", ("n",), ("y",)),
    )
    model = Model(nodes, (value("x", (2, 3)),), (value("y", (2, 3)),), tuple(constants))
    found: list[DeployerWarning] = []
    path = model.save(tmp_path / "net.onnx")
    build_train_graph(path, "mse", "sgd", 0.01, pattern, tmp_path, samples=1, warn=found.append)
    assert ["inference mode" in warning.cause for warning in found] == [True] * said


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The names come from a file."""
    path = _chain("scale", np.arange(3.0)).save(tmp_path / "net.onnx")
    (tmp_path / "names.txt").write_text("scale\n\nbias\n")
    words = ["train-graph", path, "--loss", "mse", "-o", tmp_path / "case", "--parameters", tmp_path / "names.txt"]
    assert deployer(*words) == 0
    assert "missing        'bias'" in capsys.readouterr().err
    for content, text in ((b"\n \n", "has no names"), (b"\xff\xfe", "is not text")):
        (tmp_path / "names.txt").write_bytes(content)
        assert deployer(*words, "--force") == 2
        assert text in capsys.readouterr().err


@pytest.mark.torch
def test_exporters(tmp_path: Path) -> None:
    """Changes by PyTorch's exporters are warned about, and the calls that the warning names avoid them."""
    if not (importlib.util.find_spec("torch") and importlib.util.find_spec("onnxscript")):
        pytest.skip("PyTorch and onnxscript are not installed")
    torch: Any = importlib.import_module("torch")

    class Net(torch.nn.Module):
        """A folded batch norm, two equal layer norms, a bias of zeros."""

        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4)
            self.first, self.second = torch.nn.LayerNorm(6), torch.nn.LayerNorm(6)
            self.head = torch.nn.Linear(144, 3)
            torch.nn.init.zeros_(self.head.bias)

        def forward(self, x: Any) -> Any:
            """Images to scores."""
            h = self.first(torch.relu(self.norm(self.conv(x))))
            return self.head(self.second(torch.relu(h)).flatten(1))

    training = {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False}
    for words, least in (
        ({"dynamo": False}, 4),
        ({"dynamo": True}, 3),
        ({"dynamo": False, **training}, 0),
        ({"dynamo": True, "optimize": False}, 1),
    ):
        module = Net().train("training" in words)
        names = tuple(name for name, _ in module.named_parameters())
        path = tmp_path / "net.onnx"
        torch.onnx.export(module, (torch.randn(2, 1, 8, 8),), path, verbose=False, **words)
        found = _warnings(path, tmp_path, names)
        causes = "\n".join(warning.cause for warning in found)
        assert ("inference mode" in causes) == (least == 1)
        if least > 1:
            assert "the file lacks parameters" in causes
        assert ("names of the exporter's" in causes) == (least == 4)
        assert bool(found) == bool(least), (words, causes)
