"""Updates that multiply their gradient by one number, in place of a step of its own: the same bits, and what stays."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.core.ir import Graph, Node, Program
from deployer.core.operator import fused_update, operator_of, registry
from deployer.core.plan import Options
from deployer.core.traits.training import Optimizer
from deployer.lr_schedules.lr_schedule import read_schedule
from deployer.operators.update.scaled_update import ScaledUpdate
from deployer.planning import fuse
from deployer.training.train_graph import build_train_graph
from deployer.training.update_graph import Limits
from deployer.verify.program import verify_program
from DeployTest.models import simple_mlp
from DeployTest.support.building.command_line import bits, deployer

pytestmark = [pytest.mark.host, pytest.mark.training]
FORMS = [operator for operator in registry().values() if isinstance(operator, ScaledUpdate)]
HOST = Options("host", "auto")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier of two dense layers."""
    folder = tmp_path_factory.mktemp("model")
    simple_mlp.generate(folder)
    return folder / "simple_mlp.onnx"


def clipped(model: Path, folder: Path, form: ScaledUpdate, limits: Limits) -> Path:
    """A training case with the optimizer of that form, which has every setting."""
    declared = form.of.role(Optimizer)
    assert declared is not None
    sample = Node("", form.of.name, (), (), dict(getattr(form.of, "given", {})))
    given = {setting.name: setting.of(sample) for setting in declared.settings}
    report = build_train_graph(
        model, "cross_entropy", declared.choice, 0.05, "", folder, settings=given, limits=limits, n_batches=3
    )
    return report.train


def scaled_ops(program: Program) -> set[str]:
    """The operators of the optimizer graph that read a gradient and a number."""
    return {node.op for node in program.graphs[-1].nodes if isinstance(operator_of(node), ScaledUpdate)}


BOTH = pytest.param(FORMS[0], Limits(0.001, 0.01), id="both")


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize(
    ("form", "limits"), [*(pytest.param(form, Limits(norm=0.01), id=form.of.name) for form in FORMS), BOTH]
)
def test_same_bits(form: ScaledUpdate, limits: Limits, model: Path, tmp_path: Path) -> None:
    """The product is gone, the program verifies, and weights and states have the bits of steps of their own."""
    case = clipped(model, tmp_path, form, limits)
    program = pipeline.load_training(case).program
    fusion = fuse.fuse_program(program, HOST)
    verify_program(fusion)
    assert scaled_ops(fusion) == {form.name}
    assert "Mul" in {node.op for node in program.nodes}
    assert "Mul" not in {node.op for node in fusion.nodes}
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    words = ("train", "-t", case, "--l1", "3000")
    assert deployer(*words, "-o", tmp_path / "a", "--dump", first, "--no-fusion", "weight_step") == 0
    assert (
        deployer(*words, "-o", tmp_path / "b", "--dump", second, "--dma-order", "late", "--core-order", "random") == 0
    )
    assert form.kernel.symbol in (tmp_path / "b" / "OptimizerNetwork.c").read_text()
    assert bits(first) == bits(second)


def product(*factors: str) -> Node:
    """A product of two values, one of which may be `s`, a number."""
    return Node("product", "Mul", factors, ("product",))


def tried(program: Program, nodes: tuple[Node, ...], options: Options = HOST) -> Program:
    """The program after the rule, with these nodes in front of its first update, which reads `product`."""
    train, optimizer = program.graphs
    update, *others = optimizer.nodes
    weight, gradient = program.tensors[update.inputs[0]], program.tensors[update.inputs[1]]
    number = next(t for t in program.tensors.values() if t.type.size == 1 and t.type.dtype == "float32")
    value = replace(gradient, name="product", role="value", storage="product")
    tensors = {**program.tensors, "product": value, "s": replace(number, name="s", role="data", storage="s")}
    tensors["wide"] = replace(value, name="wide", storage="wide", role="data")
    names = {"g": update.inputs[1], "w": weight.name}
    nodes = tuple(replace(n, inputs=tuple(names.get(x, x) for x in n.inputs)) for n in nodes)
    update = replace(update, inputs=(update.inputs[0], "product", *update.inputs[2:]))
    graph = Graph(optimizer.name, (*nodes, update, *others))
    before = replace(program, tensors=tensors, graphs=(train, graph))
    return fuse.rules()["weight_step"](before, options)


READER = Node("reader", "Mul", ("product", "s"), ("other",))
STAYS = {
    "elementwise": (product("g", "wide"),),
    "second reader": (product("g", "s"), READER),
    "activation": (replace(product("g", "s"), attrs={"activation": "Relu"}),),
    "of the weight": (product("w", "s"),),
}


@pytest.fixture(scope="module")
def plain(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A program whose updates are SGD's, without clipping."""
    report = build_train_graph(model, "cross_entropy", "sgd", 0.05, "", tmp_path_factory.mktemp("plain"))
    return pipeline.load_training(report.train).program


@pytest.mark.parametrize("factors", [("g", "s"), ("s", "g")], ids=["gradient first", "number first"])
def test_either_factor(factors: tuple[str, str], plain: Program) -> None:
    """The number may be either factor."""
    fusion = tried(plain, (product(*factors),))
    assert "product" not in fusion.tensors
    joint = fusion.graphs[-1].nodes[0]
    assert (joint.op, joint.inputs[-1], fused_update(operator_of(joint))) == ("ScaledSGD", "s", "SGD")


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name: str, plain: Program) -> None:
    """A product of tensors, one with another reader, one with an epilogue and one of the weight are steps."""
    assert not scaled_ops(tried(plain, STAYS[name]))


def test_options(plain: Program) -> None:
    """A step that an option names stays."""
    (name,) = (product("g", "s").name,)
    assert scaled_ops(tried(plain, (product("g", "s"),))) == {"ScaledSGD"}
    assert not scaled_ops(tried(plain, (product("g", "s"),), replace(HOST, opt_out=(name,))))


@pytest.mark.slow
def test_rates_at_run_time(model: Path, tmp_path: Path) -> None:
    """A schedule's rates reach the updates: AdamW has three numbers that depend on them."""
    lr_schedule = read_schedule("cosine", "2")
    limits = Limits(norm=0.01)
    report = build_train_graph(
        model, "cross_entropy", "adamw", 0.05, "", tmp_path, limits=limits, lr_schedule=lr_schedule, n_batches=4
    )
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    words = ("train", "-t", report.train, "--l1", "3000")
    assert deployer(*words, "-o", tmp_path / "a", "--dump", first, "--no-fusion", "weight_step") == 0
    assert deployer(*words, "-o", tmp_path / "b", "--dump", second) == 0
    assert "scaled_adamw_f32" in (tmp_path / "b" / "OptimizerNetwork.c").read_text()
    assert bits(first) == bits(second)


def test_the_product_is_rounded() -> None:
    """The product is rounded to float32 before it is used: one fused multiply-add over it would have other bits."""
    (form,) = (form for form in FORMS if form.of.name == "SGD")
    w, g, scale = (np.array([x], np.float32) for x in (1.0, 1 + 2**-12, 1 + 2**-12))
    node = Node("", form.name, ("w", "g", "s"), ("y",), {"lr": 1.0})
    (y,) = form.reference(node, [w, g, scale])
    exact = 1 - (1 + 2**-12) ** 2
    assert float(y[0]) == 1 - float(np.float32((1 + 2**-12) ** 2))
    assert float(y[0]) != exact
