"""Arguments of `train` in PyTorch's words: its optimizers and schedulers, functions of the step, unknown names."""

import importlib
import inspect
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import OptionProblem
from deployer.training.settings import declared_settings
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
hyperparameters: Any = importlib.import_module("deployer.fitting.call").hyperparameters
nn = torch.nn
F = torch.nn.functional
X = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(24) % 3
OPTIONS = {"batch_size": 4, "shuffle": False, "epochs": 2, "check_passes": 1}


def perceptron() -> Any:
    """Three layers, whose weights are always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).train()


def by_torch(module: Any, optimizer: Any, scheduler: Any) -> list[float]:
    """The losses of PyTorch's own loop, whose scheduler is stepped after each update."""
    losses = []
    for _ in range(2):
        for i in range(0, 24, 4):
            optimizer.zero_grad()
            value = F.cross_entropy(module(X[i : i + 4]), Y[i : i + 4])
            value.backward()
            optimizer.step()
            scheduler.step()
            losses.append(value.item())
    return losses


SCHEDULERS = {
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 12),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, [0.2, 0.1], total_steps=13, cycle_momentum=False),
    "sequence": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [torch.optim.lr_scheduler.LinearLR(o, 0.1, 1.0, 4), torch.optim.lr_scheduler.ExponentialLR(o, 0.8)],
        [4],
    ),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_an_optimizer_and_its_scheduler(name: str) -> None:
    """Groups of one rate, their settings and their rates are PyTorch's; both objects end as in its loop."""

    def parts(module: Any) -> tuple[Any, Any]:
        groups = [{"params": module[0].parameters(), "momentum": 0.5}, {"params": module[2].parameters()}]
        optimizer = torch.optim.SGD(groups, lr=0.2, weight_decay=0.01)
        return optimizer, SCHEDULERS[name](optimizer)

    module, theirs = perceptron(), perceptron()
    before = {n: p.detach().clone() for n, p in theirs.named_parameters()}
    optimizer, scheduler = parts(module)
    other, follower = parts(theirs)
    trained = front.train(module, (X, Y), F.cross_entropy, optimizer, lr_scheduler=scheduler, **OPTIONS)
    losses = by_torch(theirs, other, follower)
    assert np.allclose(trained.losses, losses, rtol=0, atol=table()["front"]["loss"])
    for n, p in theirs.named_parameters():
        moved = float((p.detach() - before[n]).abs().max())
        assert np.abs(trained.weights[n] - p.detach().numpy()).max() < moved * table()["front"]["movement"]
    assert [group["lr"] for group in optimizer.param_groups] == [group["lr"] for group in other.param_groups]
    assert scheduler.last_epoch == follower.last_epoch == len(losses)


def test_a_function_of_the_step() -> None:
    """It gives the factor of the rate, as LambdaLR takes one; the text of a schedule gives the same bits."""
    named = front.train(
        perceptron(), (X, Y), F.cross_entropy, lr=0.1, lr_scheduler="step:step-size=3,gamma=0.5", **OPTIONS
    )
    halved = front.train(
        perceptron(), (X, Y), F.cross_entropy, lr=0.1, lr_scheduler=lambda i: 0.5 ** (i // 3), **OPTIONS
    )
    assert named.losses == halved.losses
    assert len(set(row.rate for row in named.rows)) > 1


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, mode="max"), "mode is 'max', and 'min'"),
        (
            lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
            r"group 0 has[\s\S]*cycle_momentum=False",
        ),
        (lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.1, 0.2, 3), r"group 0 has[\s\S]*cycle_momentum=False"),
        (lambda o: torch.optim.lr_scheduler.StepLR(torch.optim.SGD(perceptron().parameters()), 1), "another optimizer"),
        (lambda o: 3, "no schedule"),
    ],
)
def test_schedulers_that_are_refused(make: Any, word: str) -> None:
    """A scheduler that a run cannot follow is refused before anything is trained."""
    module = perceptron()
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    with pytest.raises(OptionProblem, match=word):
        front.train(module, (X, Y), F.cross_entropy, optimizer, lr_scheduler=make(optimizer), **OPTIONS)


