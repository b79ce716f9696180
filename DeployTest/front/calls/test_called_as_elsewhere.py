"""Calls with the names and in the forms of PyTorch, Lightning, Keras and Transformers, and what a run then has."""

import importlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.fitting.safetensors import read_safetensors
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
callbacks: Any = importlib.import_module("deployer.callbacks")
names: Any = importlib.import_module("deployer.fitting.argument_names")
nn, F = torch.nn, torch.nn.functional
X = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(24) % 3
OPTIONS = {"batch_size": 4, "shuffle": False, "epochs": 2, "lr": 0.1, "check_passes": 1}


def perceptron() -> Any:
    """Three layers, whose weights are always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).train()


def trained(*data: Any, **given: Any) -> Any:
    """A run of a few passes."""
    return front.train(perceptron(), *data, **{**OPTIONS, **given})


def loader(*arrays: Any) -> Any:
    """Batches of the arrays in their order."""
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*arrays), batch_size=4)


def test_names_of_other_libraries() -> None:
    """They mean what the names here mean, to the bit; both at once are an error."""
    own = front.train(
        perceptron(), loader(X, Y), "cross_entropy", "adam", lr=0.02, epochs=2, validation=loader(X, Y),
        max_grad_norm=0.5, accumulate_grad_batches=2, patience=9, restore_best=True, progress=False,
    )  # fmt: skip
    theirs = front.fit(
        model=perceptron(), train_dataloaders=loader(X, Y), criterion="CrossEntropyLoss", optimizer="Adam",
        learning_rate=0.02, max_epochs=2, eval_dataloader=loader(X, Y), gradient_clipping=0.5,
        gradient_accumulation_steps=2, early_stopping_patience=9, restore_best_weights=True, verbose=0,
    )  # fmt: skip
    fastai = front.fit(
        perceptron(), loader(X, Y), loss_function="cross_entropy", opt_func="adam", lr=0.02, iterations=12, patience=9,
        val_loader=loader(X, Y), grad_clip=0.5, accumulation_steps=2, cbs=[], restore_best=True, progress=False,
    )  # fmt: skip
    assert theirs.losses == own.losses == fastai.losses
    assert theirs.history == own.history == fastai.history
    with pytest.raises(OptionProblem, match="gets lr twice: learning_rate is another name of it"):
        trained((X, Y), loss="cross_entropy", learning_rate=0.1)
    with pytest.raises(OptionProblem, match="gets loss twice"):
        front.train(perceptron(), (X, Y), "cross_entropy", criterion="mse")


def test_every_name_that_is_taken_is_an_argument_somewhere() -> None:
    """No name leads to one that no function has, and none hides one."""
    functions = (front.train, front.compile_step, front.package, front.Trained.package)
    own = {name for f in functions for name in importlib.import_module("inspect").signature(f).parameters}
    assert set(names.TAKEN_AS.values()) <= own
    assert not names.TAKEN_AS.keys() & names.BY_OTHER_MEANS.keys()


def test_inputs_and_target_apart() -> None:
    """`train(module, x, y)` is `train(module, (x, y))`; a loader behind a loader is that of validation."""
    assert trained(X, Y, loss="cross_entropy").losses == trained((X, Y), loss="cross_entropy").losses
    options = {"lr": 0.1, "epochs": 1, "loss": "cross_entropy"}
    one = front.fit(perceptron(), loader(X, Y), loader(X[:8], Y[:8]), **options)
    two = front.fit(perceptron(), loader(X, Y), validation=loader(X[:8], Y[:8]), **options)
    assert one.history == two.history
    assert one.val_losses == one.history["val_loss"] == one.history["validation_loss"]
    with pytest.raises(OptionProblem, match="given twice"):
        front.fit(perceptron(), loader(X, Y), loader(X, Y), validation=loader(X, Y), **options)
    with pytest.raises(KeyError, match=r"'acc' is not in the history, which has .*'val_accuracy' .*train_metrics=True"):
        one.history["acc"]
    with pytest.raises(KeyError, match=r"'f1' is not in the history, which has .*; validation=\.\.\. or train_metrics"):
        one.history["f1"]
    both = front.fit(perceptron(), (X, Y), validation=0.5, train_metrics=True, **options).history
    assert both["acc"] == both["accuracy"] == both["training_accuracy"]
    assert both["val_acc"] == both["validation_accuracy"] == both["validation_acc"]
    assert both["loss"] != both["training_loss"] != both["val_loss"]


LOSSES = {
    "cross_entropy": nn.CrossEntropyLoss(),
    "label_smoothing": nn.CrossEntropyLoss(label_smoothing=0.1, weight=torch.tensor([1.0, 2.0, 0.5])),
    "function": F.cross_entropy,
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_pytorch_have_metrics(name: str) -> None:
    """A loss of torch.nn is known by its name, with its settings: its metrics are those of PyTorch's own outputs."""
    loss = LOSSES[name]
    run = trained((X, Y), loss=loss, validation=(X, Y), metrics=["f1", lambda o, t: (o.argmax(1) == t).float().mean()])
    module = front.load_into(perceptron(), run, "last").eval().double()
    scores = module(X.double()).detach()
    expected = loss.double()(scores, Y) if isinstance(loss, nn.Module) else loss(scores, Y)
    assert run.metrics["loss"] == pytest.approx(float(expected), abs=table()["front"]["loss"])
    accuracy = float((scores.argmax(1) == Y).double().mean())
    assert run.metrics["accuracy"] == accuracy
    assert run.metrics["metric_1"] == float(np.float32(accuracy))  # PyTorch's mean of floats


