"""A training step for a loop in Python: the bits of `train`, PyTorch's numbers, its state, and what it refuses."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch, DeployerWarning, FileProblem, OptionProblem, RunFailed
from deployer.running import output
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
run_time: Any = importlib.import_module("deployer.lr_schedules.run_time")
nn = torch.nn
F = torch.nn.functional


def draw(*shape: int) -> Any:
    """Normal numbers from a fixed seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def perceptron() -> Any:
    """Three layers, whose weights are always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).train()


def with_states() -> Any:
    """Batch norm and dropout."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)).train()


X, Y = draw(24, 6), torch.arange(24) % 3
BATCHES = [(X[i : i + 4], Y[i : i + 4]) for i in range(0, 24, 4)]


def run(step: Any, batches: Any = tuple(BATCHES)) -> list[float]:
    """The losses of a pass over each of the batches."""
    return [step(*batch) for batch in batches]


@pytest.mark.parametrize(
    ("make", "loss", "options"),
    [
        (perceptron, "cross_entropy", {"optimizer": "sgd", "lr": 0.1}),
        (with_states, F.cross_entropy, {"optimizer": "adamw", "lr": 0.01}),
        (perceptron, "cross_entropy", {"momentum": 0.9, "max_grad_norm": 0.5, "accumulate_grad_batches": 3}),
    ],
)
def test_the_bits_of_train(make: Any, loss: Any, options: dict[str, Any]) -> None:
    """The same batches give the same losses, weights and buffers."""
    step = front.compile_step(make(), loss, **options)
    losses = run(step)
    found = front.train(make(), (X, Y), loss, batch_size=4, shuffle=False, **options)
    assert list(found.losses) == losses
    assert {n: w.numpy().tobytes() for n, w in step.weights.items()} == {
        n: w.tobytes() for n, w in found.weights.items()
    }
    assert {n: b.numpy().tobytes() for n, b in step.buffers.items()} == {
        n: b.tobytes() for n, b in found.buffers.items()
    }


def test_an_optimizer_of_pytorch_and_its_scheduler() -> None:
    """Groups, their settings and the rates that a scheduler sets are those of PyTorch's own loop."""

    def parts(module: Any) -> tuple[Any, Any]:
        groups = [
            {"params": [module[0].weight, module[2].weight], "weight_decay": 0.1},
            {"params": [module[0].bias], "lr": 0.02},
        ]
        optimizer = torch.optim.AdamW(groups, lr=0.02, betas=(0.8, 0.99), weight_decay=0)
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    module, theirs = perceptron(), perceptron()
    before = {name: p.detach().clone() for name, p in theirs.named_parameters()}
    optimizer, scheduler = parts(module)
    step = front.compile_step(module, F.cross_entropy, optimizer)
    own, schedule = parts(theirs)
    for x, y in BATCHES:
        loss = step(x, y)
        scheduler.step()
        own.zero_grad()
        value = F.cross_entropy(theirs(x), y)
        value.backward()
        own.step()
        schedule.step()
        assert abs(loss - value.item()) < table()["front"]["loss"]
    weights = step.weights
    assert "2.bias" not in weights, "the optimizer has no 2.bias"
    for name, p in ((n, p) for n, p in theirs.named_parameters() if n in weights):
        moved = float((p.detach() - before[name]).abs().max())
        assert float((weights[name] - p.detach()).abs().max()) <= moved * 10 * table()["front"]["movement"], name


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_every_optimizer(kind: str) -> None:
    """Each optimizer of PyTorch that has an equivalent is taken, with its defaults, by its object and by its name."""
    module = perceptron()
    step = front.compile_step(module, F.cross_entropy, getattr(torch.optim, kind)(module.parameters(), lr=0.01))
    named = front.compile_step(perceptron(), F.cross_entropy, kind.lower(), lr=0.01)
    by_class = front.compile_step(perceptron(), F.cross_entropy, getattr(torch.optim, kind), lr=0.01)
    assert run(step) == run(named) == run(by_class)
    variant = step._variant
    assert variant.has_rules
    for rate in (0.3, 0.0007, 0.0):
        expected = run_time.update_numbers(variant.library.program, [float(np.float32(rate))])
        assert np.array(variant.numbers((rate,)), np.float32).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.1), "dampening=0.1"),
        (lambda p: torch.optim.Adam(p, 0.1, amsgrad=True), "amsgrad=True"),
        (lambda p: torch.optim.SGD(p, 0.1, maximize=True), "maximize=True"),
        (lambda p: torch.optim.Rprop(p), "Rprop"),
        (lambda p: torch.optim.Adam([nn.Parameter(torch.zeros(2))]), "parameters that the module has not"),
    ],
)
def test_what_no_optimizer_here_does(make: Any, word: str) -> None:
    """An optimizer without equivalent is refused by name of what it does."""
    module = perceptron()
    with pytest.raises(OptionProblem, match=word):
        front.compile_step(module, F.cross_entropy, make(module.parameters()))


