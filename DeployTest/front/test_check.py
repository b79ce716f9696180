"""The check of a captured step beside PyTorch: it finds planted faults, and changes nothing of the user's."""

import importlib
import random
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import CaptureMismatch, GraphProblem, OptionProblem
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
graph: Any = importlib.import_module("deployer.torch.graph")
updates: Any = importlib.import_module("deployer.torch.updates")
nn, F = torch.nn, torch.nn.functional


def module() -> Any:
    """Layers with a norm, noise, and a kink at zero."""
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.25), nn.ReLU(), nn.Linear(6, 3))


def data() -> tuple[Any, Any]:
    """Rows and labels."""
    return torch.randn((8, 4), generator=torch.Generator().manual_seed(1)), torch.arange(8) % 3


def train(net: Any, **more: Any) -> Any:
    """A short run."""
    return front.train(net, data(), "cross_entropy", "adamw", batch_size=4, n_steps=2, shuffle=False, **more)


def scaled(name: str, factor: float, result: int | None = None) -> Any:
    """A lowering whose result is off by a factor."""
    own = graph.LOWERINGS[name]

    def lowered(g: Any, *args: Any, **options: Any) -> Any:
        value = own(g, *args, **options)
        if result is None:
            return g.binary("Mul", value, factor)
        return tuple(g.binary("Mul", v, factor) if i == result else v for i, v in enumerate(value))

    return lowered