def test_losses_that_are_not_known_stay_functions() -> None:
    """Another reduction, soft labels and a subclass are trained as they are, and only their loss is measured."""

    class Doubled(nn.CrossEntropyLoss):  # type: ignore[misc,name-defined]
        def forward(self, scores: Any, target: Any) -> Any:
            return 2 * super().forward(scores, target)

    soft = torch.full((24, 3), 1 / 3)
    for loss, target in ((nn.CrossEntropyLoss(reduction="sum"), Y), (Doubled(), Y), (nn.CrossEntropyLoss(), soft)):
        run = trained((X, target), loss=loss, validation=(X, target))
        first = loss(perceptron()(X[:4]), target[:4])
        assert run.losses[0] == pytest.approx(float(first.detach()), abs=table()["front"]["loss"])
        assert list(run.metrics) == ["loss"]


def test_early_stopping_and_checkpoints(tmp_path: Path) -> None:
    """They do what the arguments do; the file has the best epoch's weights, for `load_state_dict`."""
    options = {"loss": "cross_entropy", "validation": (X, (Y + 1) % 3), "epochs": 9}
    own = trained((X, Y), monitor="accuracy", patience=2, restore_best=True, **options)
    saved = callbacks.ModelCheckpoint(tmp_path / "best.pt", monitor="val_accuracy", mode="max")
    stopped = callbacks.EarlyStopping("val_accuracy", patience=2, mode="max", restore_best_weights=True)
    theirs = trained((X, Y), callbacks=[stopped, saved], **options)
    assert theirs.losses == own.losses
    assert theirs.ended == "patience"
    state = torch.load(tmp_path / "best.pt")
    perceptron().load_state_dict(state)
    assert all(np.array_equal(state[n], theirs.best[n]) for n in theirs.best)
    with pytest.raises(OptionProblem, match="given twice"):
        trained((X, Y), callbacks=[stopped], patience=2, **options)
    with pytest.raises(OptionProblem, match="nothing measures 'val_loss'"):
        trained((X, Y), loss="cross_entropy", monitor="val_loss")
    with pytest.raises(ImportError, match=r"no LearningRateMonitor; try the rate of each epoch is in run\.rows"):
        importlib.import_module("deployer.callbacks").LearningRateMonitor  # noqa: B018


