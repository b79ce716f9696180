"""From a PyTorch module to trained weights: what is kept, what is refused, and that both train alike."""

import copy
import importlib
import itertools
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import CaptureMismatch, DatasetMismatch, DeployerWarning, OptionProblem, UnsupportedOperator
from DeployTest.support.building.command_line import deployer
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn = torch.nn


def draw(*shape: int) -> Any:
    """Normal numbers from a fixed seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_names_and_places() -> None:
    """Parameters and buffers have the module's names, each operator's node the submodule's."""
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64, 3))
    captured = front.capture(module.train(), [draw(2, 1, 6, 6)])
    assert captured.parameters == tuple(name for name, _ in module.named_parameters())
    assert captured.buffers == ("1.running_mean", "1.running_var")
    places = [node.name.split("/")[0] for node in captured.model.graph.node]
    assert (places[:3], places[-1]) == (["0", "1", "2"], "4")


def test_what_exporters_change() -> None:
    """Two equal norms stay two, biases of zero stay, tied weights are one, a batch norm is not folded, and what nothing
    reads is not trained.
    """

    class Net(nn.Module):
        """Equal norms, a bias of zeros, a matrix that two layers share, and a parameter that none reads."""

        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.LayerNorm(5), nn.LayerNorm(5)
            self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 5, bias=False)
            nn.init.zeros_(self.first.bias)
            self.second.weight = self.first.weight
            self.spare = nn.Parameter(torch.zeros(2))

        def forward(self, x: Any) -> Any:
            return self.second(self.b(self.first(self.a(x))))

    captured = front.capture(Net().train(), [draw(3, 5)])
    assert set(captured.parameters) == {"a.weight", "a.bias", "b.weight", "b.bias", "first.weight", "first.bias"}
    assert captured.unused == ("spare",)
    norm = front.capture(nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)).train(), [draw(2, 1, 3, 3)])
    assert [node.op_type for node in norm.model.graph.node] == ["Conv", "BatchNormalization"]


def test_unused_parameter_is_named() -> None:
    """Training says which parameters nothing reads."""
    module = nn.Sequential(nn.Linear(2, 3)).train()
    module.register_parameter("spare", nn.Parameter(torch.zeros(2)))
    found: list[DeployerWarning] = []
    front.train(module, (draw(4, 2), torch.arange(4) % 3), "cross_entropy", epochs=1, warn=found.append)
    assert ("not trained", "spare") in [fact for warning in found for fact in warning.facts]


def test_frozen() -> None:
    """Parameters without a gradient, and constants with axes, are not trained."""
    module = nn.Sequential(nn.Linear(3, 3), nn.RMSNorm(3, elementwise_affine=False), nn.Linear(3, 2)).train()
    module[0].weight.requires_grad_(False)
    captured = front.capture(module, [draw(2, 3)])
    alone = front.capture(module, draw(2, 3))
    assert alone.model.graph.input == captured.model.graph.input
    assert alone.model.graph.node == captured.model.graph.node
    assert captured.parameters == ("0.bias", "2.weight", "2.bias")
    found = [t.name for t in captured.model.graph.initializer if re.search(captured.trainable, t.name)]
    assert sorted(found) == sorted(captured.parameters)


def test_what_is_trained_survives_a_file(tmp_path: Path) -> None:
    """Frozen, tied and parametrised weights are so in a file of the forward pass, and in one of the whole step."""
    norm = importlib.import_module("torch.nn.utils.parametrizations").weight_norm
    module = nn.Sequential(nn.Linear(4, 4), norm(nn.Linear(4, 4)), nn.Linear(4, 4, bias=False), nn.Linear(4, 2))
    module[2].weight = module[0].weight
    module[3].bias.requires_grad_(False)
    names = {n for n, p in module.named_parameters() if p.requires_grad}
    training: Any = importlib.import_module("deployer.training.train_graph")
    build = training.build_train_graph
    forward = front.capture(module, [draw(3, 4)]).save(tmp_path / "forward.onnx")
    step = front.capture_step(module, lambda m, x: m(x).square().mean(), {"x": draw(3, 4)})
    for path, loss in ((forward, "mse"), (step.save(tmp_path / "step.onnx"), "model")):
        report = build(path, loss, "sgd", 0.1, "", tmp_path / path.stem)
        assert set(report.trained.values()) == names
        assert "3.bias" in report.frozen


def test_train_and_load(tmp_path: Path) -> None:
    """As PyTorch trains, over two epochs; any module of the kind can be given the trained weights."""
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).train()
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    x, y = draw(8, 6), torch.arange(8) % 3
    options = {"lr": 0.1, "batch_size": 4, "epochs": 2, "shuffle": False, "folder": tmp_path}
    trained = front.train(copy.deepcopy(module), (x, y), "cross_entropy", **options)
    optimizer, losses = torch.optim.SGD(module.parameters(), 0.1), []
    for _, begin in itertools.product(range(2), (0, 4)):
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(module(x[begin : begin + 4]), y[begin : begin + 4])
        value.backward()
        optimizer.step()
        losses.append(value.item())
    assert trained.verdict == "passed"
    limits = table()["front"]
    assert np.allclose(trained.losses, losses, rtol=0, atol=limits["loss"])
    for name, p in module.named_parameters():
        moved = float((p.detach() - before[name]).abs().max())
        assert np.abs(trained.weights[name] - p.detach().numpy()).max() < moved * limits["movement"]
    front.load_into(module, trained)
    assert all(np.array_equal(p.detach().numpy(), trained.weights[n]) for n, p in module.named_parameters())


