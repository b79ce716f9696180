"""Parts of language models as people write them: norms and turned pairs are single steps, and train as in PyTorch."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deployer.core.errors import GraphProblem, UnsupportedOperator
from DeployTest.front.test_gradients import assert_alike

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn, F = torch.nn, torch.nn.functional

ROWS, CLASSES = 4, 3
HEADS, PLACES, WIDTH = 2, 5, 8
EPSILON = 1e-5


def mean_square(x: Any) -> Any:
    """The mean of the squares of the last axis."""
    return x.pow(2).mean(-1, keepdim=True)


NORMS: dict[str, Callable[[Any, Any], Any]] = {
    "function": lambda x, w: F.rms_norm(x, (WIDTH,), w, EPSILON),
    "default epsilon": lambda x, w: F.rms_norm(x, (WIDTH,), w),
    "root of a quotient": lambda x, w: x * torch.rsqrt(mean_square(x) + EPSILON) * w,
    "casts": lambda x, w: w * (x.float() * torch.rsqrt(mean_square(x.to(torch.float32)) + EPSILON)).to(x.dtype),
    "type of x": lambda x, w: (x * torch.rsqrt(mean_square(x) + EPSILON)).type_as(x) * w,
    "one more": lambda x, w: (x.float() * torch.rsqrt(mean_square(x.float()) + EPSILON)) * (1.0 + w.float()),
    "quotient": lambda x, w: x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + EPSILON) * w,
    "one over": lambda x, w: x * (1 / torch.sqrt(x.square().mean(-1, True) + EPSILON)) * w,
    "power": lambda x, w: w * (x * (torch.mean(x**2, -1, keepdim=True) + EPSILON) ** -0.5),
    "reciprocal": lambda x, w: x * (EPSILON + mean_square(x)).sqrt().reciprocal() * w,
}
"""Ways in which an RMS norm is written."""


class Normed(nn.Module):
    """A norm between two layers."""

    def __init__(self, norm: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.norm, self.first, self.last = norm, nn.Linear(6, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, WIDTH))

    def forward(self, x: Any) -> Any:
        return self.last(torch.tanh(self.norm(self.first(x), self.scale)))


def rows(*shape: int) -> tuple[Any, Any]:
    """Inputs of three batches, and labels."""
    x = torch.randn((3 * ROWS, *shape), generator=torch.Generator().manual_seed(5))
    return x, torch.arange(3 * ROWS) % CLASSES


def steps(module: Any, folder: Path, *shape: int) -> list[str]:
    """The operators of the training graph's steps."""
    front.train(module, rows(*shape), "cross_entropy", lr=0.1, batch_size=ROWS, folder=folder, warn=lambda w: None)
    plan = json.loads((folder / "run/code/plan.json").read_text())["body"]
    return [step["op"] for step in plan["steps"] if step["graph"] == "train"]


@pytest.mark.parametrize("name", NORMS)
def test_norms(name: str, tmp_path: Path) -> None:
    """Each way of writing is the same three steps, and trains as PyTorch trains it."""
    found = steps(Normed(NORMS[name]), tmp_path, 6)
    assert sorted(op for op in found if op.startswith("Rms")) == ["RmsInputGrad", "RmsRows", "RmsScaleGrad"]
    assert not {"Sqrt", "Reciprocal", "ReduceMean", "Div"} & {*found}
    assert_alike(lambda: Normed(NORMS[name]), *rows(6))


def without_gradient(x: Any) -> Any:
    """One over the root, which no gradient passes."""
    with torch.no_grad():
        return torch.rsqrt(mean_square(x) + EPSILON)


def hooked(x: Any) -> Any:
    """A tensor of whose gradient half arrives."""
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient * 0.5)
    return x


OTHERS: dict[str, Callable[[Any, Any], Any]] = {
    "another tensor": lambda x, w: torch.tanh(x) * torch.rsqrt(mean_square(x) + EPSILON) * w,
    "a mean of all": lambda x, w: x * torch.rsqrt(x.pow(2).mean() + EPSILON) * w,
    "another axis": lambda x, w: x * torch.rsqrt(x.pow(2).mean(0, keepdim=True) + EPSILON) * w,
    "cubes": lambda x, w: x * torch.rsqrt(x.abs().pow(3).mean(-1, keepdim=True) + EPSILON) * w,
    "no epsilon": lambda x, w: x * torch.rsqrt(mean_square(x)) * w,
    "a root without gradient": lambda x, w: x * without_gradient(x) * w,
    "a root with a hook": lambda x, w: x * hooked(torch.rsqrt(mean_square(x) + EPSILON)) * w,
    "a copy": lambda x, w: (2 * x) * torch.rsqrt(mean_square(x) + EPSILON) * w,
}
"""Computations that look like a norm, and are none."""


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_no_norms(name: str, tmp_path: Path) -> None:
    """They are traced as they stand, and train as in PyTorch."""
    assert not [op for op in steps(Normed(OTHERS[name]), tmp_path, 6) if op.startswith("Rms")]
    assert_alike(lambda: Normed(OTHERS[name]), *rows(6))


def test_a_tensor_that_changes(tmp_path: Path) -> None:
    """A mean of squares before a write in place is not that of what is multiplied."""

    def changed(x: Any, w: Any) -> Any:
        y = x.detach().clone()
        root = torch.rsqrt(mean_square(y) + EPSILON)
        y.mul_(2.0)
        return (y * root + x) * w

    assert not [op for op in steps(Normed(changed), tmp_path, 6) if op.startswith("Rms")]
    assert_alike(lambda: Normed(changed), *rows(6))


