"""Attention in the forms of PyTorch: trained as by PyTorch, by one operator where it can be, and written as ONNX's."""

import copy
import importlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from DeployTest.front.test_gradients import CLASSES, ROWS, WIDTH, assert_alike, batches
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn, F = torch.nn, torch.nn.functional
COMPOSITE = "ScaledDotProductAttention"


def lower(queries: int, keys: int) -> Any:
    """True on and below the diagonal."""
    return torch.ones(queries, keys, dtype=torch.bool).tril()


def hidden(queries: int, keys: int) -> Any:
    """The same, with one query that sees no key."""
    mask = lower(queries, keys)
    mask[1] = False
    return mask


def added(*shape: int) -> Any:
    """Numbers that are added to scores."""
    return torch.linspace(-2, 2, int(np.prod(shape))).reshape(shape)


@dataclass(frozen=True)
class Case:
    """Lengths and widths, arguments of the function, and whether heads are an axis."""

    options: dict[str, Any] = field(default_factory=dict)
    heads: int = 2
    shared: int = 0
    queries: int = 5
    keys: int = 5
    width: int = 4
    values: int = 4
    flat: bool = False
    dropped: tuple[str, ...] = ()


CASES = {
    "plain": Case(),
    "causal": Case({"is_causal": True}),
    "added": Case({"attn_mask": added(5, 5)}),
    "added to heads": Case({"attn_mask": added(1, 2, 5, 5)}),
    "added to samples": Case({"attn_mask": added(ROWS, 1, 5, 5)}),
    "added to keys": Case({"attn_mask": added(ROWS, 1, 1, 5)}),
    "booleans": Case({"attn_mask": lower(5, 5)}),
    "a hidden query": Case({"attn_mask": hidden(5, 5)}),
    "a hidden query of infinities": Case({"attn_mask": torch.where(hidden(5, 5), 0.0, float("-inf"))}),
    "groups": Case({"enable_gqa": True, "is_causal": True}, heads=4, shared=2),
    "groups, masked": Case({"enable_gqa": True, "attn_mask": hidden(5, 7)}, heads=6, shared=2, keys=7),
    "one head of keys": Case({"enable_gqa": True}, heads=3, shared=1),
    "fewer keys, causal": Case({"is_causal": True}, keys=3),
    "more keys, causal": Case({"is_causal": True}, keys=9),
    "one head": Case({"is_causal": True}, heads=1),
    "wide values": Case({"is_causal": True}, values=7),
    "scale": Case({"scale": 0.3}),
    "no scale": Case({"scale": 1.0}, width=5),
    "without heads": Case({"is_causal": True}, heads=1, flat=True),
    "several blocks": Case({"is_causal": True}, heads=1, queries=40, keys=40, width=3, values=3),
}
"""Forms that are one operator."""


class Attends(nn.Module):
    """Queries, keys and values from three layers, attention, and scores from a fourth."""

    def __init__(self, form: Case, **others: Any) -> None:
        super().__init__()
        self.form, self.options = form, {**form.options, **others}
        shared = form.shared or form.heads
        self.q = nn.Linear(WIDTH, form.heads * form.queries * form.width)
        self.k, self.v = (nn.Linear(WIDTH, shared * form.keys * n) for n in (form.width, form.values))
        self.head = nn.Linear(form.heads * form.queries * form.values, CLASSES)
        self.shared = shared

    def forward(self, x: Any) -> Any:
        form, shared = self.form, self.shared
        q = self.q(x).view(len(x), form.queries, form.heads, form.width).transpose(1, 2)
        k = self.k(x).view(len(x), form.keys, shared, form.width).transpose(1, 2)
        v = self.v(x).view(len(x), form.keys, shared, form.values).transpose(1, 2)
        if form.flat:
            q, k, v = (y.squeeze(1) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, **self.options)
        return self.head(y.transpose(-3, -2).reshape(len(x), -1))


def operators(module: Any, folder: Path) -> Counter[str]:
    """The operators of the training graph of a module."""
    front.train(module, batches(), "cross_entropy", lr=0.1, batch_size=ROWS, folder=folder, warn=lambda w: None)
    return Counter(node.op_type for node in onnx.load(folder / "module.onnx").graph.node)


@pytest.mark.parametrize("name", CASES)
def test_cases_train_as_in_pytorch(name: str) -> None:
    """Losses and weights after updates by the gradients of queries, keys and values."""
    assert_alike(lambda: Attends(CASES[name]), *batches())


@pytest.mark.parametrize("name", CASES)
def test_cases_are_one_operator(name: str, tmp_path: Path) -> None:
    """The training graph has attention, its gradient, and neither exponentials nor repeated heads."""
    found = operators(Attends(CASES[name]), tmp_path)
    assert (found[COMPOSITE], found[f"{COMPOSITE}Grad"]) == (1, 1)
    assert not {"Softmax", "Exp", "Expand"} & set(found)


def test_a_batch_of_one() -> None:
    """One sample in a batch."""
    torch.manual_seed(1)
    module = Attends(CASES["groups"])
    x, y = batches()
    trained = front.train(copy.deepcopy(module), (x[:3], y[:3]), "cross_entropy", lr=0.1, batch_size=1, shuffle=False)
    losses, optimizer = [], torch.optim.SGD(module.parameters(), 0.1)
    for i in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x[i : i + 1]), y[i : i + 1])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.allclose(trained.losses, losses, rtol=0, atol=table()["front"]["loss"])


