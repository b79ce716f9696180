"""Dropout of PyTorch modules: where it drops, that it trains as PyTorch does by the same masks, how it is left out."""

import copy
import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import OptionProblem, UnsupportedOperator
from deployer.core.ir import Node
from deployer.operators.elementwise.random import kept
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn, F = torch.nn, torch.nn.functional
SEED, BATCH, EPOCHS = 9, 4, 2


class Attention(nn.Module):
    """Attention with dropout given to the function, and what it gives dropped by a function."""

    def forward(self, x: Any) -> Any:
        return F.dropout(F.scaled_dot_product_attention(x, x, x, dropout_p=0.2), 0.3)


MODULES: dict[str, tuple[Any, tuple[int, ...], list[str]]] = {
    "layer": (nn.Dropout(0.3), (2, 3), ["Dropout"]),
    "in place": (nn.Sequential(nn.ReLU(), nn.Dropout(0.3, inplace=True)), (2, 3), ["Relu", "Dropout"]),
    "signals": (nn.Dropout1d(0.3), (2, 3, 4), ["Dropout", "Sign", "Div", "Mul"]),
    "images": (nn.Dropout2d(0.3), (2, 3, 4, 4), ["Dropout", "Sign", "Div", "Mul"]),
    "all": (nn.Dropout(1.0), (2, 3), ["Mul"]),
    "none": (nn.Dropout(0.0), (2, 3), []),
}


@pytest.mark.parametrize("name", MODULES)
def test_operators(name: str) -> None:
    """Each module becomes the expected operators; none is left in evaluation or with dropout off."""
    module, shape, expected = MODULES[name]
    x = torch.ones(shape)
    assert [node.op_type for node in front.capture(module.train(), [x]).model.graph.node] == expected
    rest = [op for op in expected if op == "Relu"]
    for captured in (front.capture(module.train(), [x], dropout="off"), front.capture(module.eval(), [x])):
        assert [node.op_type for node in captured.model.graph.node] == rest
    assert name != "in place" or module[1].inplace, "the module is as it was"


def test_functions() -> None:
    """Of attention, of functions, and of layers with dropout inside."""
    for module, shape, count in (
        (Attention(), (1, 2, 3, 4), 2),
        (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), (2, 3, 8), 4),
    ):
        for dropout, number in (("on", count), ("off", 0)):
            nodes = front.capture(module.train(), [torch.ones(shape)], dropout=dropout).model.graph.node
            assert sum(node.op_type == "Dropout" for node in nodes) == number
    recurrent = nn.LSTM(4, 5, 2, dropout=0.2)
    nodes = front.capture(recurrent.train(), [torch.ones(3, 2, 4)]).model.graph.node
    assert sum(node.op_type == "Dropout" for node in nodes) == 1, "one between two layers, for all steps of time"


def test_other_random_numbers() -> None:
    """Other random draws are refused, even if they read no input: they would be drawn only once."""

    class Net(nn.Module):
        """Noise."""

        def forward(self, x: Any) -> Any:
            return x + torch.rand(2, 3)

    with pytest.raises(UnsupportedOperator, match=r"aten\.rand"):
        front.capture(Net(), [torch.ones(2, 3)])
    with pytest.raises(OptionProblem, match="dropout is 'no'"):
        front.capture(Net(), [torch.ones(2, 3)], dropout="no")


class Encoder(nn.Module):
    """One layer of a transformer, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.25, batch_first=True)
        self.head = nn.Linear(24, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x).flatten(1))


NETS = {
    "channels": (
        lambda: nn.Sequential(
            *(nn.Conv2d(1, 6, 3), nn.Dropout2d(0.3), nn.Tanh(), nn.Flatten()),
            *(nn.Linear(24, 8), nn.Dropout(0.5), nn.Linear(8, 3)),
        ),
        (1, 4, 4),
    ),
    "encoder": (Encoder, (3, 8)),
}


class Masks:
    """PyTorch's functions that drop, by our masks: in a pass the n-th call has stream n."""

    def __init__(self) -> None:
        self.passes, self.streams = 0, iter(range(0))

    def begin(self) -> None:
        """The next pass."""
        self.passes, self.streams = self.passes + 1, itertools.count()

    def dropout(self, x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        """Of elements."""
        return x * self._factors(x.shape, p)

    def channels(self, x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        """Of whole channels."""
        return x * self._factors((*x.shape[:2], 1, 1), p)

    def attention(self, q: Any, k: Any, v: Any, mask: Any = None, p: float = 0.0, causal: bool = False) -> Any:
        """Of what attention gives to each place."""
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
        return self.dropout(scores.softmax(-1), p) @ v

    def _factors(self, shape: tuple[int, ...], p: float) -> Any:
        node = Node("n", "", (), (), {"ratio": p, "seed": SEED, "stream": next(self.streams)})
        mask = kept(node, self.passes, int(np.prod(shape))).reshape(shape)
        return torch.from_numpy(mask.astype(np.float32)) / (1 - p)


@pytest.fixture
def masks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Masks]:
    """Our masks in PyTorch."""
    ours = Masks()
    names = {"dropout": ours.dropout, "dropout2d": ours.channels, "scaled_dot_product_attention": ours.attention}
    with monkeypatch.context() as patched:
        for name, function in names.items():
            patched.setattr(F, name, function)
        patched.setattr(torch.backends.mha, "get_fastpath_enabled", lambda: False)
        yield ours


@pytest.mark.parametrize("name", NETS)
def test_trains_as_pytorch(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Losses and weights of four passes, with the same masks on either side."""
    make, shape = NETS[name]
    torch.manual_seed(0)
    module = make().train()
    before = {n: p.detach().clone() for n, p in module.named_parameters()}
    x, y = torch.randn(2 * BATCH, *shape), torch.arange(2 * BATCH) % 3
    options = {"lr": 0.1, "batch_size": BATCH, "epochs": EPOCHS, "seed": SEED, "shuffle": False}
    trained = front.train(copy.deepcopy(module), (x, y), "cross_entropy", **options)
    masks: Masks = request.getfixturevalue("masks")
    optimizer, losses = torch.optim.SGD(module.parameters(), 0.1), []
    for _, begin in itertools.product(range(EPOCHS), range(0, 2 * BATCH, BATCH)):
        masks.begin()
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x[begin : begin + BATCH]), y[begin : begin + BATCH])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    limits = table()["front"]
    assert trained.verdict == "passed"
    assert np.allclose(trained.losses, losses, rtol=0, atol=limits["loss"])
    for n, p in module.named_parameters():
        moved = float((p.detach() - before[n]).abs().max())
        assert np.abs(trained.weights[n] - p.detach().numpy()).max() <= moved * limits["movement"], n