def test_settings_that_change_on_the_way() -> None:
    """A scheduler that changes more than rates is refused when it does."""
    module = perceptron()
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)
    step = front.compile_step(module, F.cross_entropy, optimizer)
    step(*BATCHES[0])
    scheduler.step()
    with pytest.raises(OptionProblem, match="momentum of parameter group 0 has changed"):
        step(*BATCHES[1])


def test_the_rate_of_an_optimizer_by_name() -> None:
    """`step.lr` counts from the next update on, and 0 leaves the weights as they are."""
    step = front.compile_step(perceptron(), "cross_entropy", "sgd", BATCHES[0], lr=0.1)
    step.lr = 0.0
    before = step.weights
    step(*BATCHES[0])
    assert step.lr == 0.0
    assert all(torch.equal(before[n], w) for n, w in step.weights.items())
    with pytest.raises(OptionProblem, match="not finite"):
        step.lr = float("inf")


def test_a_rate_that_is_zero_at_first() -> None:
    """The rate of a group stays, the optimizer's may rise later."""
    groups = [{"params": "0", "lr": 0.1}]
    step = front.compile_step(perceptron(), "cross_entropy", "sgd", lr=0.0, any_rate=True, param_groups=groups)
    step.compile(BATCHES[0])
    before = step.weights
    step(*BATCHES[0])
    assert [name for name, w in step.weights.items() if not torch.equal(before[name], w)] == ["0.weight", "0.bias"]
    step.lr = 0.1
    step(*BATCHES[1])
    assert not torch.equal(before["2.weight"], step.weights["2.weight"])


def test_another_batch_size() -> None:
    """A batch of another size is an error with a way out; with `recompile` training goes on from the same state."""
    step = front.compile_step(perceptron(), F.cross_entropy, "adam", BATCHES[0], lr=0.01)
    step(*BATCHES[0])
    with pytest.raises(DatasetMismatch, match="2 samples, and the step was compiled for 4") as caught:
        step(X[:2], Y[:2])
    assert "drop_last=True" in caught.value.hint
    step = front.compile_step(perceptron(), F.cross_entropy, "adam", lr=0.01, recompile=True)
    theirs = perceptron()
    optimizer = torch.optim.Adam(theirs.parameters(), 0.01)
    for x, y in [*BATCHES[:2], (X[:2], Y[:2]), BATCHES[3]]:
        optimizer.zero_grad()
        value = F.cross_entropy(theirs(x), y)
        value.backward()
        optimizer.step()
        assert abs(step(x, y) - value.item()) < table()["front"]["loss"]
    with pytest.raises(DatasetMismatch, match="other shapes"):
        step(X[:2, :5], Y[:2])


def test_state_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    """Also from a file, in the middle of an update; a damaged file and a foreign state change nothing."""
    options = {"optimizer": "adamw", "lr": 0.01, "accumulate_grad_batches": 2}
    whole = front.compile_step(with_states(), F.cross_entropy, **options)
    expected = run(whole)
    first = front.compile_step(with_states(), F.cross_entropy, **options)
    assert run(first, BATCHES[:3]) == expected[:3]
    path = first.save(tmp_path / "state.safetensors")
    second = front.compile_step(with_states(), F.cross_entropy, example=BATCHES[0], **options)
    second.load(path)
    assert run(second, BATCHES[3:]) == expected[3:]
    assert set(second.state_dict()) == set(whole.state_dict())
    assert int(second.buffers["1.num_batches_tracked"]) == len(BATCHES)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    before = second.state_dict()
    with pytest.raises(FileProblem, match="damaged"):
        second.load(path)
    with pytest.raises(OptionProblem, match="another step"):
        second.load_state_dict({n: x for n, x in before.items() if n != "0.weight"})
    assert all(torch.equal(x, before[n]) for n, x in second.state_dict().items())


