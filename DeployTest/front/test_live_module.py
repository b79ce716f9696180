"""A module in a loop with a compiled step: its tensors are the step's, whoever writes them, as in a loop of PyTorch."""

import copy
import importlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import DeployerWarning, OptionProblem
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn, F = torch.nn, torch.nn.functional
X = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(24) % 3
BATCHES = [(X[i : i + 4], Y[i : i + 4]) for i in range(0, 24, 4)]
RATE = 0.1


def net() -> Any:
    """Two layers and running statistics, whose weights are always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).train()


def steps(module: Any) -> tuple[Callable[..., float], Callable[..., float], Any]:
    """A compiled step of the module, and one of PyTorch of a copy of it, with the copy."""
    twin = copy.deepcopy(module)
    optimizer = torch.optim.SGD(twin.parameters(), RATE)

    def theirs(x: Any, y: Any) -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(twin(x), y)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return front.compile_step(module, F.cross_entropy, "sgd", BATCHES[0], lr=RATE), theirs, twin


def assert_same(ours: Any, theirs: Any, before: Any) -> None:
    """Weights, statistics and counters of two modules agree, and the weights have moved."""
    limit, known, start = table()["front"]["movement"], theirs.state_dict(), before.state_dict()
    for name, x in ours.state_dict().items():
        moved = float((known[name] - start[name]).abs().max())
        assert moved > 0 or not name.endswith("weight"), name
        assert float((x - known[name]).abs().max()) <= max(moved, 0.01) * limit, name


def test_the_module_is_trained_by_each_pass() -> None:
    """Weights, statistics and counters are the trained ones after each call, in the module that was given."""
    module = net()
    before, (ours, theirs, twin) = copy.deepcopy(module), steps(module)
    for passes, batch in enumerate(BATCHES):
        ours(*batch), theirs(*batch)
        assert_same(module, twin, before)
        assert int(module[1].num_batches_tracked) == passes + 1
    with torch.no_grad():
        assert torch.allclose(module.eval()(X), ours.evaluate(X), **table()["several"]["float32"])


@pytest.mark.parametrize("way", ["clamped", "loaded", "replaced"])
def test_what_pytorch_writes(way: str) -> None:
    """The next pass has weights that were clamped, loaded, or given other memory."""
    module = net()
    before, (ours, theirs, twin) = copy.deepcopy(module), steps(module)
    for batch in BATCHES:
        ours(*batch), theirs(*batch)
        for each in (module, twin):
            if way == "clamped":
                for parameter in each.parameters():
                    parameter.data.clamp_(-0.2, 0.2)
            elif way == "loaded":
                each.load_state_dict({name: x * 0.5 for name, x in each.state_dict().items()})
            else:
                for parameter in each.parameters():
                    parameter.data = parameter.data * 0.5
    assert_same(module, twin, before)


def test_two_steps_of_one_trunk() -> None:
    """Two steps that train shared layers in turn train the same ones, as two optimizers of PyTorch do."""

    def parts() -> tuple[Any, list[Any]]:
        torch.manual_seed(0)
        trunk = nn.Linear(6, 8)
        return trunk, [nn.Sequential(trunk, nn.Tanh(), nn.Linear(8, 3)).train() for _ in range(2)]

    (trunk, ours), (other, theirs) = parts(), parts()
    start = trunk.weight.detach().clone()
    compiled = [front.compile_step(each, F.cross_entropy, "sgd", BATCHES[0], lr=RATE) for each in ours]
    optimizers = [torch.optim.SGD(each.parameters(), RATE) for each in theirs]
    for i, (x, y) in enumerate(BATCHES):
        optimizers[i % 2].zero_grad()
        loss = F.cross_entropy(theirs[i % 2](x), y)
        loss.backward()
        optimizers[i % 2].step()
        assert abs(compiled[i % 2](x, y) - float(loss.detach())) <= table()["front"]["loss"]
    moved = float((other.weight.detach() - start).abs().max())
    assert float((trunk.weight - other.weight).detach().abs().max()) <= moved * table()["front"]["movement"]
    assert all(torch.equal(step.weights["0.weight"], trunk.weight) for step in compiled)


def test_constants_that_change() -> None:
    """Frozen parameters and buffers are constants of a step: one that was written since is an error."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)
            self.register_buffer("scale", torch.ones(()))

        def forward(self, x: Any) -> Any:
            return self.second(torch.tanh(self.first(x))) * self.scale

    def written(module: Any) -> None:
        module.scale.fill_(0.5)

    def loaded(module: Any) -> None:
        module.load_state_dict(Scaled().state_dict())

    def replaced(module: Any) -> None:
        module.scale = torch.full((), 0.5)

    def trained(module: Any) -> None:
        module.second.requires_grad_(True)
        front.compile_step(module.second, F.cross_entropy, "sgd", lr=RATE)(torch.randn(4, 8), Y[:4])

    for change in (written, loaded, replaced, trained):
        module = Scaled()
        module.second.requires_grad_(False)
        step = front.compile_step(module, F.cross_entropy, "sgd", BATCHES[0], lr=RATE)
        step(*BATCHES[0])
        change(module)
        with pytest.raises(
            OptionProblem, match=r"have changed since the step was compiled[\s\S]*compile_step once more"
        ):
            step(*BATCHES[1])


