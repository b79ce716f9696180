"""Loss and metrics of a module that is not trained, beside PyTorch's own."""

import importlib
from typing import Any

import pytest

from deployer.core.errors import DatasetMismatch, OptionProblem
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn, F = torch.nn, torch.nn.functional
X = torch.randn(50, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(50) % 3


def with_statistics() -> Any:
    """A module that is another one in evaluation mode, whose weights are always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 3)).train()


def test_a_module_is_measured() -> None:
    """Loss and metrics of all samples as one batch are PyTorch's in evaluation mode; the module stays as it is."""
    module = with_statistics()
    before = {name: x.clone() for name, x in module.state_dict().items()}
    weighted = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=7)
    one = front.evaluate(module, (X, Y), loss=weighted, metrics=["accuracy"], top=[2])
    assert one == front.evaluate(module, loader, weighted, top=[2]) == front.evaluate(module, X, Y, weighted, top=[2])
    assert module.training
    assert all(torch.equal(x, before[name]) for name, x in module.state_dict().items())
    scores = module.eval().double()(X.double()).detach()
    assert one["loss"] == pytest.approx(float(weighted.double()(scores, Y)), abs=table()["front"]["loss"])
    assert one["accuracy"] == float((scores.argmax(1) == Y).double().mean())
    assert one["top_2"] == float((scores.topk(2).indices == Y[:, None]).any(1).double().mean())


def test_losses_that_are_functions_are_measured() -> None:
    """They get all outputs and targets at once; what else they compare is not known."""
    module = with_statistics()
    own = {"own": lambda output, target: (output.argmax(1) == target).double().mean()}
    found = front.evaluate(module, (X, Y), nn.CrossEntropyLoss(reduction="sum"), metrics=own)
    scores = module.eval().double()(X.double()).detach()
    expected = float(F.cross_entropy(scores, Y, reduction="sum"))
    assert found["loss"] == pytest.approx(expected, abs=len(X) * table()["front"]["loss"])
    assert found["own"] == float((scores.argmax(1) == Y).double().mean())
    with pytest.raises(OptionProblem, match="nothing measures 'accuracy'"):
        front.evaluate(module, (X, Y), lambda output, target: F.cross_entropy(output, target), metrics="accuracy")
    with pytest.raises(OptionProblem, match="nothing but the loss of training"):
        front.evaluate(nn.Identity(), {"input": X}, "model")
    with pytest.raises(OptionProblem, match="delta is no setting of the loss"):
        front.evaluate(module, (X, Y), "cross_entropy", delta=1.0)
    with pytest.raises(DatasetMismatch, match=r"different numbers of samples: \[50, 49\]"):
        front.evaluate(module, (X, Y[1:]), "cross_entropy")