def test_settings_beside_an_optimizer_of_pytorch() -> None:
    """They would have no effect."""
    module = perceptron()
    for given in ({"lr": 0.2}, {"weight_decay": 0.1}):
        with pytest.raises(OptionProblem, match=f"{next(iter(given))} has no effect"):
            front.train(module, (X, Y), F.cross_entropy, torch.optim.SGD(module.parameters(), 0.1), **given)


def test_groups_as_in_pytorch() -> None:
    """A mapping takes an expression, names or parameters, and all three mean the same."""
    runs = []
    for params in ("bias$", ["0.bias", "2.bias"], None):
        module = perceptron()
        given = [module[0].bias, module[2].bias] if params is None else params
        groups = [{"params": given, "weight_decay": 0.0, "lr": 0.02}]
        options = {"optimizer": "adamw", "weight_decay": 0.1, "lr": 0.05, "param_groups": groups}
        runs.append(front.train(module, (X, Y), F.cross_entropy, **options, **OPTIONS))
    plain = front.train(perceptron(), (X, Y), F.cross_entropy, "adamw", weight_decay=0.1, lr=0.05, **OPTIONS)
    assert runs[0].losses == runs[1].losses == runs[2].losses != plain.losses


@pytest.mark.parametrize(
    ("name", "proposed"),
    [
        ("batch", "batch_size"),
        ("momentun", "momentum"),
        ("warmup", "warmup_steps"),
        ("weight", "class_weights"),
        ("n_accum", "accumulate_grad_batches"),
        ("learning_rates", "lr"),
    ],
)
def test_unknown_arguments(name: str, proposed: str) -> None:
    """They are answered by the name that is meant."""
    with pytest.raises(OptionProblem) as caught:
        front.train(perceptron(), (X, Y), F.cross_entropy, **{name: 1})
    assert caught.value.hint == f"did you mean {proposed}?"


ARE_ELSEWHERE = (
    ("ckpt_path", "resume=True"),
    ("num_workers", "DataLoader"),
    ("device", "this machine"),
    ("initial_epoch", "resume=True"),
    ("log_every_n_steps", "on_step"),
    ("check_val_every_n_epoch", "every epoch", 5),
    ("early_stop", "patience=", True),
    ("steps_per_epoch", "n_steps="),
    ("compute_metrics", "metrics="),
    ("checkpoint_dir", "folder="),
    ("save_total_limit", "folder="),
    ("resume_from", "resume=True"),
    ("min_delta", "EarlyStopping"),
    ("eval_batch_size", "batch_size"),
    ("eval_strategy", "every epoch"),
    ("pin_memory", "leave it out"),
    ("bf16", "float32"),
    ("quantize", "float32"),
    ("log_dir", "loggers"),
    ("x_val", "validation=(x, y)"),
    ("labels", "data=(x, y)"),
    ("max_lr", "OneCycleLR"),
    ("freeze", "requires_grad_(False)"),
    ("num_classes", "output"),
    ("weights", "class_weights"),
)
"""Arguments of other libraries, and a word of what does the same here."""


def test_arguments_that_are_something_else_here() -> None:
    """The error names an alternative."""
    for name, word, *value in ARE_ELSEWHERE:
        with pytest.raises(OptionProblem) as caught:
            front.train(perceptron(), (X, Y), F.cross_entropy, **{name: value[0] if value else 1})
        assert word in caught.value.hint


SAID = {
    "device": torch.device("cpu"),
    "num_workers": 0,
    "pin_memory": False,
    "precision": "32-true",
    "dtype": torch.float32,
    "deterministic": True,
    "logger": None,
    "verbose": True,
}
"""Arguments of other libraries with values that say what is done here anyway."""


def test_values_that_say_what_is_done_anyway() -> None:
    """They are taken, and change nothing; another value is an error that says what is taken."""
    one = front.train(perceptron(), (X, Y), "cross_entropy", **OPTIONS)
    assert front.train(perceptron(), (X, Y), "cross_entropy", **OPTIONS, **SAID).losses == one.losses
    wrong = (("device", "cuda"), ("device", torch.device("cuda", 0)), ("precision", 16), ("num_workers", 4))
    for name, value in wrong:
        for call in (front.train, front.compile_step, front.evaluate):
            with pytest.raises(OptionProblem, match=f"{name} is .*, and nothing here does that") as caught:
                call(perceptron(), (X, Y), "cross_entropy", **{name: value})
            assert caught.value.facts[0][1].split(", ")[0] in ("cpu", "32", "0")
    with pytest.raises(OptionProblem, match="has no argument 'profiler'"):
        front.train(perceptron(), (X, Y), "cross_entropy", profiler="simple")


