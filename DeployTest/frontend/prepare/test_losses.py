"""Losses whose only output is log_prob: the loss comes first, and the gradient reads what it did."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto

from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.runtime_cases import (
    BATCH,
    CLASSES,
    EACH,
    LOSS,
    MICROSOFT,
    RATE,
    TRAIN,
    Artifacts,
    trained,
)
from DeployTest.support.graphs.small_graphs import constant, node, value
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]
LOG_PROB = "onnx::log_prob::3"
SCORES, LABELS = "fc1.out", "labels"
ONE = f"{LOSS}_grad"

FORMS: dict[str, tuple[NodeProto, NodeProto]] = {
    "plain": (
        node("SoftmaxCrossEntropyLoss", (SCORES, LABELS), (LOG_PROB,), reduction="mean"),
        node("SoftmaxCrossEntropyLossGrad", (LOG_PROB, LABELS), ("fc1.out_grad",), domain=MICROSOFT),
    ),
    "internal": (
        node("SoftmaxCrossEntropyLossInternal", (SCORES, LABELS), (LOG_PROB,), domain=MICROSOFT, output_type=1),
        node("SoftmaxCrossEntropyLossInternalGrad", (ONE, LOG_PROB, LABELS), ("fc1.out_grad",), domain=MICROSOFT),
    ),
    "second": (
        node("SoftmaxCrossEntropyLoss", (SCORES, LABELS), ("", LOG_PROB), reduction="mean"),
        node("SoftmaxCrossEntropyLossGrad", (ONE, LOG_PROB, LABELS), ("fc1.out_grad",), domain=MICROSOFT),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_log_prob_alone(form: str, tmp_path: Path) -> None:
    """A graph whose first output is log_prob trains as the one with a loss."""
    outputs = (value(LOG_PROB, (BATCH, CLASSES)), *TRAIN.outputs[1:])
    train = replace(TRAIN, nodes=(*TRAIN.nodes[:3], *FORMS[form], *TRAIN.nodes[5:]), outputs=outputs)
    dump = tmp_path / "dump.npz"
    words = ("train", "-t", Artifacts(train).write(tmp_path / "case"), "-o", tmp_path / "c", "--dump", dump)
    assert deployer(*words, "--lr", RATE, "--accumulate-grad-batches", EACH) == 0
    losses, finals = trained()
    with np.load(dump) as found:
        assert_close("MSELoss", found["loss"], np.array(losses))
        for name, array in finals.items():
            assert_close("Gemm", found[name], array)


def test_internal_with_an_ignored_label(tmp_path: Path) -> None:
    """The ignored label of the loss and of its gradient is a constant input; the other labels share the mean."""
    loss = node("SoftmaxCrossEntropyLossInternal", (SCORES, LABELS, "", "ignored"), (LOSS, LOG_PROB), domain=MICROSOFT)
    operands = (ONE, LOG_PROB, LABELS, "", "ignored")
    gradient = node("SoftmaxCrossEntropyLossInternalGrad", operands, ("fc1.out_grad",), domain=MICROSOFT)
    tensors = (*TRAIN.initializers, constant("ignored", np.array(0, np.int64)))
    train = replace(TRAIN, nodes=(*TRAIN.nodes[:3], loss, gradient, *TRAIN.nodes[5:]), initializers=tensors)
    plain = [node(n.op_type, n.input, n.output, domain=n.domain, ignore_index=0) for n in TRAIN.nodes[3:5]]
    other = replace(TRAIN, nodes=(*TRAIN.nodes[:3], *plain, *TRAIN.nodes[5:]))
    found = []
    for label, model in (("internal", train), ("plain", other)):
        folder, dump = Artifacts(model).write(tmp_path / label), tmp_path / f"{label}.npz"
        words = ("train", "-t", folder, "-o", tmp_path / "c", "--dump", dump, "--force")
        assert deployer(*words, "--lr", RATE, "--accumulate-grad-batches", EACH) == 0
        found.append(dict(np.load(dump)))
    assert found[0].keys() == found[1].keys()
    for name, array in found[0].items():
        np.testing.assert_array_equal(array, found[1][name])
    assert not np.allclose(found[0]["loss"], trained()[0])
