"""Fusions: which nodes are fused and which are not, how the plan shows it, and that no bit of a result differs."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.core.errors import OptionProblem, ShapeMismatch, UnsupportedOperator
from deployer.core.ir import Program
from deployer.core.operator import Array, registry
from deployer.core.plan import Options
from deployer.core.samples import Sample
from deployer.core.target import load
from deployer.pipeline import Case
from deployer.planning import fuse
from deployer.reports.steps import step_cells
from deployer.running import build, run
from deployer.testing.bench import bits, run_step, step_of
from deployer.verify.reference import run_inference
from DeployTest.support.building.cases import SHARED, compile_case, crossed, load_case, needs_shared, result_hash
from DeployTest.support.graphs.fusing import fused
from DeployTest.support.graphs.small_graphs import BUFFER, OPTIMIZER, Model, chain, constant, infer, node, ops, value
from DeployTest.support.graphs.small_graphs import Case as TrainingCase

pytestmark = [pytest.mark.host, pytest.mark.training]

CONV = node("Conv", ("x", "w"), ("c",), "conv", pads=[1, 1, 1, 1])
RELU = node("Relu", ("c",), ("y",), "relu")
W = constant("w", np.random.default_rng(1).standard_normal((3, 2, 3, 3)).astype(np.float32))
X = (1, 2, 4, 5)
Y = (1, 3, 4, 5)
BATCH_NORM = node("BatchNormalization", ("x", "s", "s", "s", "s"), ("c",), "bn")
S = constant("s", np.array([0.5, 1.5], np.float32))


RELUS = {
    "conv": (chain(CONV, RELU, x=X, out=Y, initializers=(W,)), ["Conv"]),
    "gemm": (chain(node("Gemm", ("x", "x"), ("c",), transB=1), RELU, out=(2, 2)), ["Gemm"]),
    "matmul": (
        chain(
            node("MatMul", ("x", "m"), ("c",)),
            RELU,
            out=(2, 2),
            initializers=(constant("m", np.ones((3, 2), np.float32)),),
        ),
        ["Gemm"],
    ),
    "add": (chain(node("Add", ("x", "x"), ("c",)), RELU, out=(2, 3)), ["Add"]),
    "batch norm": (chain(BATCH_NORM, RELU, x=X, out=X, initializers=(S,)), ["InvStd", "ChannelNormalize"]),
    "view between": (
        chain(
            CONV,
            node("Flatten", ("c",), ("f",)),
            node("Relu", ("f",), ("y",), "relu"),
            x=X,
            out=(1, 60),
            initializers=(W,),
        ),
        ["Conv"],
    ),
    "view behind": (
        chain(
            CONV,
            node("Relu", ("c",), ("r",), "relu"),
            node("Flatten", ("r",), ("y",)),
            x=X,
            out=(1, 60),
            initializers=(W,),
        ),
        ["Conv"],
    ),
}


@pytest.mark.parametrize("name", RELUS)
def test_relu_is_absorbed(name: str, tmp_path: Path) -> None:
    """The producer names the activation, the tensor between is gone, and the results are the same."""
    model, expected = RELUS[name]
    program = infer(tmp_path, model)
    fusion = fused(program)
    names = [op for op in ops(fusion) if op != "InvStd"]
    assert names == [op for op in expected if op != "InvStd"]
    joint = fusion.nodes[-1]
    assert joint.attrs["activation"] == "Relu"
    assert joint.name.endswith("+Relu_y") or joint.name.endswith("+relu")
    assert "c" not in fusion.tensors
    same_meaning(program, fusion)


def same_meaning(program: Program, fusion: Program) -> None:
    """Both programs give the same float32 results on drawn inputs."""
    random = np.random.default_rng(3)
    inputs = {n: random.standard_normal(program.tensors[n].type.shape).astype(np.float32) for n in program.data}
    before, after = run_inference(program, inputs), run_inference(fusion, inputs)
    assert {n: bits(x) for n, x in before.items()} == {n: bits(x) for n, x in after.items()}


UNFUSED = {
    "second reader": chain(CONV, RELU, node("Mul", ("y", "c"), ("z",)), x=X, initializers=(W,)),
    "two views between": chain(
        CONV,
        node("Flatten", ("c",), ("f",)),
        node("Flatten", ("f",), ("g",), axis=0),
        node("Relu", ("g",), ("y",)),
        x=X,
        initializers=(W,),
    ),
    "view beside": chain(
        CONV,
        RELU,
        node("Flatten", ("c",), ("f",)),
        node("Flatten", ("y",), ("g",)),
        node("Mul", ("f", "g"), ("z",)),
        x=X,
        initializers=(W,),
    ),
    "output": chain(CONV, RELU, x=X, initializers=(W,)),
    "data": chain(node("Relu", ("x",), ("y",)), x=X),
    "other producer": chain(node("Mul", ("x", "x"), ("c",)), RELU, x=X),
    "twice": chain(CONV, node("Relu", ("c",), ("r",)), node("Relu", ("r",), ("y",)), x=X, initializers=(W,)),
}
"""Inference graphs in which a Relu stays; the results are named in `test_relu_stays`."""


@pytest.mark.parametrize("name", UNFUSED)
def test_relu_stays(name: str, tmp_path: Path) -> None:
    """A Relu stays if its input has another reader, or if the producer's kernel cannot apply it."""
    outputs = {"second reader": "z", "view beside": "z"}.get(name, "y")
    model = replace(UNFUSED[name], outputs=(value(outputs, None),))
    if name == "output":
        model = replace(model, outputs=(value("y", None), value("c", None)))
    program = infer(tmp_path, model)
    fusion = fused(program)
    assert ops(fusion).count("Relu") == 1
    same_meaning(program, fusion)