def test_early_stopping_by_a_number() -> None:
    """It is the patience, or a callback; in what has no epochs it is an error."""
    options = {**OPTIONS, "epochs": 9, "lr": 1e-9, "validation": (X, Y), "check": False}
    own = front.train(perceptron(), (X, Y), "cross_entropy", patience=2, **options)
    callback = importlib.import_module("deployer.callbacks").EarlyStopping(patience=2)
    for given in (2, callback):
        assert front.train(perceptron(), (X, Y), "cross_entropy", early_stopping=given, **options).rows == own.rows
    assert len(own.rows) < 9
    assert len(front.train(perceptron(), (X, Y), "cross_entropy", early_stopping=False, **OPTIONS).rows) == 2
    with pytest.raises(OptionProblem, match="gets patience twice"):
        front.train(perceptron(), (X, Y), "cross_entropy", early_stopping=2, patience=2)


def test_arguments_of_another_function() -> None:
    """The error says which function has them, and a list of arguments has none that a caller cannot give."""
    run = front.train(perceptron(), (X, Y), F.cross_entropy, **OPTIONS)
    for name, word in (("max_epochs", "epochs is an argument of"), ("early_stopping", "arguments of fit and train")):
        for call in (lambda g: front.compile_step(perceptron(), F.cross_entropy, **g), lambda g: run.package("x", **g)):
            with pytest.raises(OptionProblem) as caught:
                call({name: 3})
            assert word in caught.value.hint
    with pytest.raises(OptionProblem) as caught:
        run.package("x", quantize="int8")
    assert "float32" in caught.value.hint
    with pytest.raises(OptionProblem, match=r"arguments +folder, name"):
        run.package("x", colour=1)


def test_weights_of_samples() -> None:
    """A loss function gets them by name, as PyTorch's own loop would."""

    def weighted(output: Any, target: Any) -> Any:
        return (F.cross_entropy(output, target["labels"], reduction="none") * target["weights"]).mean()

    weights, module = torch.linspace(0, 3, 24), perceptron()
    expected = [
        weighted(module(X[i : i + 4]), {"labels": Y[i : i + 4], "weights": weights[i : i + 4]}).item()
        for i in range(0, 24, 4)
    ]
    data = {"input": X, "labels": Y, "weights": weights}
    trained = front.train(module, data, weighted, lr=1e-9, batch_size=4, shuffle=False)
    assert np.allclose(trained.losses, expected, rtol=0, atol=table()["front"]["loss"])


def test_every_setting_is_an_argument() -> None:
    """Each setting that a loss or an optimizer declares is an argument of both ways of training, with its own name."""
    for function in (front.train, front.compile_step):
        names = inspect.signature(function).parameters
        assert all(p.kind is not p.VAR_KEYWORD for p in names.values())
        numbers = {n: 1.0 for n in names if n.replace("_", "-") in declared_settings() and n != "nesterov"}
        assert hyperparameters(betas=(0.8, 0.9), nesterov=True, **numbers).keys() == declared_settings().keys()


def test_best_weights_go_into_the_module() -> None:
    """With validation samples `load_into` gives the best epoch's weights, or the last ones where asked."""
    module = perceptron()
    options = {"lr": 2.0, "validation": (X[:8], (Y[:8] + 1) % 3), **OPTIONS}
    trained = front.train(module, (X, Y), "cross_entropy", **options)
    assert trained.best_epoch == 1 < len(trained.rows)
    assert np.array_equal(front.load_into(module, trained)[0].weight.detach().numpy(), trained.best["0.weight"])
    last = front.load_into(module, trained, "last")[0].weight.detach().numpy()
    assert np.array_equal(last, trained.weights["0.weight"])
    assert not np.array_equal(trained.weights["0.weight"], trained.best["0.weight"])
