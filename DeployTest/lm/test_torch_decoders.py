"""Language models beside PyTorch's: the same scores, the same weights after twenty updates, no more steps."""

import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.ir import Program
from deployer.core.plan import Options
from deployer.fitting.call import fit
from deployer.fitting.task import Task
from deployer.frontend.prepare import Axes
from deployer.lm.adapters.low_rank import ADAPTERS, DOWN, UP, LowRank
from deployer.lm.architecture import Architecture
from deployer.lm.graph import save_model
from deployer.lm.model import IDS, TRAINABLE, forward_model, shapes
from deployer.lm.presets import preset_names
from deployer.lm.weights import initial_weights
from deployer.operators.base import philox
from deployer.planning.fuse import fuse_program
from DeployTest.lm.sizes import FORMS, small
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
F = torch.nn.functional
BATCH, UPDATES, RATE, DECAY, SEED = 4, 20, 3e-3, 0.1, 7
EPSILON = 1e-4
"""AdamW's epsilon: with its default the rounding of gradients that are zero, such as those of biases of keys that no
rotation turns, would be as large as any update."""


JOINT = {"context": 64, "head_dim": 8, "heads": 2, "kv_heads": 1}
"""Sizes at which attention is quicker as steps of its own."""


def decoder(a: Architecture, weights: dict[str, np.ndarray]) -> Any:
    """PyTorch's model with these weights."""
    module = importlib.import_module("DeployTest.support.references.torch_language").Decoder(a)
    with torch.no_grad():
        named = dict(module.named_parameters())
        assert named.keys() == weights.keys()
        for name, parameter in named.items():
            parameter.copy_(torch.from_numpy(weights[name]))
    return module


def drawn(a: Architecture) -> dict[str, np.ndarray]:
    """Weights of which none is zero or one, so that each of them counts."""
    random = np.random.default_rng(3)
    return {n: (x + 0.2 * random.standard_normal(x.shape)).astype(np.float32) for n, x in initial_weights(a, 1).items()}