def test_constant_is_folded_not_fused(tmp_path: Path) -> None:
    """A Relu of a constant is computed at compile time."""
    model = chain(node("Relu", ("w",), ("r",)), node("Conv", ("x", "r"), ("y",)), x=X, initializers=(W,))
    assert ops(fused(infer(tmp_path, model))) == ["Conv"]


GATE = node("ReluGrad", ("d", "r"), ("y",), "gate", domain="com.microsoft")
FORWARD = node("Relu", ("x",), ("r",), "forward")


def gated(*nodes: object, **parts: object) -> Model:
    """A graph with a ReluGrad by Y of a Relu of `x`."""
    return chain(FORWARD, *nodes, **({"x": (2, 3)} | parts))  # type: ignore[arg-type]


SQUARE: dict[str, object] = {"kernel_shape": [2, 2], "strides": [2, 2]}


def pool_gate(op: str, inputs: tuple[str, ...], domain: str, forward: str = "MaxPool", **attrs: object) -> Model:
    """A ReluGrad behind a pool's gradient, whose dY, `p`, another pool makes of `x`."""
    made = node(forward, ("x",), ("p",), **(SQUARE if forward == "MaxPool" else {}))
    return gated(made, node(op, inputs, ("d",), domain=domain, **attrs), GATE, x=X)


GRADS = {
    "gemm": gated(node("Gemm", ("x", "m"), ("d",)), GATE, initializers=(constant("m", np.eye(3, dtype=np.float32)),)),
    "add": gated(node("Add", ("x", "x"), ("d",)), GATE),
    "conv grad x": gated(
        node("ConvGradX", ("x", "w"), ("d",), pads=[1, 1, 1, 1]),
        GATE,
        x=X,
        initializers=(constant("w", np.random.default_rng(2).standard_normal((2, 2, 3, 3)).astype(np.float32)),),
    ),
    "average pool": pool_gate("AveragePoolGrad", ("p",), "", input_shape=X, **SQUARE),
    "view between": gated(
        node("Add", ("x", "x"), ("e",)),
        node("Reshape", ("e", "s"), ("d",)),
        GATE,
        initializers=(constant("s", np.array([2, 3], np.int64)),),
    ),
    "global pool": pool_gate("GlobalAveragePoolGrad", ("p",), "", "GlobalAveragePool", kernel_shape=X[2:]),
}
SAME_Y, OTHER_Y = (pool_gate("MaxPoolGrad", ("p", read), "com.microsoft", **SQUARE) for read in ("r", "x"))


