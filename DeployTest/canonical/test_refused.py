"""Canonical order is refused by the name of a node where samples do not have gradients of their own."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deployer import pipeline
from deployer.core.errors import OptionProblem, UnsupportedOperator
from deployer.core.plan import Options
from deployer.planning import fuse
from deployer.training.train_graph import build_train_graph
from DeployTest.canonical.nets import drawn, samples
from DeployTest.support.graphs.small_graphs import Model, chain, constant, infer, node, raises, value

pytestmark = [pytest.mark.host, pytest.mark.training]

BATCH = 4
LAYER = node("Gemm", ("x", "w"), ("h",), transB=1)


def net(*nodes: onnx.NodeProto, batch: int = BATCH, **constants: np.ndarray[Any, Any]) -> Model:
    """A layer of five outputs with these nodes behind it."""
    tensors = [constant(name, array) for name, array in {"w": drawn(5, 10), **constants}.items()]
    return Model([LAYER, *nodes], (value("x", (batch, 10)),), (value("y", None),), tensors, opsets=(("", 18),))


def planned(model: Model, folder: Path, loss: str = "cross_entropy", batch: int = BATCH, **words: Any) -> None:
    """Rewrite the training case of a model for canonical order."""
    path, data = model.save(folder / "model.onnx"), samples("dense", 2 * batch)
    trained = words.pop("trainable", "w")
    report = build_train_graph(path, loss, "sgd", 0.01, trained, folder, data=data, **words)
    fuse.fuse_program(pipeline.load_training(report.train).program, Options(canonical_batch=True))


BACKWARDS = {"last": -1, "first": -100, "axis": 0, "step": -1}
MIXING = {
    "mean of the batch": net(
        node("ReduceMean", ("h", "axis"), ("m",)), node("Sub", ("h", "m"), ("y",), "centred"), axis=np.array([0])
    ),
    "softmax over the batch": net(node("Softmax", ("h",), ("y",), "over", axis=0)),
    "samples by samples": net(
        node("Transpose", ("h",), ("t",), perm=[1, 0]),
        node("MatMul", ("h", "t"), ("g",), "gram"),
        node("MatMul", ("g", "h"), ("y",)),
    ),
    "samples in reverse": net(
        node("Slice", ("h", "last", "first", "axis", "step"), ("r",), "back"),
        node("Add", ("h", "r"), ("y",)),
        **{name: np.array([number]) for name, number in BACKWARDS.items()},
    ),
}
NAMES = {"mean of the batch": "centred", "softmax over the batch": "over", "samples by samples": "gram"}
NAMES["samples in reverse"] = "Add_y"


@pytest.mark.parametrize("case", MIXING)
def test_samples_that_meet(case: str, tmp_path: Path) -> None:
    """A node that computes with several samples is named, with a reason and a way out that works."""
    with raises(OptionProblem, "--canonical-batch", repr(NAMES[case]), "reason", "batches of one sample"):
        planned(MIXING[case], tmp_path / "several")
    planned(net(*MIXING[case].nodes[1:], batch=1, **_constants(MIXING[case])), tmp_path / "one", batch=1)


def _constants(model: Model) -> dict[str, Any]:
    return {t.name: onnx.numpy_helper.to_array(t) for t in model.initializers if t.name != "w"}


def test_draws(tmp_path: Path) -> None:
    """Dropout draws by the place of a sample in its pass, in passes of one sample as well; without it all is well."""
    for batch in (1, BATCH):
        model = net(
            node("Dropout", ("h", "share", "on"), ("y",)), batch=batch, share=np.float32(0.5), on=np.array(True)
        )
        with raises(OptionProblem, "Dropout", "random numbers", "--dropout off"):
            planned(model, tmp_path / str(batch), batch=batch)
        planned(model, tmp_path / f"{batch} without", batch=batch, dropout=False)


def test_class_weights(tmp_path: Path) -> None:
    """A mean over the weights of labels depends on the labels of the pass."""
    model = net(node("Relu", ("h",), ("y",)))
    with raises(OptionProblem, "LabelLossGrad", "weights of the labels", "without class weights"):
        planned(model, tmp_path / "weights", class_weights=(1.0, 2.0, 1.0, 1.0, 0.5))
    planned(model, tmp_path / "none")


def test_a_loss_without_a_name(tmp_path: Path) -> None:
    """The mean of a loss that the model computes itself rounds as the batch has it, unless that is a power of two."""
    nodes = (node("Mul", ("h", "h"), ("s",)), node("ReduceMean", ("s",), ("y",), keepdims=0))
    with raises(OptionProblem, "mean over 3 samples", "power of two"):
        planned(net(*nodes, batch=3), tmp_path / "three", "model", 3)
    planned(net(*nodes), tmp_path / "four", "model")


def test_what_is_not_linear(tmp_path: Path) -> None:
    """A penalty of a weight in the loss is no sum over samples."""
    nodes = (
        node("Mul", ("h", "h"), ("s",)),
        node("ReduceMean", ("s",), ("m",), keepdims=0),
        node("Mul", ("w", "w"), ("q",)),
        node("ReduceSum", ("q",), ("p",), keepdims=0),
        node("Add", ("m", "p"), ("y",)),
    )
    with raises(OptionProblem, "not linear", "--weight-decay"):
        planned(net(*nodes), tmp_path, "model")


def test_a_file_has_no_form_for_one_sample(tmp_path: Path) -> None:
    """The form of an operator for one sample is made by the rewrite alone."""
    with raises(UnsupportedOperator, "Relu@sample"):
        infer(tmp_path, chain(node("Relu@sample", ("x",), ("y",), sample=0, samples=2, sample_outer=[1])))