class Biased(nn.Module):
    """Attention of which the mask is trained, which is traced as PyTorch's operators."""

    def __init__(self) -> None:
        super().__init__()
        self.attends, self.bias = Attends(Case()), nn.Parameter(0.1 * torch.randn(2, 5, 5))

    def forward(self, x: Any) -> Any:
        self.attends.options = {"attn_mask": self.bias}
        try:
            return self.attends(x)
        finally:
            self.attends.options = {}


class Written(nn.Module):
    """Attention written in single operators, or by PyTorch's function; its mask has a copy for each sample."""

    def __init__(self, is_one: bool) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, 2 * 5 * 4) for _ in range(3))
        self.head, self.is_one = nn.Linear(2 * 5 * 4, CLASSES), is_one

    def forward(self, x: Any) -> Any:
        q, k, v = (layer(x).view(len(x), 5, 2, 4).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mask = torch.full((len(x), 1, 5, 5), float("-inf")).triu(2)
        if self.is_one:
            y = F.scaled_dot_product_attention(q, k, v, mask)
        else:
            y = torch.softmax(q @ k.transpose(2, 3) * 0.5 + mask, -1) @ v
        return self.head(y.transpose(1, 2).reshape(len(x), -1))


@pytest.mark.parametrize("is_one", [False, True], ids=["operators", "function"])
def test_equal_masks_of_samples_are_one(is_one: bool, tmp_path: Path) -> None:
    """The graph has the mask once, so that scores, mask and softmax become one step."""
    operators(Written(is_one), tmp_path)
    constants = onnx.load(tmp_path / "module.onnx").graph.initializer
    assert [list(c.dims) for c in constants if c.dims[-2:] == [5, 5]] == [[1, 1, 5, 5]]
    plan = json.loads((tmp_path / "run/code/plan.json").read_text())["body"]
    assert next(s["op"] for s in plan["steps"] if "Softmax" in s["op"]) == "MaskedSoftmax"
    assert_alike(lambda: Written(is_one), *batches())


def test_a_trained_mask(tmp_path: Path) -> None:
    """It gets its gradient from PyTorch's operators."""
    assert_alike(Biased, *batches())
    assert not operators(Biased(), tmp_path)[COMPOSITE]


def test_frozen_keys(tmp_path: Path) -> None:
    """Queries alone are trained."""

    def build() -> Any:
        module = Attends(CASES["causal"])
        module.k.requires_grad_(False)
        module.v.requires_grad_(False)
        return module

    assert_alike(build, *batches())


def test_dropout_stays_apart(tmp_path: Path) -> None:
    """Attention that drops is PyTorch's operators; with dropout off it is one."""
    module = Attends(CASES["causal"], dropout_p=0.2)
    assert not operators(module, tmp_path / "drops")[COMPOSITE]
    front.train(module, batches(), "cross_entropy", lr=0.1, batch_size=ROWS, folder=tmp_path / "off", dropout="off")
    nodes = onnx.load(tmp_path / "off" / "module.onnx").graph.node
    assert [node.op_type for node in nodes].count(COMPOSITE) == 1


class Heads(nn.Module):
    """The layer of PyTorch over tokens."""

    def __init__(self, call: Callable[[Any, Any], Any], **options: Any) -> None:
        super().__init__()
        self.first, self.tokens = options.get("batch_first", False), nn.Linear(WIDTH, 5 * 4)
        self.attends, self.call, self.head = nn.MultiheadAttention(4, 2, **options), call, nn.Linear(20, CLASSES)

    def forward(self, x: Any) -> Any:
        tokens = self.tokens(x).view(len(x), 5, 4)
        tokens = tokens if self.first else tokens.transpose(0, 1)
        y = self.call(self.attends, tokens)
        return self.head((y if self.first else y.transpose(0, 1)).reshape(len(x), -1))


LAYERS: dict[str, tuple[Callable[[Any, Any], Any], dict[str, Any], int]] = {
    "batch first": (lambda layer, x: layer(x, x, x, need_weights=False)[0], {"batch_first": True}, 1),
    "batch second": (lambda layer, x: layer(x, x, x, need_weights=False)[0], {}, 1),
    "causal": (
        lambda layer, x: layer(x, x, x, need_weights=False, attn_mask=~lower(5, 5), is_causal=True)[0],
        {"batch_first": True},
        1,
    ),
    "padding": (
        lambda layer, x: layer(x, x, x, need_weights=False, key_padding_mask=torch.arange(5).expand(len(x), 5) > 3)[0],
        {"batch_first": True},
        1,
    ),
    "weights": (lambda layer, x: layer(x, x, x)[0] + layer(x, x, x)[1].square().mean(), {}, 0),
}
"""Calls of the layer, its options, and how many operators of ours it has."""


@pytest.mark.parametrize("name", LAYERS)
def test_layers_train_as_in_pytorch(name: str, tmp_path: Path) -> None:
    """Losses and weights; weights of attention that are asked for are PyTorch's operators."""
    call, options, count = LAYERS[name]
    assert_alike(lambda: Heads(call, **options), *batches())
    assert operators(Heads(call, **options), tmp_path)[COMPOSITE] == count


@pytest.mark.parametrize("name", CASES)
def test_files_have_operators_of_onnx(name: str) -> None:
    """A captured forward pass is a file that ONNX Runtime reads, with PyTorch's result."""
    module, x = Attends(CASES[name]), batches()[0][:ROWS]
    captured = front.capture(module, [x])
    session = onnxruntime.InferenceSession(captured.model.SerializeToString(), providers=["CPUExecutionProvider"])
    [computed] = session.run(None, {captured.inputs[0]: x.numpy()})
    with torch.no_grad():
        expected = module(x).numpy()
    assert np.allclose(computed, expected, **table()["several"]["float32"])