@pytest.mark.parametrize("name", GRADS)
def test_relu_grad_is_absorbed(name: str, tmp_path: Path) -> None:
    """The producer of dY reads Y, the tensor between is gone, and the results are the same."""
    program = infer(tmp_path, GRADS[name])
    fusion = fused(program)
    assert "ReluGrad" not in ops(fusion)
    joint = fusion.nodes[-1]
    assert joint.inputs[-1] == "r"
    assert joint.name.endswith("+gate")
    assert "d" not in fusion.tensors
    same_meaning(program, fusion)


def test_maxima_gate_by_what_they_read(tmp_path: Path) -> None:
    """The gradient of maxima of a Relu's Y reads no gate besides; one of another X leaves that of Relu alone."""
    program = infer(tmp_path, SAME_Y)
    fusion = fused(program)
    assert ops(fusion) == ["Relu", "MaxPool", "MaxPoolGrad"]
    assert fusion.nodes[-1].inputs == ("p", "r")
    assert fusion.nodes[-1].attr_int("gated", 0) == 1
    same_meaning(program, fusion)
    other = infer(tmp_path, OTHER_Y)
    assert ops(fused(other)) == ["Relu", "MaxPool", "MaxPoolGrad", "ReluGrad"]
    same_meaning(other, fused(other))


UNGATED = {
    "second reader": gated(node("Add", ("x", "x"), ("d",)), GATE, node("Mul", ("y", "d"), ("z",))),
    "other producer": gated(node("Mul", ("x", "x"), ("d",)), GATE),
    "data": gated(node("ReluGrad", ("x", "r"), ("y",), "gate", domain="com.microsoft")),
    "gate after": chain(
        node("Add", ("x", "x"), ("d",)), node("Relu", ("d2",), ("r",)), GATE, node("Mul", ("x", "x"), ("d2",))
    ),
    "its own gate": gated(
        node("Add", ("x", "r"), ("d",)), node("ReluGrad", ("d", "d"), ("y",), "gate", domain="com.microsoft")
    ),
}


@pytest.mark.parametrize("name", UNGATED)
def test_relu_grad_stays(name: str, tmp_path: Path) -> None:
    """A ReluGrad stays if dY has another reader, if its producer has no gate, or if Y is computed later."""
    model = replace(UNGATED[name], outputs=(value("z" if name == "second reader" else "y", None),))
    program = infer(tmp_path, model)
    fusion = fused(program)
    assert ops(fusion).count("ReluGrad") == 1
    same_meaning(program, fusion)


def test_second_gate_stays(tmp_path: Path) -> None:
    """The gradient of a second Relu stays."""
    second = node("ReluGrad", ("e", "r"), ("y",), "second", domain="com.microsoft")
    first = node("ReluGrad", ("d", "r"), ("e",), "gate", domain="com.microsoft")
    program = infer(tmp_path, gated(node("Add", ("x", "x"), ("d",)), first, second))
    fusion = fused(program)
    assert ops(fusion) == ["Relu", "Add", "ReluGrad"]
    same_meaning(program, fusion)


def test_opted_out_nodes_stay(tmp_path: Path) -> None:
    """A node that `opt_out` names is not fused, and nothing is with `fuse` off."""
    program = infer(tmp_path, RELUS["conv"][0])
    for name in ("conv", "relu"):
        assert fused(program, Options(opt_out=(name,))) == program
    assert fused(program, Options(allow_rewrites=False)) == program


@pytest.mark.parametrize("name", RELUS)
def test_single_rewrites_are_left_out(name: str, tmp_path: Path) -> None:
    """Without `epilogue` alone Relu stays; the program names the rewrites that made it."""
    program = infer(tmp_path, RELUS[name][0])
    assert "finish" in fused(program).rewrites
    without = fused(program, Options(disabled_rewrites=("finish",)))
    assert "finish" not in without.rewrites
    assert ops(without).count("Relu") == 1
    assert fused(program, Options(disabled_rewrites=tuple(fuse.rules()))) == program


def test_unknown_rewrites_are_refused(tmp_path: Path) -> None:
    """The message names those that there are: the modules of the folder."""
    program = infer(tmp_path, RELUS["conv"][0])
    with pytest.raises(OptionProblem, match="'finnish' is not a rewrite") as refusal:
        fused(program, Options(disabled_rewrites=("finnish",)))
    assert dict(refusal.value.facts)["rewrites"] == ", ".join(fuse.rules())