FAULTS = {
    "tanh": (None, "the loss|the gradient of"),
    "tanh_backward": (None, "the gradient of '0.weight'"),
    "threshold_backward": (None, "the gradient of"),
    "native_batch_norm_backward": (1, "the gradient of '1.weight'"),
    "_native_batch_norm_legit_functional": (4, "buffer '1.running_var'"),
    "deployer::dropout": (None, "the loss|the gradient of"),
    "deployer::cross_entropy_backward": (None, "the gradient of"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_lowering_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that is off by one part in a hundred million names the first tensor that differs."""
    result, words = FAULTS[name]
    train(module())
    monkeypatch.setitem(graph.LOWERINGS, name, scaled(name, 1 + 1e-8, result))
    with pytest.raises(CaptureMismatch, match=words):
        train(module())
    unchecked = train(module(), check=False)
    assert any("not compared with PyTorch" in note for note in unchecked.notes)


ROUNDING = {
    "a norm of one element": lambda: nn.Sequential(nn.Linear(4, 1), nn.LayerNorm(1), nn.Linear(1, 3)),
    "groups of one element": lambda: nn.Sequential(nn.Linear(4, 8), nn.GroupNorm(8, 8), nn.Linear(8, 3)),
}


@pytest.mark.parametrize("offset", [5.0, 30.0, 100.0])
@pytest.mark.parametrize("name", ROUNDING)
def test_a_gradient_of_rounding_alone_is_no_difference(name: str, offset: float) -> None:
    """A norm of one element has gradients of zero, which PyTorch gives as the roundings of its mean over sqrt(eps)."""
    torch.manual_seed(2)
    net, (rows, labels) = ROUNDING[name](), data()
    batch = {"x": rows + offset, "labels": labels}

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y)

    step = importlib.import_module("deployer.torch.step").capture_step(net, loss, batch)
    importlib.import_module("deployer.torch.check").check_step(step, net, loss, batch)


def test_a_wrong_optimizer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update with another decay than torch.optim's names the parameter."""
    own = updates.options_of
    monkeypatch.setattr(updates, "options_of", lambda rule: {**own(rule), "weight_decay": 0.011})
    with pytest.raises(CaptureMismatch, match=r"'\d\.weight' after the first 2 updates"):
        train(module())


def test_the_rounding_of_settings_is_no_difference() -> None:
    """RMSprop's 1 - 0.99 in float32 turns a large first step, and with it the gradient after it; PyTorch's is the same.

    The weights, of which a gradient is nearly zero, were trained before.
    """
    torch.manual_seed(25)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    x, y = torch.randn(24, 6), torch.arange(24) % 3
    optimizer = torch.optim.SGD(net.parameters(), 0.5)
    for _ in range(75):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    front.compile_step(net, F.cross_entropy, "rmsprop", (x[:4], y[:4]), lr=0.01)


def test_gradients_that_are_off_to_any_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients that the check of a step allows make no difference of weights, whatever their signs in each update.

    Adam's second step depends on the quotient of both gradients: small ones that are off to the same side do not change
    it, those that are off to different sides do.
    """
    check, draw, own = importlib.import_module("deployer.torch.check"), np.random.default_rng(0), updates.Evaluator.run

    def off(self: Any, *args: Any) -> Any:
        found = own(self, *args)
        for name, grad in found.gradients.items():
            found.gradients[name] = grad + 0.5 * check.BOUND * np.abs(grad).max() * draw.choice([-1.0, 1.0], grad.shape)
        return found

    monkeypatch.setattr(updates.Evaluator, "run", off)
    net = nn.Linear(96, 96, bias=False)
    x = 10 ** -torch.linspace(0, 6, 96).repeat(2, 1)
    target = torch.zeros(2, 96)
    front.train(net, (x, target), lambda scores, y: (scores - y).sum(), "adam", batch_size=1, shuffle=False)


def test_a_lost_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parameter that has a gradient in PyTorch alone."""
    step: Any = importlib.import_module("deployer.torch.step")
    own = step.StepWalk.captured

    def without(self: Any) -> Any:
        captured = own(self)
        captured.gradients.pop("5.bias")
        return captured

    monkeypatch.setattr(step.StepWalk, "captured", without)
    with pytest.raises(CaptureMismatch, match=r"gives parameter '5\.bias' a gradient"):
        train(module())


def test_nothing_of_the_users_changes() -> None:
    """Weights are trained in place; gradients, attributes, modes, hooks, and random states are as before."""
    net = module()
    calls: list[int] = []
    net[0].seen = {"list": [1, 2], "number": 3}
    net[0].register_forward_hook(lambda m, i, o: None)
    net[5].weight.register_hook(lambda g: g)
    net[0].weight.grad = torch.full_like(net[0].weight, 7)
    net[1].eval()
    tensors = {n: t.clone() for n, t in net.state_dict().items()}
    dictionaries = [dict(part.__dict__) for part in net.modules()]
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    dtype = torch.get_default_dtype()
    places = {n: t.data_ptr() for n, t in net.state_dict().items()}
    run = train(net)
    assert not calls
    assert {n: t.data_ptr() for n, t in net.state_dict().items()} == places
    assert all(torch.equal(t, run.state_dict()[n]) and t.dtype == tensors[n].dtype for n, t in net.state_dict().items())
    assert [part.__dict__.keys() for part in net.modules()] == [d.keys() for d in dictionaries]
    assert net[0].seen == {"list": [1, 2], "number": 3}
    assert float(net[0].weight.grad.min()) == float(net[0].weight.grad.max()) == 7
    assert net[5].weight.grad is None
    assert (net.training, net[1].training) == (True, False)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1] == states[1]).all()
    assert random.getstate() == states[2]
    assert torch.get_default_dtype() == dtype
    assert torch.finfo(torch.float64).eps < 1e-15


