"""Canonical order of gradients of PyTorch modules: the bits of a run do not depend on the batch size."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from deployer.core.errors import OptionProblem

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn = torch.nn
F = torch.nn.functional

TOKENS, WIDTH, HEADS, LENGTH = 19, 8, 2, 5


class Decoder(nn.Module):  # type: ignore[name-defined, misc]
    """A language model of one block: rotated heads that share keys, gated products, norms without mean, tied table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(TOKENS, WIDTH)
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH, eps=1e-5) for _ in range(2))
        self.query, self.out = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.key, self.value = (nn.Linear(WIDTH, WIDTH // HEADS, bias=False) for _ in range(2))
        self.gate, self.up, self.down = nn.Linear(WIDTH, 12), nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH)
        angles = torch.outer(torch.arange(LENGTH), torch.tensor([1.0, 0.1]))
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, -1))

    def turned(self, x: Any) -> Any:
        """Rotary positions."""
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat((-second, first), -1) * self.sin

    def forward(self, ids: Any) -> Any:
        """The scores of the next token, with the classes as the second axis."""
        x = self.table(ids)
        rows, length, _ = x.shape
        h = self.norms[0](x)
        q = self.query(h).view(rows, length, HEADS, -1).transpose(1, 2)
        k, v = (each(h).view(rows, length, 1, -1).transpose(1, 2) for each in (self.key, self.value))
        y = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(rows, length, -1))
        h = self.norms[1](x)
        x = x + self.down(F.silu(self.gate(h)) * self.up(h))
        return (x @ self.table.weight.T).transpose(1, 2)


class Recurrent(nn.Module):  # type: ignore[name-defined, misc]
    """A convolution of lines, two directions of an LSTM, and a class token that all samples share."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 4))
        self.conv, self.norm = nn.Conv1d(4, 6, 3, padding=1), nn.GroupNorm(2, 6)
        self.lstm, self.head = nn.LSTM(6, 5, batch_first=True, bidirectional=True), nn.Linear(10, 3)

    def forward(self, x: Any) -> Any:
        """The scores of classes."""
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        x = self.norm(self.conv(x.transpose(1, 2))).relu().transpose(1, 2)
        return self.head(self.lstm(x)[0].mean(1))


def decoder_data(count: int) -> tuple[Any, Any]:
    """Tokens and the ones that follow, of which some do not count."""
    ids = torch.randint(0, TOKENS, (count, LENGTH + 1), generator=torch.Generator().manual_seed(0))
    following = ids[:, 1:].clone()
    following[1::3, :2] = -100
    return ids[:, :-1], following


def recurrent_data(count: int) -> tuple[Any, Any]:
    """Series and their classes."""
    draw = torch.Generator().manual_seed(0)
    return torch.randn(count, 6, 4, generator=draw), torch.randint(0, 3, (count,), generator=draw)


NETS = {"decoder": (Decoder, decoder_data), "recurrent": (Recurrent, recurrent_data)}


def dense() -> Any:
    """Two layers."""
    return nn.Sequential(nn.Flatten(), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 3))


def convolutional() -> Any:
    """Convolutions and a norm of layers."""
    front = (nn.Conv1d(6, 8, 3, padding=1), nn.LayerNorm([8, 4]), nn.ReLU())
    return nn.Sequential(*front, nn.Conv1d(8, 4, 3), nn.Flatten(), nn.Linear(8, 3))


DRAWN = {**NETS, "dense": (dense, recurrent_data), "convolutional": (convolutional, recurrent_data)}
UPDATES = 2


def trained(name: str, batch: int, passes: int, **options: Any) -> dict[str, bytes]:
    """The bits of all weights after some updates."""
    make, data = NETS[name]
    torch.manual_seed(0)
    words = {"optimizer": "adamw", "lr": 0.01, "max_grad_norm": 1.0, "shuffle": False, "progress": False} | options
    x, y = data(UPDATES * batch * passes)
    run = front.train(make(), (x, y), nn.CrossEntropyLoss(), batch_size=batch, accumulate_grad_batches=passes, **words)
    return {n: w.tobytes() for n, w in run.weights.items()}


@pytest.mark.parametrize("name", NETS)
def test_the_batch_size_changes_no_bit(name: str) -> None:
    """Updates of six samples, however they are split; without the option the bits differ."""
    first = trained(name, 1, 6, canonical_batch=True)
    for batch in (2, 6):
        assert trained(name, batch, 6 // batch, canonical_batch=True) == first
    assert trained(name, 6, 1) != first


def drawn(name: str, batch: int, seed: int, canonical: bool = True) -> dict[str, bytes]:
    """The bits of all weights after two updates of all samples, which come in an order by the seed."""
    make, data = DRAWN[name]
    torch.manual_seed(0)
    words = {"optimizer": "adamw", "lr": 0.01, "epochs": 2, "seed": seed, "progress": False}
    words |= {"batch_size": batch, "accumulate_grad_batches": 12 // batch, "canonical_batch": canonical}
    return {n: w.tobytes() for n, w in front.train(make(), data(12), nn.CrossEntropyLoss(), **words).weights.items()}


@pytest.mark.parametrize("name", DRAWN)
def test_the_order_of_an_update_changes_no_bit(name: str) -> None:
    """The samples of an update may be drawn in any order, and split into any passes; without the option bits differ."""
    first = drawn(name, 4, seed=0)
    assert drawn(name, 4, seed=1) == first
    assert drawn(name, 6, seed=2) == first
    assert drawn(name, 4, seed=1, canonical=False) != drawn(name, 4, seed=0, canonical=False)


def test_a_step_has_the_bits_of_train() -> None:
    """A loop of one's own makes the same updates."""
    torch.manual_seed(0)
    words = {"optimizer": "adamw", "lr": 0.01, "accumulate_grad_batches": 2, "canonical_batch": True}
    step = front.compile_step(Recurrent(), nn.CrossEntropyLoss(), **words)
    x, y = recurrent_data(12)
    for i in range(0, 12, 3):
        step(x[i : i + 3], y[i : i + 3])
    found = trained("recurrent", 3, 2, canonical_batch=True, max_grad_norm=None)
    assert {n: w.numpy().tobytes() for n, w in step.weights.items()} == found


def test_a_library_takes_it(tmp_path: Path) -> None:
    """A library of a target with one level adds up sample by sample."""
    sizes = []
    for canonical in (False, True):
        folder, words = tmp_path / str(canonical), {"name": "net", "canonical_batch": canonical}
        front.package(Recurrent(), nn.CrossEntropyLoss(), example=recurrent_data(3), folder=folder, **words)
        sizes.append(sum(path.stat().st_size for path in folder.rglob("*.c")))
    assert sizes[0] < sizes[1]


def test_batch_norm_is_refused() -> None:
    """A norm over the batch is named."""
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    words = {"example": (torch.randn(4, 4), torch.arange(4) % 3), "canonical_batch": True}
    with pytest.raises(OptionProblem, match=r"--canonical-batch: node .* does not treat samples one by one"):
        front.compile_step(net, nn.CrossEntropyLoss(), **words)
