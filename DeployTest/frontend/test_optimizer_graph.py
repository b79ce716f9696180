"""Optimizer graphs over sequences of tensors, with rates and counts as inputs: what they mean, and what is refused."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deployer.core import operator
from deployer.core.errors import DeployerError, GraphProblem, OptionProblem, ShapeMismatch, UnsupportedOperator
from deployer.core.operator import registry
from deployer.operators.update import optimizers as sgd
from deployer.verify.program import verify_program
from DeployTest.support.graphs import runtime_cases
from DeployTest.support.graphs.runtime_cases import MICROSOFT, SIZES, adamw, sequence
from DeployTest.support.graphs.small_graphs import (
    BUFFER,
    INT64,
    OPTIMIZER,
    TRAIN,
    Case,
    Model,
    constant,
    node,
    raises,
    value,
    with_nodes,
)

pytestmark = [pytest.mark.host, pytest.mark.training]
SGD = runtime_cases.SGD
RATE = 0.5


def sgd_node(*inputs: str, outputs: tuple[str, ...] = ("update_completed",), **attrs: object) -> onnx.NodeProto:
    """The node of ONNX Runtime's optimizer graph, with other operands."""
    names = inputs or ("learning_rate", "params", "gradients")
    return node("SGDOptimizerV2", names, outputs, domain=MICROSOFT, **attrs)


def test_a_node_for_each_weight(tmp_path: Path) -> None:
    """The form over sequences is the form with a node per weight: the same steps, but for names."""
    weights = [("SGD", (name, f"{name}{runtime_cases.BUFFER}"), {"lr": RATE}) for name in SIZES]
    program = Case(runtime_cases.TRAIN, SGD).program(tmp_path / "a", learning_rate=RATE)
    verify_program(program)
    assert [(n.op, n.inputs, dict(n.attrs)) for n in program.graphs[1].nodes] == weights
    assert tuple(program.updated.values()) == tuple(SIZES) == program.weights
    plain = Model(
        tuple(node(op, names, (f"{names[0]}_updated",), **attrs) for op, names, attrs in weights),
        tuple(value(name, None) for _, names, _ in weights for name in names),
        tuple(value(f"{name}_updated", None) for name in SIZES),
    )
    assert Case(runtime_cases.TRAIN, plain).program(tmp_path / "b").updated == program.updated


def test_domain_may_be_left_out(tmp_path: Path) -> None:
    """A file need not import the domain of the form over sequences."""
    bare = node("SGDOptimizerV2", ("learning_rate", "params", "gradients"), ("update_completed",))
    graph = replace(SGD, nodes=(bare,), opsets=(("", 15),))
    program = Case(runtime_cases.TRAIN, graph).program(tmp_path / "a", learning_rate=RATE)
    named = Case(runtime_cases.TRAIN, SGD).program(tmp_path / "b", learning_rate=RATE)
    assert program.updated == named.updated


def test_outputs_over_sequences(tmp_path: Path) -> None:
    """The updated weights may be outputs as well; they are those in place."""
    made = sgd_node(outputs=("update_completed", "updated"))
    graph = replace(SGD, nodes=(made,), outputs=(*SGD.outputs, sequence("updated")))
    program = Case(runtime_cases.TRAIN, graph).program(tmp_path, learning_rate=RATE)
    assert tuple(program.updated.values()) == tuple(SIZES)


def test_state_is_declared(tmp_path: Path) -> None:
    """Each weight has both moments, all share one count; they begin with zeros and come with no sample."""
    program = Case(runtime_cases.TRAIN, adamw()).program(tmp_path, learning_rate=RATE)
    verify_program(program)
    moments = [f"{name}_{which}_moment" for name in SIZES for which in ("first", "second")]
    assert sorted(program.weights) == sorted([*SIZES, *moments, "step"])
    for name in moments:
        assert program.tensors[name].type.shape == SIZES[name.rsplit("_", 2)[0]]
        assert not program.tensors[name].array.any()
    assert str(program.tensors["step"].type) == "int32[1]"
    assert program.graphs[1].nodes[0].op == operator.update_counter().name
    assert len(program.graphs[1].nodes) == 1 + len(SIZES)
    assert set(program.updated.values()) == set(program.weights)


def test_names_of_the_training_graph(tmp_path: Path) -> None:
    """A data input called as the count, and one called as a state, stay what they are."""
    extra = (value("step", (2,)), value("fc0.bias_first_moment", (2,)), value("fc0.bias_updated", (2,)))
    train = replace(runtime_cases.TRAIN, inputs=(*extra, *runtime_cases.TRAIN.inputs))
    program = Case(train, adamw()).program(tmp_path, learning_rate=RATE)
    verify_program(program)
    assert program.data == ("step", "fc0.bias_first_moment", "fc0.bias_updated", "x", "labels")
    assert len(program.weights) == 1 + 3 * len(SIZES)