def test_random_numbers_are_compared() -> None:
    """Noise of all kinds is the program's in the eager step, and so is compared."""

    class Noisy(nn.Module):
        """A layer with noise on its weight, its input and its output."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: Any) -> Any:
            x = x + 0.1 * torch.randn_like(x)
            x = F.dropout1d(x.unsqueeze(0), 0.3, self.training).squeeze(0)
            mask = torch.bernoulli(torch.full_like(x, 0.7))
            h = F.linear(x * mask, self.layer.weight * (1 + 0.1 * torch.rand(3, 4)), self.layer.bias)
            h = h[torch.randperm(len(h))] + torch.randint(0, 3, h.shape)
            return F.rrelu(h, training=True) + torch.normal(0.0, 0.1, h.shape) + F.gumbel_softmax(h)

    torch.manual_seed(4)
    x, y = data()
    runs = [front.train(Noisy(), (x, y), "cross_entropy", batch_size=4, n_steps=3, seed=seed) for seed in (0, 0, 1)]
    assert [run.verdict for run in runs] == ["passed"] * 3


def test_losses_of_all_kinds() -> None:
    """A function, a module, the module's own, soft targets, several inputs by name, and several outputs."""
    x, y = data()

    class Two(nn.Module):
        """Two inputs, one by keyword, and two outputs in a dictionary."""

        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, x: Any, *, other: Any, scale: float = 1.0) -> Any:
            return {"logits": self.a(x) + scale * self.b(other), "hidden": self.b(x)}

    class Own(nn.Module):
        """Returns its loss."""

        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 3)

        def forward(self, x: Any, labels: Any) -> Any:
            h = self.a(x)
            return F.nll_loss(F.log_softmax(h, 1), labels) + 0.1 * h.square().mean(), h

    def both(output: Any, target: Any) -> Any:
        return F.cross_entropy(output["logits"], target["labels"]) + F.l1_loss(output["hidden"], target["close"])

    soft = F.softmax(torch.randn((8, 3), generator=torch.Generator().manual_seed(6)), 1)
    named = {"x": x, "other": x.flip(0)}
    cases = [
        (nn.Linear(4, 3), (x, y), nn.CrossEntropyLoss(label_smoothing=0.1)),
        (nn.Linear(4, 3), (x, soft), F.cross_entropy),
        (nn.Linear(4, 3), (x, soft), lambda o, t: F.kl_div(F.log_softmax(o, 1), t, reduction="batchmean")),
        (nn.Linear(4, 3), (x, F.one_hot(y, 3).float()), nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0]))),
        (nn.Linear(4, 1), (x, y[:, None]), "mse"),
        (Two(), {**named, "labels": y}, "cross_entropy"),
        (Two(), {**named, "labels": y, "close": soft}, both),
        (Own(), {"x": x, "labels": y}, "model"),
        (Own(), (x, y), "model"),
    ]
    for net, given, loss in cases:
        before = {n: p.detach().clone() for n, p in net.named_parameters()}
        trained = front.train(net, given, loss, lr=0.1, batch_size=4, shuffle=False, warn=lambda w: None)
        assert trained.verdict == "passed"
        assert any((torch.from_numpy(trained.weights[n]) != before[n]).any() for n in before)


def test_losses_are_those_of_pytorch() -> None:
    """A loss of several terms over named inputs, update by update."""
    x, y = data()
    torch.manual_seed(3)
    ours, theirs = (nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())

    def loss(output: Any, target: Any) -> Any:
        return F.multi_margin_loss(output, target) + 0.1 * output.abs().mean() + 0.01 * F.softplus(output).sum()

    trained = front.train(ours, (x, y), loss, lr=0.1, batch_size=4, epochs=2, shuffle=False)
    optimizer, losses = torch.optim.SGD(theirs.parameters(), 0.1), []
    for begin in (0, 4, 0, 4):
        optimizer.zero_grad()
        value = loss(theirs(x[begin : begin + 4]), y[begin : begin + 4])
        value.backward()
        optimizer.step()
        losses.append(value.item())
    assert np.allclose(trained.losses, losses, rtol=0, atol=table()["front"]["loss"])


CONSTANTS: dict[str, Any] = {
    "tensor": lambda x: torch.tensor([0.1, 0.3, 0.7]),
    "tensor of a dtype": lambda x: torch.tensor([0.1, 0.3, 0.7], dtype=torch.float32),
    "a number": lambda x: torch.tensor(0.1),
    "as_tensor": lambda x: torch.as_tensor([0.1, 0.3, 0.7]),
    "new_tensor": lambda x: x.new_tensor([0.1, 0.3, 0.7]),
    "full": lambda x: torch.full((3,), 0.1) + x.new_full((3,), 0.7),
    "linspace": lambda x: torch.linspace(0.1, 0.7, 3),
    "a wide tensor": lambda x: torch.tensor([0.1, 0.3, 0.7], dtype=torch.float64).float(),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_numbers_in_forward_are_those_of_float32(name: str) -> None:
    """A tensor made of Python's numbers while the module runs is the same in the captured step as in PyTorch."""

    class Weighed(nn.Module):
        """Outputs with fixed weights."""

        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 3)

        def forward(self, x: Any) -> Any:
            return self.a(x) * CONSTANTS[name](x)

    assert train(Weighed()).verdict == "passed"