def test_a_mean_that_changes(tmp_path: Path) -> None:
    """A mean of squares to which a module adds in place is no longer one."""

    def changed(x: Any, w: Any) -> Any:
        mean = mean_square(x)
        mean.add_(1.0)
        return x * torch.rsqrt(mean + EPSILON) * w

    assert not [op for op in steps(Normed(changed), tmp_path, 6) if op.startswith("Rms")]
    assert_alike(lambda: Normed(changed), *rows(6))


def halves(x: Any, angles: Any) -> Any:
    """Both halves apart."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)


def swapped(x: Any, angles: Any) -> Any:
    """A copy with swapped halves, and tables of full width."""
    wide = torch.cat((angles, angles), -1)
    half = x.shape[-1] // 2
    return x * wide.cos() + torch.cat((-x[..., half:], x[..., :half]), -1) * wide.sin()


def pairs(x: Any, angles: Any) -> Any:
    """Neighbours as an axis of their own."""
    a, b = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    return torch.stack((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1).flatten(-2)


def strided(x: Any, angles: Any) -> Any:
    """Every second element."""
    a, b = x[..., 0::2], x[..., 1::2]
    turned = torch.stack((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1)
    return turned.reshape(x.shape)


def complex_numbers(x: Any, angles: Any) -> Any:
    """Neighbours as complex numbers."""
    numbers = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(numbers * torch.polar(abs=torch.ones_like(angles), angle=angles)).flatten(-2).type_as(x)


TURNS: dict[str, Callable[[Any, Any], Any]] = {
    turn.__name__: turn for turn in (halves, swapped, pairs, strided, complex_numbers)
}


class Turned(nn.Module):
    """Features of places by heads, turned by the place's angles, with heads in front of places or behind them."""

    def __init__(self, turn: Callable[[Any, Any], Any], heads_first: bool) -> None:
        super().__init__()
        self.turn, self.heads_first = turn, heads_first
        self.first, self.last = nn.Linear(6, HEADS * WIDTH), nn.Linear(HEADS * WIDTH, CLASSES)
        frequencies = 1 / (100 ** (torch.arange(0, WIDTH, 2) / WIDTH))
        self.register_buffer("angles", torch.outer(torch.arange(PLACES), frequencies), persistent=False)

    def forward(self, x: Any) -> Any:
        y = self.first(x).view(len(x), PLACES, HEADS, WIDTH)
        y = self.turn(y.transpose(1, 2), self.angles).transpose(1, 2) if self.heads_first else (
            self.turn(y, self.angles[:, None])
        )  # fmt: skip
        return self.last(torch.tanh(y.reshape(len(x), PLACES, -1)).mean(1))


@pytest.mark.parametrize("heads_first", [False, True], ids=["places", "heads"])
@pytest.mark.parametrize("name", TURNS)
def test_turned_pairs(name: str, heads_first: bool, tmp_path: Path) -> None:
    """Each way of writing is one step forwards and one backwards, and trains as in PyTorch."""
    found = steps(Turned(TURNS[name], heads_first), tmp_path, PLACES, 6)
    assert found.count("Rotation") == 2
    assert not {"Slice", "Concat", "Neg"} & {*found}
    assert_alike(lambda: Turned(TURNS[name], heads_first), *rows(PLACES, 6))


class ComplexTable(nn.Module):
    """Features times a table of complex numbers, which is a buffer or a plain attribute."""

    def __init__(self, is_buffer: bool, turned: Callable[[Any], Any]) -> None:
        super().__init__()
        self.first, self.last, self.turned = nn.Linear(6, WIDTH), nn.Linear(WIDTH, CLASSES), turned
        table = torch.polar(torch.ones(2, WIDTH // 2), torch.arange(float(WIDTH)).reshape(2, -1))
        if is_buffer:
            self.register_buffer("table", table, persistent=False)
        else:
            self.table = table

    def forward(self, x: Any) -> Any:
        numbers = torch.view_as_complex(self.first(x).reshape(len(x), -1, 2))
        return self.last(torch.tanh(self.turned(numbers * self.table[1]).flatten(-2)))


COMPLEX: dict[str, Callable[[Any], Any]] = {
    "parts": torch.view_as_real,
    "conjugate": lambda z: torch.view_as_real(torch.conj(z) + 0.5 * z - 1.0),
    "quotient": lambda z: torch.view_as_real(z / (z * torch.conj(z) + 1.0)),
    "magnitude": lambda z: torch.stack((z.abs(), z.real - z.imag), -1),
}


@pytest.mark.parametrize("is_buffer", [False, True], ids=["attribute", "buffer"])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(name: str, is_buffer: bool) -> None:
    """Arithmetic of complex numbers is that of their parts."""
    assert_alike(lambda: ComplexTable(is_buffer, COMPLEX[name]), *rows(6))


def test_unknown_functions_of_complex_numbers() -> None:
    """They are refused by name."""
    module = ComplexTable(True, lambda z: torch.view_as_real(torch.exp(z)))
    with pytest.raises(UnsupportedOperator, match="exp of complex numbers"):
        front.train(module, rows(6), "cross_entropy", lr=0.1, batch_size=ROWS)


def test_errors_name_the_line() -> None:
    """A shape that does not fit is PyTorch's own error, although norms are followed."""
    with pytest.raises(GraphProblem, match="cannot be traced"):
        front.train(Normed(lambda x, w: F.rms_norm(x, (WIDTH + 1,), w)), rows(6), "cross_entropy", lr=0.1, batch_size=4)