def test_wrong_attributes_are_refused() -> None:
    """Kernels refuse an unsupported activation, and a gate of another shape than the result."""
    x = np.ones((2, 2), np.float32)
    gemm = registry()["Gemm"]
    step = step_of(gemm, Sample("s", (x, x)))
    with pytest.raises(UnsupportedOperator, match="Tanh"):
        gemm.args(replace(step.node, attrs={"activation": "Tanh"}), step.access)
    dy, w = x.reshape(1, 1, 4), np.ones((1, 1, 3), np.float32)
    for name, inputs in {"Gemm": (x, x, None, x[0]), "Add": (x, x, x[0]), "ConvGradX": (dy, w, x)}.items():
        with pytest.raises(ShapeMismatch, match="gate"):
            step_of(registry()[name], Sample("s", inputs))


SPECIAL = np.array([0x7FC00001, 0xFFC00001, 0x7F800000, 0xFF800000, 0x80000000, 0, 1, 0x80000001], np.uint32)


def special(size: int) -> Array:
    """NaNs with payloads and signs, infinities, both zeros, subnormals."""
    return np.resize(SPECIAL, size).view(np.float32)


def own_kernel(op: str, *inputs: Array) -> Array:
    """The result of an operator's own kernel for these inputs."""
    step = step_of(registry()[op], Sample("s", inputs))
    return run_step(step, step.access.sizes)[0]


def test_special_values() -> None:
    """Relu and its gradient leave the bits that their own kernels leave: NaNs, infinities, zeros of both signs."""
    x, y = special(64), np.roll(special(64), 3)
    zero = np.full(64, -0.0, np.float32)  # to which every sum stays itself
    plain = own_kernel("Add", x, zero)
    for sample, expected in (
        (Sample("relu", (x, zero), {"activation": "Relu"}), own_kernel("Relu", plain)),
        (Sample("gate", (x, zero, y)), own_kernel("ReluGrad", plain, y)),
    ):
        step = step_of(registry()["Add"], sample)
        assert bits(run_step(step, step.access.sizes)[0]) == bits(expected)
    one = np.ones((1, 1), np.float32)
    plain = own_kernel("Gemm", x[:, None], one)
    for op, sample, expected in (
        ("Gemm", Sample("relu", (x[:, None], one), {"activation": "Relu"}), own_kernel("Relu", plain)),
        ("Gemm", Sample("gate", (x[:, None], one, None, y[:, None])), own_kernel("ReluGrad", plain, y[:, None])),
        (
            "Conv",
            Sample("relu", (x.reshape(1, 1, 8, 8), one[..., None, None]), {"activation": "Relu"}),
            own_kernel("Relu", plain),
        ),
        (
            "ConvGradX",
            Sample("gate", (x.reshape(1, 1, 8, 8), one[..., None, None], y.reshape(1, 1, 8, 8))),
            own_kernel("ReluGrad", plain, y[:, None]),
        ),
    ):
        step = step_of(registry()[op], sample)
        assert bits(run_step(step, step.access.sizes)[0].reshape(-1)) == bits(expected.reshape(-1)), (op, sample.label)


ROWS = [("autoencoder", 64000), ("autoencoder", 8000)]
LONG_ROWS = [("autoencoder", 32000), ("dscnn", 20000), ("dscnn", 64000), ("resnet8", 64000)]
STRATEGIES = ("single", "double", "auto")
LONG = [pytest.param(*row, strategy, marks=pytest.mark.slow) for row in LONG_ROWS for strategy in STRATEGIES]


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize(("test", "l1", "strategy"), [*crossed(ROWS, STRATEGIES), *LONG])
def test_same_bits(test: str, l1: int, strategy: str, models_root: Path, tmp_path: Path) -> None:
    """Losses and weights do not depend on fusion; tile sizes, buffering and the order of transfers differ."""
    case = load_case(test, models_root)
    built = compile_case(case, tmp_path, strategy, l1)
    assert any("+Relu" in step.op_label for step in built.plan.steps)
    assert result_hash(built.run("--dma-order", "late")) == disabled_rewrites(
        test, case, tmp_path / "disabled_rewrites"
    )