def test_rate_in_the_graph(tmp_path: Path) -> None:
    """A constant rate counts unless the command line gives another."""
    graph = replace(SGD, initializers=(constant("learning_rate", np.array([0.125], np.float32)),))
    for rate, expected in ((None, 0.125), (RATE, RATE)):
        program = Case(runtime_cases.TRAIN, graph).program(tmp_path, learning_rate=rate)
        assert {n.attrs["lr"] for n in program.graphs[1].nodes} == {expected}


class FedSGD(sgd.SGD):
    """An optimizer whose rate may be its third input."""

    file = replace(sgd.SGD.file, custom=replace(sgd.SGD.file.custom, inputs=(2, 3)), static_inputs={2: "lr"})


def test_rate_as_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate that is an input of the graph, and no constant, is what the command line says, and is asked for."""
    known: Mapping[str, Any] = {**registry(), "SGD": FedSGD()}
    for module in ("core.operator", "frontend.optimizer_graph", "frontend.resolve", "frontend.opsets"):
        monkeypatch.setattr(f"deployer.{module}.registry", lambda: known)
    fed = node("SGD", ("w", BUFFER, "rate"), ("w_updated",), "step")
    graph = replace(OPTIMIZER, nodes=(fed,), inputs=(*OPTIMIZER.inputs, value("rate", ())))
    program = Case(optimizer=graph).program(tmp_path, learning_rate=RATE)
    assert program.graphs[1].nodes[0].attrs["lr"] == RATE
    assert "rate" not in program.tensors
    with raises(OptionProblem, "'rate' is an input", "node 'step' (SGD)", "--lr"):
        Case(optimizer=graph).program(tmp_path)


@pytest.mark.parametrize("model", ["optimizer", "train"])
def test_unused_initializers(model: str, tmp_path: Path) -> None:
    """An input with an initializer that no node reads is no input of the case, in either graph."""
    spare: dict[str, Any] = {"initializers": (constant("spare", np.zeros(3, np.float32)),)}
    plain = {"optimizer": OPTIMIZER, "train": TRAIN}[model]
    case = Case(**{model: replace(plain, inputs=(value("spare", (3,)), *plain.inputs), **spare)})
    assert case.program(tmp_path / "a") == Case().program(tmp_path / "b")


@pytest.mark.parametrize(("attrs", "limit"), [({"max_norm": 0.25}, 0.25), ({}, 1.0)], ids=["given", "default"])
def test_limit_of_the_norm(attrs: dict[str, float], limit: float, tmp_path: Path) -> None:
    """All gradients together are scaled by one number, and each weight is updated by its part of them."""
    nodes = (limiter(**attrs), clipped(limit)[1])
    program = Case(runtime_cases.TRAIN, replace(SGD, nodes=nodes)).program(tmp_path, learning_rate=RATE)
    verify_program(program)
    steps = program.graphs[1].nodes
    assert [n.op for n in steps].count("SquareSum") == len(SIZES)
    (scale,) = [n for n in steps if n.op == "NormScale"]
    assert scale.attrs["limit"] == limit
    scaled = {n.outputs[0]: n.inputs for n in steps if n.op == "Mul"}
    for update in (n for n in steps if n.op == "SGD"):
        assert scaled[update.inputs[1]] == (f"{update.inputs[0]}{runtime_cases.BUFFER}", scale.outputs[0])


TENSORS = replace(SGD, inputs=(SGD.inputs[0], SGD.inputs[1], value("params", (3,)), *SGD.inputs[3:]))


def limiter(**attrs: object) -> onnx.NodeProto:
    """The node by which ONNX Runtime limits the norm of all gradients."""
    return node("InplaceClipGradNorm", ("gradients",), ("clipped",), domain=MICROSOFT, **attrs)


def clipped(limit: float) -> tuple[onnx.NodeProto, onnx.NodeProto]:
    """A limit of the norm of all gradients, and the optimizer behind it."""
    return limiter(max_norm=limit), sgd_node("learning_rate", "params", "clipped")


def relabelled(buffer: str) -> Model:
    """The training graph with another name for an accumulator."""
    nodes = []
    for n in runtime_cases.TRAIN.nodes:
        names = [buffer if x.startswith("fc1.bias_grad.acc") else x for x in n.input]
        adds = n.op_type == "InPlaceAccumulatorV2"
        nodes.append(node(n.op_type, names, n.output, domain=MICROSOFT) if adds else n)
    return replace(runtime_cases.TRAIN, nodes=tuple(nodes), inputs=(*runtime_cases.TRAIN.inputs, value(buffer, (3,))))


WITHOUT = replace(runtime_cases.TRAIN, nodes=runtime_cases.TRAIN.nodes[:-4], outputs=runtime_cases.TRAIN.outputs[:1])
BLIND = Model(
    (node("Relu", ("w",), ("g",)), node("AdamW", ("w", "g", "m", "v", "step"), ("w_new", "m_new", "v_new"))),
    (*OPTIMIZER.inputs, value("m", (4, 3)), value("v", (4, 3)), value("step", (1,), INT64)),
    tuple(value(name, (4, 3)) for name in ("m_new", "w_new", "v_new")),
)
FAULTS: dict[str, tuple[dict[str, Model], type[DeployerError], tuple[str, ...]]] = {
    "no gradient, states first": (
        {"train": TRAIN, "optimizer": BLIND},
        GraphProblem,
        ("the update of weight 'w' reads no gradient accumulator",),
    ),
    "no rate": ({"optimizer": SGD}, OptionProblem, ("'learning_rate'", "(SGDOptimizerV2)", "--lr")),
    "two": ({"optimizer": with_nodes(adamw(), SGD.nodes[0])}, GraphProblem, ("updates all weights 2 times",)),
    "clipped to nothing": (
        {"optimizer": replace(SGD, nodes=clipped(0.0))},
        UnsupportedOperator,
        ("(InplaceClipGradNorm): max_norm is 0", "a number above 0"),
    ),
    "clipped for others as well": (
        {"optimizer": replace(SGD, nodes=(*clipped(1.0), node("SequenceLength", ("clipped",), ("n",))))},
        UnsupportedOperator,
        ("(SequenceLength): it reads gradients that InplaceClipGradNorm has limited",),
    ),
    "clipped by another attribute": (
        {"optimizer": replace(SGD, nodes=(limiter(norm_type="max"), clipped(1.0)[1]))},
        UnsupportedOperator,
        ("(InplaceClipGradNorm): attribute 'norm_type' is unknown",),
    ),
    "clipped in place": (
        {"optimizer": replace(SGD, nodes=(clipped(1.0)[0], sgd_node()))},
        UnsupportedOperator,
        ("(InplaceClipGradNorm): it works on what SGDOptimizerV2 updates",),
    ),
    "tensors": ({"optimizer": TENSORS}, UnsupportedOperator, ("input 1 ('params') is not a sequence",)),
    "twice": (
        {"optimizer": replace(SGD, nodes=(sgd_node("learning_rate", "params", "params"),))},
        UnsupportedOperator,
        ("'params' is given 2 times",),
    ),
    "a signal": (
        {"optimizer": replace(SGD, nodes=(sgd_node("learning_rate", "params", "gradients", "step"),))},
        UnsupportedOperator,
        ("it has 4 inputs", "at most 3"),
    ),
    "attribute": (
        {"optimizer": replace(SGD, nodes=(sgd_node(momentum=0.9),))},
        UnsupportedOperator,
        ("attribute 'momentum' is unknown",),
    ),
    "mode": ({"optimizer": adamw(adam_mode=2)}, UnsupportedOperator, ("adam_mode is 2", "0 or 1")),
    "uncorrected": (
        {"optimizer": adamw(adam_mode=0, correct_bias=0)},
        UnsupportedOperator,
        ("adam_mode 0 without correct_bias",),
    ),
    "alpha": ({"optimizer": adamw(alpha=1.0)}, UnsupportedOperator, ("alpha is 1", "below 1")),
    "domain": (
        {"optimizer": replace(SGD, opsets=((MICROSOFT, 2), ("", 15)))},
        UnsupportedOperator,
        (f"version 1 of {MICROSOFT}",),
    ),
    "another output": (
        {"optimizer": with_nodes(SGD, node("Neg", ("learning_rate",), ("x",)), outputs=(value("x", (1,)),))},
        GraphProblem,
        ("optimizer output 'x' overwrites no weight",),
    ),
    "sequences for nothing": (
        {"train": TRAIN, "optimizer": replace(OPTIMIZER, inputs=(*OPTIMIZER.inputs, sequence("s")))},
        ShapeMismatch,
        ("'s' is a sequence_type",),
    ),
    "nothing trained": ({"train": WITHOUT, "optimizer": SGD}, GraphProblem, ("no weight is trained",)),
    "accumulators": (
        {"train": relabelled("other"), "optimizer": SGD},
        GraphProblem,
        ("accumulator 'other' belongs to no weight", "_grad.accumulation.buffer"),
    ),
    "accumulator of nobody": (
        {"train": relabelled(f"gone{runtime_cases.BUFFER}"), "optimizer": SGD},
        GraphProblem,
        (f"accumulator 'gone{runtime_cases.BUFFER}' belongs to no weight",),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named(name: str, tmp_path: Path) -> None:
    """An impossible optimizer over sequences is refused with node, cause and a remedy."""
    models, kind, texts = FAULTS[name]
    rate = None if name in ("no rate", "sequences for nothing") else RATE
    with raises(kind, *texts):
        Case(**{"train": runtime_cases.TRAIN} | models).program(tmp_path, learning_rate=rate)