def test_what_a_run_has(tmp_path: Path) -> None:
    """Predictions and metrics are those of the module with the trained weights; a pickled run keeps all but these."""
    run = trained((X, Y), loss=nn.CrossEntropyLoss(), validation=(X[:8], Y[:8]))
    module = front.load_into(perceptron(), run).eval()
    expected = module.double()(X[:7].double()).detach().numpy()
    np.testing.assert_allclose(run.predict(X[:7]), expected, **table()["several"]["float32"])
    assert {n: x.tolist() for n, x in run.state_dict().items()} == {
        n: x.float().tolist() for n, x in module.state_dict().items()
    }
    assert run.evaluate(X[:8], Y[:8])["accuracy"] == run.rows[run.best_epoch - 1].metrics["accuracy"]
    assert run.export_onnx(tmp_path / "net.onnx").is_file()
    again = pickle.loads(pickle.dumps(run))
    assert again.losses == run.losses
    again.package(tmp_path / "net", compiled=False)
    assert (tmp_path / "net/include/net.h").is_file()
    with pytest.raises(OptionProblem, match="no module"):
        again.predict(X)
    with pytest.raises(OptionProblem, match=r"validated no samples with classes[\s\S]*run\.predict"):
        print(trained(X, Y, "cross_entropy").confusion_matrix)
    validated = trained(X, Y, "cross_entropy", validation=(X, Y))
    found = front.load_into(perceptron(), validated, "last")(X).argmax(1)
    pairs = list(zip(Y.tolist(), found.tolist(), strict=True))
    assert validated.confusion_matrix.tolist() == [[pairs.count((a, b)) for b in range(3)] for a in range(3)]
    with pytest.raises(AttributeError, match=r"try run\.save\(path\)"):
        run.save_weights("x")
    with pytest.raises(AttributeError, match=r"try library\.manifest\[\"bytes\"\]"):
        print(run.package(tmp_path / "sizes", compiled=False).flash)
    with pytest.raises(AttributeError, match=r"'deployer\.torch' has no attribute 'export'; try package\(module"):
        front.export  # noqa: B018
    assert not hasattr(front, "nothing")
    kept = torch.load(run.save(tmp_path / "net.pt"), weights_only=True)
    assert all(torch.equal(kept[name], x) for name, x in run.state_dict().items())
    arrays, _ = read_safetensors(run.save(tmp_path / "net.safetensors"))
    assert {n: x.tolist() for n, x in arrays.items()} == {n: x.tolist() for n, x in run.state_dict().items()}


