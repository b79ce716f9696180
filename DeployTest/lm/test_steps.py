"""Steps of language models: gated units and attention are steps of their own, forward and backward."""

from collections import Counter
from pathlib import Path

import pytest

from deployer.core.plan import Options
from deployer.fitting.task import Task
from deployer.frontend.prepare import Axes
from deployer.lm.graph import save_model
from deployer.lm.model import TRAINABLE, forward_model
from deployer.lm.weights import initial_weights
from DeployTest.lm.sizes import small
from DeployTest.support.graphs.fusing import fused

pytestmark = [pytest.mark.host, pytest.mark.training]
BATCH = 4
SIZES = {"context": 64, "head_dim": 8, "heads": 2}
"""At these, attention is quicker as steps of its own."""


def steps(folder: Path, form: str, layers: int, **sizes: int) -> Counter[str]:
    """The operators of the steps of a pass."""
    a = small(form, layers=layers, **SIZES, **sizes)
    save_model(forward_model(a, initial_weights(a, 0)), folder / "model.onnx")
    task = Task(loss="cross_entropy", optimizer="adamw", trainable=TRAINABLE, axes=Axes(BATCH))
    problem, files = (
        task.problem(folder / "model.onnx", 0, lambda warning: None),
        (folder / "t.onnx", folder / "u.onnx"),
    )
    problem.write(*files)
    return Counter(node.op for node in fused(problem.program(*files), Options()).graphs[0].nodes)


@pytest.mark.parametrize("heads", [1, 2])
def test_joint_steps(heads: int, tmp_path: Path) -> None:
    """A layer has one step of attention forward and two backward, whether heads share keys or not, and two for a gate.

    No softmax, no activation and no product of elements is left beside them.
    """
    found = steps(tmp_path, "llama", 2, kv_heads=heads) - steps(tmp_path, "llama", 1, kv_heads=heads)
    for name in ("AttentionRows", "AttentionQueryGrad", "AttentionKeyGrad", "SwishProduct", "SwishGateGrads"):
        assert found[name] == 1, name
    assert (found["Rotation"], found["RmsRows"]) == (4, 2)
    assert not {"MaskedSoftmax", "SoftmaxGrad", "Swish", "SwishGrad", "Mul", "Slice", "Concat", "Add"} & found.keys()