@pytest.mark.parametrize("batch", [3, 5, 8])
@pytest.mark.parametrize("loss", [F.nll_loss, F.cross_entropy, "nll"])
def test_means_over_any_number_of_labels(loss: Any, batch: int) -> None:
    """The share of a label is exact where it is no binary fraction."""
    net = nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1))
    x, y = torch.randn((batch, 4), generator=torch.Generator().manual_seed(1)), torch.arange(batch) % 3
    assert front.train(net, (x, y), loss, batch_size=batch, n_steps=1).verdict == "passed"


def test_what_a_loss_cannot_be() -> None:
    """Not a vector, not without a gradient, not one with settings or parameters of its own."""
    x, y = data()
    with pytest.raises(GraphProblem, match="not one float"):
        front.train(nn.Linear(4, 3), (x, y), lambda o, t: F.cross_entropy(o, t, reduction="none"), batch_size=4)
    with pytest.raises(GraphProblem, match="depends on no parameter"):
        front.train(nn.Linear(4, 3), (x, y), lambda o, t: F.cross_entropy(o.detach(), t), batch_size=4)
    with pytest.raises(OptionProblem, match="has no effect on a loss that is a function"):
        front.train(nn.Linear(4, 3), (x, y), F.cross_entropy, batch_size=4, class_weights=[1, 2, 3])
    with pytest.raises(OptionProblem, match=r"nn\.CrossEntropyLoss\(weight=\.\.\.\) as loss"):
        front.train(nn.Linear(4, 3), (x, y), nn.CrossEntropyLoss(), batch_size=4, class_weights=[1, 2, 3])
    with pytest.raises(OptionProblem, match="leave it out: MSELoss has no such setting"):
        front.train(nn.Linear(4, 3), (x, x[:, :3]), nn.MSELoss(), batch_size=4, class_weights=[1, 2, 3])
    with pytest.raises(OptionProblem, match="parameters of its own"):
        front.train(nn.Linear(4, 3), (x, y), Learnt(), batch_size=4)
    with pytest.raises(OptionProblem, match="there is no loss 'hinge'"):
        front.train(nn.Linear(4, 3), (x, y), "hinge", batch_size=4)


class Learnt(nn.Module):
    """A loss with a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, output: Any, target: Any) -> Any:
        return F.cross_entropy(output, target) * self.weight


def test_bits_are_those_of_all_targets() -> None:
    """Dropout, noise, a norm, a written buffer and a counter: equal weights and buffers in simulated memories too."""

    class Net(nn.Module):
        """A norm, two kinds of random numbers, and two buffers."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
            self.register_buffer("mean", torch.zeros(3))
            self.register_buffer("calls", torch.tensor(0))

        def forward(self, x: Any) -> Any:
            h = F.dropout(torch.relu(self.norm(self.first(x))), 0.25)
            h = self.last(h + 0.1 * torch.rand_like(h))
            self.mean.mul_(0.9).add_(0.1 * h.detach().mean(0))
            self.calls += 1
            return h - self.mean / (1 + self.calls)

    runs = []
    for target in ("", "host", "host_flat"):
        torch.manual_seed(5)
        runs.append(front.train(Net(), data(), "cross_entropy", "adamw", batch_size=4, epochs=2, target=target))
    for run in runs[1:]:
        assert run.losses == runs[0].losses
        for name, array in {**runs[0].weights, **runs[0].buffers}.items():
            assert np.array_equal({**run.weights, **run.buffers}[name], array), name