def test_a_mean_is_one_batch() -> None:
    """Updates over three and, at the end, two batches move weights as PyTorch does by one batch of all their labels."""
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).train()
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    x, y = draw(20, 6), torch.tensor([0, 1, 2, 2, 1] * 4)
    y[[1, 2, 9, 17]] = -1
    options = {"lr": 0.1, "batch_size": 4, "shuffle": False, "ignore_index": -1}
    options |= {"accumulate_grad_batches": 3, "accumulate": "mean", "partial_accumulation": "apply"}
    trained = front.train(copy.deepcopy(module), (x, y), "cross_entropy", **options)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    for rows in (slice(0, 12), slice(12, 20)):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x[rows]), y[rows], ignore_index=-1).backward()
        optimizer.step()
    assert trained.verdict == "passed"
    for name, p in module.named_parameters():
        moved = float((p.detach() - before[name]).abs().max())
        assert np.abs(trained.weights[name] - p.detach().numpy()).max() < moved * table()["front"]["movement"]


def test_loader() -> None:
    """A DataLoader that is kept in memory gives its samples and its batch size: the bits of the same two tensors."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 3))
    x, y = draw(9, 6), torch.arange(9) % 3
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4)
    options = {"optimizer": "adamw", "lr": 0.01, "seed": 2, "validation": 0.3}
    one = front.train(copy.deepcopy(module), loader, "cross_entropy", in_memory=True, **options)
    two = front.train(copy.deepcopy(module), (x, y), "cross_entropy", batch_size=4, **options)
    three = front.train(module, ((a, b) for a, b in loader), "cross_entropy", batch_size=4, **options)
    assert one.losses == two.losses == three.losses
    assert one.rows == two.rows
    assert len(one.losses) == 2, "of nine samples six are trained, in two batches"


def test_load_changes_nothing_where_it_cannot() -> None:
    """A parameter that the module has not is an error before any is set."""
    module = nn.Linear(2, 2)
    before = module.weight.detach().clone()
    weights = {"weight": np.ones((2, 2), np.float32), "other": np.ones(1)}
    with pytest.raises(KeyError, match="other"):
        front.load_into(module, front.Fitted((), (), weights, {}, "", "", (), ()))
    assert torch.equal(module.weight, before)


def test_all_that_is_missing() -> None:
    """Operators without lowering are named at once, with their number and the first place."""

    class Net(nn.Module):
        """Two operators that nothing here computes."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return torch.special.i0(torch.lgamma(self.layer(torch.lgamma(x))))

    with pytest.raises(UnsupportedOperator) as caught:
        front.capture(Net(), [draw(2, 3)])
    assert "2 operators of PyTorch have no lowering" in str(caught.value)
    assert dict(caught.value.facts)["aten.lgamma"].startswith("2 times")


@pytest.mark.parametrize(
    ("data", "options", "kind", "word"),
    [
        ((draw(4, 4), torch.zeros(3, dtype=torch.int64)), {}, DatasetMismatch, "different numbers of samples"),
        ((draw(4, 4),), {}, DatasetMismatch, "no labels or target"),
        ((draw(4, 4), torch.zeros(4, dtype=torch.int64)), {"batch_size": 0}, OptionProblem, "batch_size is 0"),
        ((draw(4, 4), torch.zeros(4, dtype=torch.int64)), {"target": "toaster"}, OptionProblem, "no target 'toaster'"),
    ],
)
def test_data_that_does_not_fit(data: Any, options: dict[str, Any], kind: type[Exception], word: str) -> None:
    """Nothing is dropped or guessed."""
    with pytest.raises(kind, match=word):
        front.train(nn.Linear(4, 3), data, "cross_entropy", **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "mlp",
        "resnet_fresh",
        "mobilenet_v3",
        "lstm",
        "lstm_stated",
        "lstm_long",
        "gru_stated",
        "transformer_encoder",
        "gpt",
    ],
)
def test_zoo(name: str, tmp_path: Path) -> None:
    """Nets of the zoo; `python -m DeployTest.suites.zoo` has them all."""
    zoo: Any = importlib.import_module("DeployTest.suites.zoo")
    for optimizer in zoo.OPTIMIZERS:
        folder = tmp_path / optimizer
        folder.mkdir()
        result = zoo.judge(name, optimizer, 0, folder)
        assert (result.outcome, result.reason) == (zoo.RIGHT, "")


def test_lines_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They train a module, load what was trained, and make a library of its step."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    [block] = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).train()
    before = module[0].weight.detach().clone()
    names = {
        "module": module,
        "x": draw(32, 6),
        "y": torch.arange(32) % 3,
        "Path": Path,
        "loss": nn.functional.cross_entropy,
    }
    exec(compile(block, "README.md", "exec"), names)
    assert names["trained"].verdict == "passed"
    assert not torch.equal(module[0].weight, before)
    np.savez("data.npz", x=names["x"].numpy(), y=names["y"].numpy())
    [commands] = re.findall(r"<!-- shown: firmware -->\n```sh\n(.*?)```", page, re.DOTALL)
    for line in commands.splitlines():
        assert deployer(*shlex.split(line)[1:]) == 0, line
    assert Path("keyword/include/keyword.h").is_file()


def test_a_forward_pass_that_hides_gradients_is_refused() -> None:
    """A file has the forward pass alone: where its own gradients are not PyTorch's, capturing says so by name."""

    class Stopped(nn.Module):
        """Two layers, the first of which gets no gradient through the second's gate."""

        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            h = self.a(x)
            return self.b(h * torch.sigmoid(h).detach())

    with pytest.raises(CaptureMismatch, match=r"'a\.(weight|bias)'"):
        front.capture(Stopped(), [draw(3, 4)])
    assert front.capture(Stopped(), [draw(3, 4)], check=False).parameters