def rows(a: Architecture, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids and the ids behind them."""
    random = np.random.default_rng(5)
    text = random.integers(0, a.vocab, (count, a.context + 1))
    return text[:, :-1], text[:, 1:]


def saved(a: Architecture, weights: dict[str, np.ndarray], folder: Path) -> Path:
    """The model's file."""
    save_model(forward_model(a, weights), folder / "model.onnx")
    return folder / "model.onnx"


@pytest.mark.parametrize("form", [n if n in preset_names() else pytest.param(n, marks=pytest.mark.slow) for n in FORMS])
def test_trained_as_by_pytorch(form: str, tmp_path: Path) -> None:
    """Losses of each pass and weights after twenty updates of AdamW."""
    a = small(form)
    weights = drawn(a)
    module = decoder(a, weights)
    x, y = rows(a, BATCH * UPDATES)
    trained = fit(
        saved(a, weights, tmp_path),
        {IDS: x, "labels": y},
        "cross_entropy",
        "adamw",
        folder=tmp_path / "run",
        lr=RATE,
        weight_decay=DECAY,
        eps=EPSILON,
        check_passes=2,
        trainable=TRAINABLE,
        batch_size=BATCH,
        n_steps=UPDATES,
        shuffle=False,
        progress=False,
    )
    assert trained.verdict == "passed"
    optimizer, losses = torch.optim.AdamW(module.parameters(), RATE, eps=EPSILON, weight_decay=DECAY), []
    for step in range(UPDATES):
        at = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        loss = F.cross_entropy(module(torch.from_numpy(x[at])), torch.from_numpy(y[at]).flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    limits = table()["front"]
    off = np.abs(np.subtract(trained.losses, losses)).max()
    assert off <= limits["loss"] * max(losses)
    for name, parameter in module.named_parameters():
        ours, theirs = trained.weights[name].astype(np.float64), parameter.detach().double().numpy()
        moved = float(np.abs(theirs - weights[name]).max())
        assert np.abs(ours - theirs).max() <= max(moved, RATE) * limits["movement"], name


class DroppedLayer:
    """A linear layer's adapter, as a hook: what it reads is dropped by the words of this compiler's generator."""

    def __init__(self, pair: list[Any], stream: int, ratio: float) -> None:
        self.pair, self.stream, self.ratio, self.passes = pair, stream, ratio, 0

    def __call__(self, linear: Any, given: tuple[Any], y: Any) -> Any:
        self.passes += 1
        x, (down, up) = given[0], self.pair
        if self.ratio and linear.training:
            words = philox.drawn(SEED, self.stream, self.passes, x.numel()).reshape(x.shape)
            x = x * torch.from_numpy(words >= self.ratio * 2.0**32) / (1 - self.ratio)
        return y + 2.0 * (x @ down.T @ up.T)


@pytest.mark.parametrize(("name", "dropout"), [("llama", 0.0), ("llama", 0.25), ("gpt2", 0.0)])
def test_adapters_trained_as_by_pytorch(name: str, dropout: float, tmp_path: Path) -> None:
    """Adapters after twenty updates, and the weights that they are added to at the end."""
    a = small(name)
    adapters, weights = LowRank("q_proj|down_proj", 3, 6.0, dropout), drawn(a)
    narrow = {n: x + np.float32(0.1) for n, x in adapters.initial(shapes(a), 1).items()}
    module = decoder(a, weights)
    module.requires_grad_(False)
    pairs = {}
    for stream, layer in enumerate(adapters.layers(shapes(a))):
        pair = [torch.nn.Parameter(torch.from_numpy(narrow[f"{layer}.{end}"].copy())) for end in (DOWN, UP)]
        pairs[layer] = pair
        module.get_submodule(layer).register_forward_hook(DroppedLayer(pair, stream, dropout))
    save_model(forward_model(a, {**weights, **narrow}, adapters), tmp_path / "model.onnx")
    x, y = rows(a, BATCH * UPDATES)
    options = {"lr": RATE, "weight_decay": DECAY, "eps": EPSILON, "batch_size": BATCH, "n_steps": UPDATES, "seed": SEED}
    fixed = {"trainable": ADAPTERS, "shuffle": False, "progress": False, "folder": tmp_path / "run", "check_passes": 2}
    samples = {IDS: x, "labels": y}
    trained = fit(tmp_path / "model.onnx", samples, "cross_entropy", "adamw", **options, **fixed)
    assert trained.verdict == "passed"
    assert trained.weights.keys() == narrow.keys()
    optimizer = torch.optim.AdamW([p for pair in pairs.values() for p in pair], RATE, eps=EPSILON, weight_decay=DECAY)
    for step in range(UPDATES):
        at = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        F.cross_entropy(module(torch.from_numpy(x[at])), torch.from_numpy(y[at]).flatten()).backward()
        optimizer.step()
    limit = table()["front"]["movement"]
    for layer, pair in pairs.items():
        for end, parameter in zip((DOWN, UP), pair, strict=True):
            ours, theirs = trained.weights[f"{layer}.{end}"].astype(np.float64), parameter.detach().double().numpy()
            moved = float(np.abs(theirs - narrow[f"{layer}.{end}"]).max())
            assert np.abs(ours - theirs).max() <= max(moved, RATE) * limit, (layer, end)
    module.eval()
    with torch.no_grad():
        expected = module(torch.from_numpy(x[:BATCH]))
        merged = decoder(a, adapters.merged(weights, trained.weights))(torch.from_numpy(x[:BATCH]))
    rounding = table()["several"]["float32"]["rtol"]
    assert float((merged - expected).abs().max()) <= rounding * UPDATES * float(expected.abs().max())


def step_operators(program: Program) -> Counter[str]:
    """The operators of the steps of a pass, after rewrites."""
    return Counter(node.op for node in fuse_program(program, Options()).graphs[0].nodes)


@pytest.mark.parametrize("name", preset_names())
def test_no_more_steps_than_a_capture(name: str, tmp_path: Path) -> None:
    """A layer has at most the steps, forward and backward, that it has where PyTorch wrote the training step."""
    counts = []
    for layers in (1, 2):
        a = small(name, layers=layers, **JOINT)
        weights = drawn(a)
        x, y = rows(a, BATCH)
        given = torch.from_numpy(x), torch.from_numpy(y).flatten()
        module, named = decoder(a, weights), dict(zip("xy", given, strict=True))
        step = front.capture_step(module, lambda module, x, y: F.cross_entropy(module(x), y), named)
        step.save(tmp_path / "step.onnx")
        own = Task(loss="cross_entropy", optimizer="adamw", trainable=TRAINABLE, axes=Axes(BATCH))
        tasks = ((own, saved(a, weights, tmp_path)), (Task(loss="model", optimizer="adamw"), tmp_path / "step.onnx"))
        programs = []
        for task, model in tasks:
            problem = task.problem(model, 0, lambda warning: None)
            files = tmp_path / "train.onnx", tmp_path / "update.onnx"
            problem.write(*files)
            programs.append(step_operators(problem.program(*files)))
        counts.append(programs)
    ours, captured = (counts[1][i] - counts[0][i] for i in (0, 1))
    assert ours.total() <= captured.total(), (ours - captured, captured - ours)
    joint = {"AttentionRows", "AttentionQueryGrad", "AttentionKeyGrad", "SwishProduct", "SwishGateGrads", "Rotation"}
    joint |= {"ProductsOfA", "ProductsOfB", "SumOfProducts", "Gemm", "Transpose"}
    assert {op: n for op, n in ours.items() if op in joint} == {op: n for op, n in captured.items() if op in joint}