_unfused: dict[str, str] = {}


def disabled_rewrites(test: str, case: Case, folder: Path) -> str:
    """The hash of a case's results without fusion."""
    if test not in _unfused:
        built = compile_case(case, folder, "single", 64000, allow_rewrites=False)
        assert not any("+" in step.op_label for step in built.plan.steps)
        _unfused[test] = result_hash(built.run())
    return _unfused[test]


@pytest.mark.slow
@pytest.mark.qemu_riscv
@pytest.mark.skipif(not run.available(build.toolchain(load("qemu_riscv"))), reason="no simulator")
def test_same_bits_on_another_machine(models_root: Path, tmp_path: Path) -> None:
    """The fused program on RISC-V gives the results of the program without fusion on the host."""
    case = load_case("dscnn", models_root)
    built = compile_case(case, tmp_path, "auto", 64000, target="qemu_riscv")
    assert result_hash(built.run()) == disabled_rewrites("dscnn", case, tmp_path / "disabled_rewrites")


@pytest.mark.parametrize("test", ["DSCNN", "ResNet8"])
def test_all_that_can_be_is_fused(test: str) -> None:
    """In a network of convolutions every Relu is fused, and every ReluGrad, that behind the pool too."""
    folder = next(needs_shared(SHARED / "training" / test).glob("*_train"))
    case = pipeline.load_training(folder)
    fusion = fused(case.program, Options(accumulate=case.dataset.n_accum if case.dataset else 1))
    assert not {"Relu", "ReluGrad"} & {*ops(fusion)}


def test_the_plan_shows_it(models_root: Path, tmp_path: Path) -> None:
    """The plan and the step table show the names of both operators and both nodes; the C does of each kind of step."""
    built = compile_case(load_case("autoencoder", models_root), tmp_path, "auto", 64000)
    text = (tmp_path / "TrainingNetwork.c").read_text()
    steps = [step for step in built.plan.steps if "+" in step.op_label]
    assert {step.op_label for step in steps} == {"Gemm+Relu", "Gemm+ReluGrad"}
    for step in steps:
        assert step.op == "Gemm"
        assert "+" in step.name
        assert step_cells(step)[1] == step.op_label
    rows = re.findall(r"^ \* (\d+) .* (\S+) (\S+): .*((?:\n \*  +and [\d, ]+)?)$", text, re.M)
    named = {int(index): (label, name, others) for index, label, name, others in rows}
    assert all(named[step.index][:2] == (step.op_label, step.name) for step in steps if step.index in named)
    beside = {int(i): label for label, _, others in named.values() for i in re.findall(r"\d+", others)}
    assert {step.index: step.op_label for step in steps if step.index not in named}.items() <= beside.items()
    assert {*named, *beside} == {step.index for step in built.plan.steps if step.graph == "train"}


def test_names_of_rules() -> None:
    """The rules are the modules of `deployer.fusions`, in alphabetical order but for what has to come before."""
    assert list(fuse.rules()) == [
        "accumulate",
        "factor",
        "addend",
        "attention",
        "finish",
        "joint",
        "rotation",
        "layout",
        "mask",
        "update",
        "weight_step",
        "group",
    ]


def test_chain_of_views_alone(tmp_path: Path) -> None:
    """All tensors between an output and the input whose memory it uses stay, though no step reads them."""
    first, second = node("Identity", ("x",), ("a",)), node("Unsqueeze", ("a", "s"), ("b",))
    model = chain(first, second, node("Squeeze", ("b", "s"), ("y",)), initializers=(constant("s", np.array([0])),))
    assert fused(infer(tmp_path, model)).storage("y") == "x"


def test_view_of_an_update(tmp_path: Path) -> None:
    """The optimizer graph may give the updated weight another name, or a view of it, where passes are summed or not."""
    renamed = (
        node("SGD", ("w", BUFFER), ("stepped",), "step", lr=0.25),
        node("Identity", ("stepped",), ("w_updated",)),
    )
    program = TrainingCase(optimizer=replace(OPTIMIZER, nodes=renamed)).program(tmp_path)
    for passes in (1, 2):
        assert fused(program, Options(accumulate=passes)).updated == {"w_updated": "w"}