def test_a_state_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file before it stays whole, and nothing else is left."""
    step = front.compile_step(perceptron(), F.cross_entropy, "sgd", BATCHES[0], lr=0.1)
    path = step.save(tmp_path / "state.safetensors")
    content = path.read_bytes()
    run(step)

    def full(part: Path, content: bytes, path: Path) -> None:
        part.write_bytes(content[:9])
        raise FileProblem(f"{path} cannot be written: No space left on device")

    monkeypatch.setattr(output, "_write_file", full)
    with pytest.raises(FileProblem, match="No space left"):
        step.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    with pytest.raises(FileProblem, match="there is no folder"):
        step.save(tmp_path / "absent" / "state.safetensors")


def test_weights_in_and_out() -> None:
    """Weights can be set by name; the module has them, and its output in evaluation mode is `evaluate`'s."""
    module = with_states()
    step = front.compile_step(module, F.cross_entropy, "adamw", lr=0.01)
    before = module[0].weight.detach().clone()
    run(step)
    assert not torch.equal(step.weights["0.weight"], before)
    assert step.optimizer_state["0.weight"].keys() == {"first_moment", "second_moment"}
    outputs = step.evaluate(X[:7])
    assert step.to_module() is module
    assert torch.equal(module[0].weight, step.weights["0.weight"])
    assert int(module[1].num_batches_tracked) == len(BATCHES)
    with torch.no_grad():
        expected = module.eval()(X[:7])
    assert torch.allclose(outputs, expected, rtol=0, atol=table()["front"]["loss"] * float(expected.abs().max()))
    step.load_weights({"0.weight": before})
    assert torch.equal(step.weights["0.weight"], before)
    assert torch.equal(module[0].weight, before)
    with pytest.raises(OptionProblem, match=r"no '0\.other'"):
        step.load_weights({"0.other": before})


def test_check_sees_a_wrong_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass from the present state agrees with float64, and changes nothing; one at another rate does not."""
    step = front.compile_step(with_states(), F.cross_entropy, "adamw", lr=0.01)
    run(step)
    before = step.state_dict()
    assert step.check().startswith("per-step check: 1 passes checked")
    assert all(torch.equal(x, before[n]) for n, x in step.state_dict().items())
    own = step._variant.numbers
    monkeypatch.setattr(step._variant, "numbers", lambda rates: own(tuple(2 * rate for rate in rates)))
    with pytest.raises(RunFailed, match="not what float64 makes of it"):
        step.check()


def test_labels_beyond_the_classes() -> None:
    """They are refused with their place before anything is computed, also where int32 would wrap them to a class."""
    step = front.compile_step(perceptron(), "cross_entropy", "sgd", BATCHES[0])
    before = step.state_dict()
    for label in (3, -1, 1 << 32):
        labels = Y[:4].clone()
        labels[2] = label
        with pytest.raises(DatasetMismatch, match=str(label)):
            step(X[:4], labels)
    assert all(torch.equal(x, before[n]) for n, x in step.state_dict().items())


def test_a_label_beyond_the_classes_in_the_first_batch() -> None:
    """A label that PyTorch itself refuses is an error about the data."""
    with pytest.raises(DatasetMismatch, match="first batch holds a number that chooses nothing"):
        front.compile_step(perceptron(), F.cross_entropy, "sgd", (X[:4], Y[:4] + 1))


def test_other_kinds_of_data() -> None:
    """Lists, numpy arrays, strided and float64 tensors give the same bits, with one warning; no numbers are refused."""
    found: list[DeployerWarning] = []
    step = front.compile_step(perceptron(), "cross_entropy", "sgd", BATCHES[0], warn=found.append)
    x, y = BATCHES[1]
    start = step.state_dict()

    def loss(*data: Any) -> float:
        step.load_state_dict(start)
        return float(step(*data))

    expected = loss(x, y)
    assert loss(x.numpy(), y.numpy()) == loss(x.t().contiguous().t(), y.to(torch.int32)) == expected
    assert not found
    assert loss(x.double(), y) == loss(x.tolist(), y.tolist()) == loss({"input": x, "labels": y}) == expected
    assert [dict(warning.facts)["input"] for warning in found] == ["input", "labels"]
    for strange in (x.to(torch.complex64), "text", x.double() * 1e300):
        with pytest.raises(DatasetMismatch):
            loss(strange, y)


def test_steps_do_not_share_memory() -> None:
    """Two steps of one module in one process are apart."""
    one, two = (front.compile_step(perceptron(), F.cross_entropy, "sgd", lr=0.1) for _ in range(2))
    losses = run(one)
    assert run(two) == losses


def test_a_loss_as_loops_of_pytorch_have_it() -> None:
    """The loss is a float that also has an item; what was done already says so."""
    step = front.compile_step(perceptron(), F.cross_entropy, lr=0.1)
    loss = step(*BATCHES[0])
    assert isinstance(loss, float)
    assert loss.item() == loss.detach().cpu() == loss
    assert type(loss.item()) is float
    with pytest.raises(OptionProblem, match=r"has made the backward pass[\s\S]*leave out loss\.backward\(\)"):
        loss.backward()
    with pytest.raises(AttributeError, match=r"no attribute 'zero_grad'; try leave it out"):
        step.zero_grad()
    assert not hasattr(step, "pizza")


def test_unknown_arguments() -> None:
    """They are answered by the name that is meant."""
    for given, meant in (("weight", "class_weights"), ("momentun", "momentum"), ("n_accum", "accumulate_grad_batches")):
        with pytest.raises(OptionProblem) as caught:
            front.compile_step(perceptron(), F.cross_entropy, **{given: 1})
        assert caught.value.hint == f"did you mean {meant}?"