def with_statistics() -> Any:
    """Running statistics and their counter between two layers, whose weights are always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).train()


def test_the_module_is_trained(tmp_path: Path) -> None:
    """A run trains the module itself, as a loop of PyTorch does: weights, statistics and counters of its last pass."""
    module, options = with_statistics(), {**OPTIONS, "folder": tmp_path}
    before = {name: x.clone() for name, x in module.state_dict().items()}
    run = front.train(module, (X, Y), "cross_entropy", **options)
    assert module.training
    assert all(not torch.equal(x, before[name]) for name, x in module.state_dict().items())
    assert all(torch.equal(x, run.state_dict()[name]) for name, x in module.state_dict().items())
    assert int(module[1].num_batches_tracked) == len(run.losses) == 12
    again = front.train(module, (X, Y), "cross_entropy", **OPTIONS)
    assert again.losses[0] < run.losses[0]
    assert int(module[1].num_batches_tracked) == 24


def test_a_call_that_fails_leaves_the_module(tmp_path: Path) -> None:
    """A run that diverges, one that is interrupted, and one that cannot go on leave the module as it was."""

    class Interrupting(callbacks.Callback):
        def on_step(self, *_: Any) -> None:
            raise KeyboardInterrupt

    module, options = with_statistics(), {**OPTIONS, "folder": tmp_path}
    front.train(with_statistics(), (X, Y), "cross_entropy", **options)
    before = {name: x.clone() for name, x in module.state_dict().items()}
    failing: list[tuple[type[BaseException], dict[str, Any]]] = [
        (DatasetMismatch, {"overfit": 4, "lr": 1e-6}),
        (KeyboardInterrupt, {"callback": Interrupting()}),
        (OptionProblem, {"resume": True, "momentum": 0.5, "folder": tmp_path}),
    ]
    for kind, changes in failing:
        with pytest.raises(kind):
            front.train(module, (X, Y), "cross_entropy", **{**OPTIONS, "epochs": 3, **changes})
        assert all(torch.equal(x, before[name]) for name, x in module.state_dict().items())


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    """It does so from its checkpoint, with the trained module, with one made anew or with other random weights."""
    module, options = with_statistics(), {**OPTIONS, "folder": tmp_path}
    whole = front.train(with_statistics(), (X, Y), "cross_entropy", **{**OPTIONS, "epochs": 5})
    front.train(module, (X, Y), "cross_entropy", **options)
    other = with_statistics()
    nn.init.ones_(other[0].weight)
    for epochs, given in ((3, module), (4, with_statistics()), (5, other)):
        on = front.train(given, (X, Y), "cross_entropy", resume=True, **{**options, "epochs": epochs})
        assert on.losses == whole.losses[: len(on.losses)]
        assert int(given[1].num_batches_tracked) == len(on.losses) == 6 * epochs
    assert all(torch.equal(x, whole.state_dict()[name]) for name, x in other.state_dict().items())
    frozen = with_statistics()
    frozen[3].weight.requires_grad_(False).mul_(2)
    for wrong in (frozen, nn.Sequential(nn.Linear(6, 3))):
        with pytest.raises(OptionProblem, match="belongs to another run: evaluated, model differ"):
            front.train(wrong, (X, Y), "cross_entropy", resume=True, **{**options, "epochs": 6})
    on = front.train(module, (X, Y), "cross_entropy", resume=True, **{**options, "epochs": 6})
    assert on.losses[:-6] == whole.losses


def test_a_run_that_does_not_begin(tmp_path: Path) -> None:
    """It leaves the run that is in its folder as it is, which can go on."""

    class Stopping(callbacks.Callback):
        def on_stage(self, *_: Any) -> None:
            raise KeyboardInterrupt

    options, other = {**OPTIONS, "folder": tmp_path}, with_statistics()
    begun = front.train(with_statistics(), (X, Y), "cross_entropy", **options)
    nn.init.ones_(other[0].weight)
    with pytest.raises(KeyboardInterrupt):
        front.train(other, (X, Y), "cross_entropy", **options, callback=Stopping())
    on = front.train(other, (X, Y), "cross_entropy", resume=True, **{**options, "epochs": 3})
    assert on.losses[: len(begun.losses)] == begun.losses


def test_losses_and_optimizers_in_other_forms() -> None:
    """A class is taken with its usual settings, names as elsewhere, and a function that makes an optimizer."""
    one = trained((X, Y), loss="cross_entropy", optimizer="adam").losses
    for loss in (nn.CrossEntropyLoss, "ce", "CrossEntropyLoss"):
        given = {"optimizer": lambda p: torch.optim.Adam(p, lr=0.1), "lr": None}
        assert trained((X, Y), loss=loss, **given).losses == one
    choose = importlib.import_module("deployer.torch.loss_choice").choose_loss
    written = {"mean_squared_error": "mse", "binary_cross_entropy_with_logits": "bce_with_logits"}
    assert {text: choose(text, {})[0].name for text in written} == written
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("loss is the class Linear", {"loss": nn.Linear}),
        ("loss is the class dict", {"loss": dict}),
        ("optimizer is no optimizer", {"loss": "mse", "optimizer": [torch.optim.Adam]}),
        ("the class StepLR", {"loss": "mse", "lr_scheduler": torch.optim.lr_scheduler.StepLR}),
        (
            "lr_scheduler is no schedule",
            {"loss": "mse", "lr_scheduler": lambda o: torch.optim.lr_scheduler.StepLR(o, 2)},
        ),
    ]
    for match, given in wrong:
        with pytest.raises(OptionProblem, match=match):
            trained((X, Y), **given)
