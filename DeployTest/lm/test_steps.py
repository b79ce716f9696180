"""Steps of language models: gated units and attention are steps of their own, forward and backward."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from deployer.core.errors import OptionProblem
from deployer.core.ir import Program
from deployer.core.plan import Options
from deployer.fitting.task import Task
from deployer.frontend.prepare import Axes
from deployer.lm.adapters.low_rank import ADAPTERS, DOWN, UP, LowRank
from deployer.lm.architecture import Architecture
from deployer.lm.graph import save_model
from deployer.lm.model import TRAINABLE, forward_model, shapes
from deployer.lm.weights import initial_weights
from DeployTest.lm.sizes import small
from DeployTest.support.graphs.fusing import fused

pytestmark = [pytest.mark.host, pytest.mark.training]
BATCH = 4
SIZES = {"context": 64, "head_dim": 8, "heads": 2}
"""At these, attention is quicker as steps of its own."""


def training_program(folder: Path, a: Architecture, adapters: LowRank | None = None) -> Program:
    """The program of a pass and of its update, before rewrites."""
    weights = {**initial_weights(a, 0), **(adapters.initial(shapes(a), 0) if adapters else {})}
    save_model(forward_model(a, weights, adapters), folder / "model.onnx")
    trained = ADAPTERS if adapters else TRAINABLE
    task = Task(loss="cross_entropy", optimizer="adamw", trainable=trained, axes=Axes(BATCH))
    problem, files = (
        task.problem(folder / "model.onnx", 0, lambda warning: None),
        (folder / "t.onnx", folder / "u.onnx"),
    )
    problem.write(*files)
    return problem.program(*files)


def steps(folder: Path, form: str, layers: int, **sizes: int) -> Counter[str]:
    """The operators of the steps of a pass."""
    program = training_program(folder, small(form, layers=layers, **SIZES, **sizes))
    return Counter(node.op for node in fused(program, Options()).graphs[0].nodes)


@pytest.mark.parametrize("heads", [1, 2])
def test_joint_steps(heads: int, tmp_path: Path) -> None:
    """A layer has one step of attention forward and two backward, whether heads share keys or not, and two for a gate.

    Projections of the same values are one step, as their gradients are.
    No softmax, no activation, no product of elements and no transpose of heads is left beside them.
    """
    found = steps(tmp_path, "llama", 2, kv_heads=heads) - steps(tmp_path, "llama", 1, kv_heads=heads)
    for name in ("AttentionRows", "AttentionQueryGrad", "AttentionKeyGrad", "SwishProduct", "SwishGateGrads"):
        assert found[name] == 1, name
    assert (found["Rotation"], found["RmsRows"]) == (4, 2)
    assert [found[name] for name in ("ProductsOfA", "ProductsOfB", "SumOfProducts", "Gemm")] == [2, 2, 2, 6]
    assert sum(found.values()) == 27
    apart = {"MaskedSoftmax", "SoftmaxGrad", "Swish", "SwishGrad", "Mul", "Slice", "Concat", "Add", "Transpose"}
    assert not apart & found.keys()


def test_frozen_weights_cost_nothing(tmp_path: Path) -> None:
    """Adapters alone have gradients, accumulators and states; each adds two products forward and four backward.

    Below the first layer that has one, no gradient is computed.
    """
    a, adapters = small("llama", layers=3), LowRank(r"layers\.[12]\..*q_proj", 2, 4.0)
    program = training_program(tmp_path, a, adapters)
    names = adapters.shapes(shapes(a))
    assert len(program.accumulators) == len(names) == 4
    sizes = sum(math.prod(shape) for shape in names.values())
    assert sum(program.tensors[name].type.size for name in program.accumulators) == sizes
    assert sum(program.tensors[name].type.size for name in program.updated.values()) >= 3 * sizes
    largest = max(math.prod(shape) for shape in names.values())
    assert max(program.tensors[name].type.size for name in program.updated.values()) == largest
    products = [node for node in program.graphs[0].nodes if node.op == "Gemm" and "layers.0" in node.outputs[0]]
    assert all("_grad" not in node.outputs[0] for node in products)


def test_merged(tmp_path: Path) -> None:
    """The product is added once, scaled by alpha over the rank; other weights keep their bits."""
    a, adapters = small("llama"), LowRank("up_proj", 2, 3.0)
    weights = initial_weights(a, 0)
    narrow = adapters.initial(shapes(a), 4)
    assert not any(x.any() for n, x in narrow.items() if n.endswith(UP))
    assert all(0 < np.abs(x).max() <= 1 / math.sqrt(a.dim) for n, x in narrow.items() if n.endswith(DOWN))
    narrow = {name: np.full_like(x, 0.5) for name, x in narrow.items()}
    merged = adapters.merged(weights, narrow)
    for name, before in weights.items():
        added = np.float32(0.75) if "up_proj" in name else np.float32(0)
        assert np.allclose(merged[name], before + added, rtol=0, atol=1e-7 * bool(added)), name


@pytest.mark.parametrize(
    ("pattern", "rank", "alpha", "message"),
    [
        ("quer", 2, 1.0, "one of q_proj, k_proj"),
        ("(", 2, 1.0, "no regular"),
        ("q", 0, 1.0, "at least 1"),
        ("q", 1, 0.0, "at least"),
    ],
)
def test_wrong_adapters(pattern: str, rank: int, alpha: float, message: str) -> None:
    """Patterns that match no linear layer, and numbers without meaning."""
    with pytest.raises(OptionProblem, match=message):
        LowRank(pattern, rank, alpha).layers(shapes(small("llama")))