def test_a_constant_that_another_step_goes_on_training() -> None:
    """A generator against a discriminator that a step trains is refused in the first pass after that one's."""
    torch.manual_seed(0)
    judge = nn.Sequential(nn.Linear(6, 1))
    other = front.compile_step(judge, nn.BCEWithLogitsLoss(), "sgd", (X[:4], torch.ones(4, 1)))
    judge.requires_grad_(False)
    whole = nn.Sequential(nn.Linear(6, 6), judge)
    step = front.compile_step(whole, nn.BCEWithLogitsLoss(), "sgd", (X[:4], torch.ones(4, 1)))
    step(X[:4], torch.ones(4, 1))
    other(X[:4], torch.ones(4, 1))
    with pytest.raises(OptionProblem, match=r'in which they are constants[\s\S]*"lr": 0\.0'):
        step(X[:4], torch.ones(4, 1))


def adversaries() -> tuple[Any, Any, list[Any]]:
    """A generator, a discriminator, and an optimizer of each, that of the generator with the other at rate 0."""
    torch.manual_seed(0)
    maker, judge = nn.Sequential(nn.Linear(6, 6), nn.Tanh()), nn.Sequential(nn.Linear(6, 1))
    groups = [{"params": maker.parameters()}, {"params": judge.parameters(), "lr": 0.0}]
    return maker, judge, [torch.optim.Adam(groups, 0.01), torch.optim.Adam(judge.parameters(), 0.02)]


def test_a_group_of_rate_0_follows_another_step() -> None:
    """So a generator and a discriminator learn in turn, as in PyTorch's own loop."""
    loss, real, fake = nn.BCEWithLogitsLoss(), torch.ones(4, 1), torch.zeros(4, 1)
    maker, judge, optimizers = adversaries()
    steps = [
        front.compile_step(module, loss, optimizer)
        for module, optimizer in zip((nn.Sequential(maker, judge), judge), optimizers, strict=True)
    ]
    found, expected = [], []
    for i in range(0, 24, 4):
        before = judge[0].weight.detach().clone()
        found.append(float(steps[0](X[i : i + 4], real)))
        assert torch.equal(before, judge[0].weight)
        found.append(float(steps[1](maker(X[i : i + 4]).detach(), fake)))
    maker, judge, optimizers = adversaries()
    for i in range(0, 24, 4):
        x = X[i : i + 4]
        for optimizer, scores, target in zip(
            optimizers, (lambda x: judge(maker(x)), lambda x: judge(maker(x).detach())), (real, fake), strict=True
        ):
            optimizer.zero_grad()
            value = loss(scores(x), target)
            value.backward()
            optimizer.step()
            expected.append(value.item())
    assert np.allclose(found, expected, rtol=0, atol=table()["front"]["loss"])


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_a_counter_keeps_its_type(kind: Any) -> None:
    """A counter of the module is raised in its own memory and type, and set back with a state."""

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)
            self.register_buffer("passes", torch.full((), 5, dtype=kind))

        def forward(self, x: Any) -> Any:
            self.passes.add_(2)
            return self.layer(x)

    module = Counting()
    step, place = front.compile_step(module, F.cross_entropy, "sgd", BATCHES[0], lr=RATE), module.passes.data_ptr()
    state = step.state_dict()
    for passes in range(3):
        step(*BATCHES[0])
        assert (int(module.passes), module.passes.dtype, module.passes.data_ptr()) == (7 + 2 * passes, kind, place)
    assert int(step.buffers["passes"]) == 11
    step.load_state_dict(state)
    assert int(module.passes) == 5


def test_modules_of_other_types() -> None:
    """A float64 module is told that it is not trained with the step; one that is converted later is refused."""
    found: list[DeployerWarning] = []
    module = net().double()
    before = module[0].weight.detach().clone()
    step = front.compile_step(module, F.cross_entropy, "sgd", BATCHES[0], lr=RATE, warn=found.append)
    step(*BATCHES[0])
    assert [str(w).splitlines()[0] for w in found] == ["Warning: the module is not trained with the step"]
    assert torch.equal(module[0].weight, before)
    assert torch.equal(step.to_module()[0].weight, step.weights["0.weight"].double())
    assert int(module[1].num_batches_tracked) == 1
    module = net()
    step = front.compile_step(module, F.cross_entropy, "sgd", BATCHES[0], lr=RATE)
    module.half()
    with pytest.raises(OptionProblem, match=r"'0\.weight' was converted after the step was compiled"):
        step(*BATCHES[0])


def test_a_module_apart_from_its_step() -> None:
    """It lives on without the step, and is copied and written as any other; a copy is not trained."""
    module = net()
    step = front.compile_step(module, F.cross_entropy, "sgd", BATCHES[0], lr=RATE)
    step(*BATCHES[0])
    twin, content, state = copy.deepcopy(module), io.BytesIO(), step.state_dict()
    torch.save(module.state_dict(), content)
    step(*BATCHES[1])
    assert not torch.equal(twin[0].weight, module[0].weight)
    step.load_state_dict(state)
    content.seek(0)
    assert all(torch.equal(x, module.state_dict()[name]) for name, x in torch.load(content).items())
    step.check()
    del step
    assert np.isfinite(float(F.cross_entropy(module(X), Y)))
    front.train(module, (X, Y), F.cross_entropy, batch_size=4, check_passes=1)
