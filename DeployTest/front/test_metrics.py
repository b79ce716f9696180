"""Metrics of modules: functions of tensors, training beside validation, values beside PyTorch's own, best weights."""

import importlib
from typing import Any

import pytest

from deployer.core.errors import OptionProblem

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn, F = torch.nn, torch.nn.functional
X = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
Y = X[:, :3].argmax(1)
OPTIONS: dict[str, Any] = {"batch_size": 5, "lr": 0.05, "check_passes": 1, "check": False}


def linear(outputs: int) -> Any:
    """A layer whose weights are always the same."""
    torch.manual_seed(0)
    return nn.Linear(6, outputs)


def hits(output: Any, target: Any) -> Any:
    """Accuracy by PyTorch, on tensors."""
    return (output.argmax(1) == target).float().mean()


def test_functions_of_tensors() -> None:
    """The function gets all samples once, without those that fill up the last batch; the values are PyTorch's."""
    module, shapes = linear(3), list[Any]()

    def shape(output: Any, target: Any) -> float:
        shapes.append((tuple(output.shape), tuple(target.shape)))
        return 0.0

    asked = {"metrics": [hits, shape, "confusion_matrix"], "train_metrics": True}
    trained = front.train(module, (X, Y), "cross_entropy", "adam", epochs=2, **OPTIONS, **asked)
    assert shapes == [((24, 3), (24,))] * 2
    row = trained.rows[-1]
    front.load_into(module, trained, "last")
    output = module(X).detach()
    assert row.train_metrics["hits"] == pytest.approx(hits(output, Y).item(), rel=1e-7)
    assert row.train_metrics["accuracy"] == (output.argmax(1) == Y).double().mean().item()
    pairs = list(zip(Y.tolist(), output.argmax(1).tolist(), strict=True))
    assert row.confusion_matrix == tuple(tuple(pairs.count((q, p)) for p in range(3)) for q in range(3))
    assert not row.metrics


def test_values_in_another_shape() -> None:
    """A target [n] beside an output [n, 1]: the metrics compare them sample by sample."""
    module, target = linear(1), X[:, 0] * 2
    trained = front.train(module, (X, target), "mse", "sgd", validation=(X, target), metrics=["rmse", "r2"], **OPTIONS)
    front.load_into(module, trained, "last")
    off, found = module(X).detach().double()[:, 0] - target.double(), trained.rows[-1].metrics
    spread = (target.double() - target.double().mean()).square()
    expected = {
        "loss": off.square().mean().item(),
        "mean_absolute_error": off.abs().mean().item(),
        "rmse": off.square().mean().sqrt().item(),
        "r2": (1 - off.square().sum() / spread.sum()).item(),
    }
    assert found == pytest.approx(expected, rel=1e-5)


def test_restored() -> None:
    """The trained weights are those of the best epoch, whichever of both the module is given."""
    wrong = (X, (Y + 1) % 3)
    trained = front.train(
        linear(3), (X, Y), "cross_entropy", "adam", epochs=4, validation=wrong, restore_best=True, **OPTIONS
    )
    assert trained.best_epoch == 1
    last, best = (front.load_into(linear(3), trained, weights) for weights in ("last", "best"))
    assert torch.equal(last.weight, best.weight)
    assert any("the trained weights are those of epoch 1" in note for note in trained.notes)
    loss = F.cross_entropy(last(wrong[0]), wrong[1]).item()
    assert loss == pytest.approx(trained.rows[0].metrics["loss"], rel=1e-5)


def test_what_cannot_be_measured() -> None:
    """A loss that is a function has no other metric, and a loader is read batch by batch: both are told."""
    with pytest.raises(OptionProblem, match="nothing measures 'f1': the loss is not one by name"):
        front.train(linear(3), (X, Y), lambda a, b: F.cross_entropy(a, b) * 2, validation=0.2, metrics="f1", **OPTIONS)
    with pytest.raises(OptionProblem, match="did you mean restore_best"):
        front.train(linear(3), (X, Y), "cross_entropy", restore_bests=True, **OPTIONS)


def loader(shuffled: bool = False) -> Any:
    """The samples by fives."""
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=5, shuffle=shuffled)


def test_metrics_without_validation() -> None:
    """Training samples are measured, of arrays and of a loader alike; where they are not to be, the error says so."""
    more: dict[str, Any] = {**OPTIONS, "metrics": ["f1"], "batch_size": None, "shuffle": None}
    arrays = front.train(linear(3), (X, Y), "cross_entropy", **{**more, "batch_size": 5, "shuffle": False})
    run = front.train(linear(3), loader(), "cross_entropy", **more)
    assert run.losses == arrays.losses
    assert run.metrics == run.rows[-1].train_metrics == arrays.rows[-1].train_metrics
    assert run.history["f1"] == [run.metrics["f1"]]
    with pytest.raises(OptionProblem, match="nothing measures 'f1'") as caught:
        front.train(linear(3), (X, Y), "cross_entropy", train_metrics=False, **more)
    assert caught.value.hint == "validation samples, or train_metrics"


def test_a_loader_that_is_measured() -> None:
    """It is trained on in the same order as without, and the metrics are PyTorch's after the last epoch."""
    options = {"lr": 0.05, "epochs": 3, "check_passes": 1, "check": False, "metrics": ["accuracy"]}
    runs, module = list[Any](), linear(3)
    for given in ({"train_metrics": True}, {"train_metrics": False, "validation": (X, Y)}):
        torch.manual_seed(3)
        module.load_state_dict(linear(3).state_dict())
        torch.manual_seed(3)
        runs.append(front.train(module, loader(True), "cross_entropy", **options, **given))
    assert runs[0].losses == runs[1].losses
    measured = [row.train_metrics["accuracy"] for row in runs[0].rows]
    assert measured == [row.metrics["accuracy"] for row in runs[1].rows] == runs[0].history["acc"]
    front.load_into(module, runs[0], "last")
    assert measured[-1] == (module(X).argmax(1) == Y).double().mean().item()


@pytest.mark.parametrize("name", ["bce", "bce_with_logits"])
def test_truths(name: str) -> None:
    """Accuracy, precision, recall and F1 of a loss over 0 and 1 are PyTorch's, with 1 as the class that is found."""
    target = (X[:, :1] > 0.3).float()
    module = nn.Sequential(linear(1), *([nn.Sigmoid()] if name == "bce" else []))
    loss = nn.BCELoss() if name == "bce" else nn.BCEWithLogitsLoss()
    asked = {"metrics": ["binary_accuracy", "precision", "recall", "f1"], "validation": (X[:20], target[:20])}
    run = front.train(module, (X, target), loss, "adam", **OPTIONS, **asked)
    front.load_into(module, run, "last")
    output = module(X[:20]).detach().double()
    found, truth = (output if name == "bce" else output.sigmoid()) > 0.5, target[:20] > 0
    right, wrong, missed = (int(x.sum()) for x in (found & truth, found & ~truth, ~found & truth))
    assert min(right, wrong, missed) > 0
    precision, recall = right / (right + wrong), right / (right + missed)
    assert run.metrics["accuracy"] == (found == truth).double().mean().item()
    assert (run.metrics["precision"], run.metrics["recall"]) == (precision, recall)
    assert run.metrics["f1"] == pytest.approx(2 * precision * recall / (precision + recall), rel=1e-12)
    assert run.evaluate(X[:20], target[:20], metrics=["acc"])["accuracy"] == run.metrics["accuracy"]
    with pytest.raises(OptionProblem, match="nothing measures 'top_5': it compares labels"):
        front.evaluate(module, (X, target), loss, metrics=["top5"])
