"""Modules of libraries that come from PyTorch: a step, a run and a module, each as a class that goes on."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import OptionProblem
from deployer.core.safe_text import parameter_name
from DeployTest.firmware.bindings.modules import built, imported

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn = torch.nn
BATCH, PASSES = 4, 5


def net() -> Any:
    """A perceptron with the same weights always."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def samples() -> tuple[Any, Any]:
    """A batch of each pass."""
    draw = torch.Generator().manual_seed(1)
    return torch.randn((PASSES, BATCH, 6), generator=draw), torch.randint(3, (PASSES, BATCH), generator=draw)


def module_in(library: Any) -> Any:
    """The module of a library, built and imported."""
    return imported(built(library.folder))


def test_a_step_goes_on(tmp_path: Path) -> None:
    """A library of a step begins with its weights and makes the same updates, by Adam with its state."""
    module, (xs, ys) = net(), samples()
    step = front.compile_step(module, nn.functional.cross_entropy, torch.optim.Adam(module.parameters()), cores=1)
    for x, y in zip(xs[:2], ys[:2], strict=True):
        step(x, y)
    model = module_in(step.package(tmp_path / "net", python=True)).Model()
    for x, y in zip(xs[2:], ys[2:], strict=True):
        loss = step(x, y)
        assert np.float32(model.train_step(x.numpy(), y.numpy().astype(np.int32))) == np.float32(loss)
        model.update()
    assert model.weights.keys() == {parameter_name(name) for name in step.weights}
    for name, array in step.weights.items():
        assert model.weights[parameter_name(name)].tobytes() == array.numpy().tobytes(), name


def test_a_run_and_a_module_predict(tmp_path: Path) -> None:
    """Both predict what their modules do; one without a loss cannot train."""
    module, (xs, ys) = net(), samples()
    data = (xs.flatten(0, 1), ys.flatten())
    run = front.train(module, data, "cross_entropy", batch_size=BATCH)
    trains = module_in(run.package(tmp_path / "run", python=True))
    predicts = module_in(front.package(net(), xs[0, :1], tmp_path / "module", python=True))
    x = xs[1, :1]
    with torch.no_grad():
        np.testing.assert_allclose(trains.Model().predict(x.numpy()), run.predict(x), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(predicts.Model().predict(x.numpy()), net()(x), rtol=1e-5, atol=1e-6)
    assert hasattr(trains.Model, "train_step")
    assert not hasattr(predicts.Model, "train_step")


def test_a_name_of_python_is_refused(tmp_path: Path) -> None:
    """A folder whose name is a module of Python gives the module no name."""
    with pytest.raises(OptionProblem, match="is a module of Python"):
        front.package(net(), samples()[0][0], tmp_path / "keyword", python=True)
