"""Transposes in the steps of products that read or write what lies otherwise: where, where not, and the same bits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.core.errors import NotDifferentiable, ShapeMismatch, UnsupportedOperator
from deployer.core.ir import Program
from deployer.core.operator import registry
from deployer.core.plan import Options
from deployer.core.samples import Sample
from deployer.planning import fuse
from deployer.testing.bench import bits, step_of
from deployer.verify.program import verify_program
from deployer.verify.reference import run_inference
from DeployTest.support.building.cases import compile_case, load_case, result_hash
from DeployTest.support.graphs.small_graphs import Model, chain, constant, infer, node, ops, value

pytestmark = [pytest.mark.host, pytest.mark.training]

RANDOM = np.random.default_rng(10)


def whole(*shape: int) -> np.ndarray:
    """Small whole numbers, whose products and sums are exact in any order."""
    return RANDOM.integers(-4, 5, shape).astype(np.float32)


def constants(**shapes: tuple[int, ...]) -> dict[str, object]:
    """The part of a graph that says its constants."""
    return {"initializers": tuple(constant(name, whole(*shape)) for name, shape in shapes.items())}


def turn(source: str, to: str, *perm: int) -> object:
    """A Transpose that is called turn."""
    return node("Transpose", (source,), (to,), "turn", perm=perm)


READ = node("MatMul", ("t", "m"), ("y",), "product")
MADE = node("MatMul", ("x", "m"), ("p",), "product")
SHAPE = {"initializers": (constant("split", np.array([4, 2, 3])),)}
HEADS = node("Reshape", ("x", "split"), ("h",))

JOINT: dict[str, Model] = {
    "A": chain(turn("x", "t", 1, 0), READ, **constants(m=(2, 5))),
    "B": chain(turn("x", "t", 1, 0), node("MatMul", ("m", "t"), ("y",)), **constants(m=(5, 3))),
    "both": chain(turn("x", "t", 1, 0), node("Gemm", ("t", "t"), ("y",), transB=1)),
    "batches of A": chain(turn("x", "t", 1, 0, 2), READ, x=(5, 2, 3), **constants(m=(2, 3, 4))),
    "rows of batches": chain(turn("x", "t", 1, 0, 2), READ, x=(5, 2, 3), **constants(m=(3, 4))),
    "two batch axes": chain(turn("x", "t", 1, 2, 0, 3), READ, x=(4, 5, 2, 3), **constants(m=(3, 6))),
    "heads": chain(
        HEADS, turn("h", "t", 1, 0, 2), node("Gemm", ("t", "t"), ("y",), transB=1), x=(4, 6), **SHAPE,
    ),
    "two readers": chain(
        turn("x", "t", 1, 0), node("MatMul", ("t", "m"), ("a",)), node("MatMul", ("a", "t"), ("b",)),
        node("Relu", ("b",), ("y",)), x=(3, 3), **constants(m=(3, 3)),
    ),
    "Y": chain(MADE, turn("p", "y", 1, 0, 2), x=(5, 2, 3), **constants(m=(5, 3, 4))),
    "Y and a sum": chain(
        MADE, node("Add", ("p", "b"), ("s",)), turn("s", "y", 1, 0, 2), x=(5, 2, 3), **constants(m=(5, 3, 4), b=(4,))
    ),
    "Y and Relu": chain(
        MADE, node("Relu", ("p",), ("r",)), turn("r", "y", 1, 0, 2), x=(5, 2, 3), **constants(m=(5, 3, 4))
    ),
    "Y turned": chain(MADE, turn("p", "y", 1, 0), **constants(m=(3, 4))),
    "Y turned in batches": chain(MADE, turn("p", "y", 2, 0, 1), x=(5, 2, 3), **constants(m=(5, 3, 4))),
    "Y of a column": chain(MADE, turn("p", "y", 1, 2, 0), x=(5, 2, 3), **constants(m=(5, 3, 1))),
}  # fmt: skip
"""Inference graphs of which no Transpose is left."""

STAYS: dict[str, Model] = {
    "another reader": chain(
        turn("x", "t", 1, 0), node("MatMul", ("t", "m"), ("a",)), node("Add", ("a", "t"), ("y",)),
        x=(3, 3), **constants(m=(3, 3)),
    ),
    "read as C": chain(turn("x", "t", 1, 0), node("Gemm", ("x", "m", "t"), ("y",)), x=(3, 3), **constants(m=(3, 3))),
    "seen through a view": chain(
        turn("x", "t", 1, 0, 2), node("Reshape", ("t", "split"), ("v",)), node("MatMul", ("v", "m"), ("y",)),
        x=(3, 2, 4), initializers=(constant("split", np.array([2, 12])), constant("m", whole(12, 5))),
    ),
    "batch axes apart": chain(turn("x", "t", 0, 2, 1, 3), READ, x=(4, 5, 2, 3), **constants(m=(3, 6))),
    "batch axes in another order": chain(
        turn("x", "t", 1, 0, 2, 3), READ, x=(4, 5, 2, 3), **constants(m=(5, 4, 3, 6))
    ),
    "heads of several samples": chain(
        turn("x", "t", 0, 2, 1, 3), node("Gemm", ("t", "t"), ("y",), transB=1), x=(2, 4, 3, 5)
    ),
    "not read by a product": chain(turn("x", "t", 1, 0), node("Relu", ("t",), ("y",))),
    "ordered already": chain(
        node("Transpose", ("x",), ("s",), perm=(1, 0, 2)), node("Relu", ("s",), ("r",)), turn("r", "t", 0, 2, 1),
        node("Add", ("t", "t"), ("y",)), x=(5, 2, 3),
    ),
    "product with another reader": chain(
        MADE, turn("p", "t", 1, 0), node("Add", ("p", "t"), ("y",)), x=(3, 3), **constants(m=(3, 3))
    ),
    "turned, with a sum": chain(
        MADE, node("Add", ("p", "b"), ("s",)), turn("s", "y", 1, 0), **constants(m=(3, 4), b=(4,))
    ),
    "batches at the end": chain(MADE, turn("p", "y", 1, 2, 0), x=(5, 2, 3), **constants(m=(5, 3, 4))),
}  # fmt: skip
"""Inference graphs whose Transpose called turn stays."""


def both(tmp_path: Path, model: Model) -> tuple[Program, Program]:
    """The program before and after fusion, which give the same numbers."""
    before = infer(tmp_path, model)
    after = fuse.fuse_program(before, Options())
    verify_program(after)
    inputs = {n: whole(*before.tensors[n].type.shape) for n in before.data}
    results = [run_inference(program, inputs) for program in (before, after)]
    assert {n: bits(x + 0) for n, x in results[0].items()} == {n: bits(x + 0) for n, x in results[1].items()}
    return before, after


@pytest.mark.parametrize("name", JOINT)
def test_read_or_written_otherwise(name: str, tmp_path: Path) -> None:
    """No Transpose is left, products have its name, and it may be opted out."""
    before, after = both(tmp_path, JOINT[name])
    assert "Transpose" in ops(before)
    assert "Transpose" not in ops(after)
    assert any("turn" in n.name.split("+") for n in after.nodes)
    assert "Transpose" in ops(fuse.fuse_program(before, Options(opt_out=("turn",))))
    assert "Transpose" in ops(fuse.fuse_program(before, Options(allow_rewrites=False)))


@pytest.mark.parametrize("name", STAYS)
def test_a_step_of_its_own(name: str, tmp_path: Path) -> None:
    """A Transpose stays where a kernel has no step for it, or something else sees what it makes."""
    _, after = both(tmp_path, STAYS[name])
    assert any(n.name == "turn" for n in after.nodes)


def test_outputs_stay(tmp_path: Path) -> None:
    """A Transpose whose result is an output is computed, and so is a product that is one."""
    for model, names in ((JOINT["A"], ("t", "y")), (JOINT["Y turned"], ("p", "y"))):
        _, after = both(tmp_path, replace(model, outputs=tuple(value(name, None) for name in names)))
        assert "Transpose" in ops(after)


def test_not_over_what_is_overwritten(tmp_path: Path) -> None:
    """A product reads through a Transpose only what nothing has overwritten by then."""
    model = chain(turn("x", "t", 1, 0), node("Relu", ("x",), ("r",)), node("MatMul", ("t", "r"), ("y",)), x=(3, 3))
    program = infer(tmp_path, model)
    assert ops(fuse.fuse_program(program, Options())) == ["Relu", "Gemm"]
    inplace = {**program.tensors, "r": replace(program.tensors["r"], storage="x")}
    assert ops(fuse.fuse_program(replace(program, tensors=inplace), Options())) == ["Transpose", "Relu", "Gemm"]


def test_orders_are_checked() -> None:
    """An order that is none is refused by name, and so are a gate of turned columns and a gradient."""
    gemm, x = registry()["Gemm"], whole(2, 2)
    with pytest.raises(ShapeMismatch, match="order_a"):
        step_of(gemm, Sample("s", (x, x), {"order_a": (0, 0)}))
    with pytest.raises(UnsupportedOperator, match="gate"):
        step_of(gemm, Sample("s", (x, x, None, x), {"order_y": (1, 0)}))
    step = step_of(gemm, Sample("s", (x, x), {"order_b": (1, 0)}))
    with pytest.raises(NotDifferentiable, match="fusion"):
        gemm.gradient(step.node, ("dy",), None)  # type: ignore[arg-type]


def attention() -> Model:
    """Two heads over seven tokens of ten features: split, compared, weighed, and put together."""
    nodes = [node("MatMul", ("x", f"w{name}"), (name,)) for name in "qkv"]
    nodes += [node("Reshape", (name, "split"), (f"{name}s",)) for name in "qkv"]
    perms = {"q": (0, 2, 1, 3), "k": (0, 2, 3, 1), "v": (0, 2, 1, 3)}
    nodes += [
        node("Transpose", (f"{name}s",), (f"{name}h",), f"turn_{name}", perm=perm) for name, perm in perms.items()
    ]
    nodes += [
        node("MatMul", ("qh", "kh"), ("scores",)),
        node("Mul", ("scores", "scale"), ("scaled",)),
        node("Softmax", ("scaled",), ("weights",), axis=-1),
        node("MatMul", ("weights", "vh"), ("heads",)),
        node("Transpose", ("heads",), ("tokens",), "turn_back", perm=(0, 2, 1, 3)),
        node("Reshape", ("tokens", "join"), ("joined",)),
        node("MatMul", ("joined", "wo"), ("out",)),
        node("Transpose", ("out",), ("y",), "turn_out", perm=(0, 2, 1)),
    ]
    tensors = {f"w{name}": RANDOM.standard_normal((10, 10)).astype(np.float32) for name in "qkvo"}
    tensors |= {"split": np.array([1, 7, 2, 5]), "join": np.array([1, 7, 10]), "scale": np.float32(0.3)}
    return chain(*nodes, x=(1, 7, 10), initializers=tuple(constant(n, array) for n, array in tensors.items()))


def test_same_bits(tmp_path: Path) -> None:
    """Attention gives the same bits with Transposes as steps of their own, whatever the tiles."""
    case = pipeline.load_inference_case(attention().save(tmp_path / "model.onnx"))
    turns = tuple(n.name for n in case.program.nodes if n.op == "Transpose")
    assert len(turns) == 5
    assert not {"Transpose", "Mul"} & set(ops(fuse.fuse_program(case.program, Options())))
    expected = result_hash(compile_case(case, tmp_path / "apart", "single", 64000, opt_out=turns).run())
    for l1, strategy in ((64000, "single"), (1300, "double"), (900, "single")):
        built = compile_case(case, tmp_path / f"{strategy}{l1}", strategy, l1)
        assert any("turn_k" in step.name for step in built.plan.steps)
        assert result_hash(built.run("--dma-order", "late")) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("l1", "strategy"), [(24000, "auto"), (9000, "single"), (9000, "double")])
def test_training(l1: int, strategy: str, models_root: Path, tmp_path: Path) -> None:
    """A transformer's losses and weights are the same where each Transpose is a step of its own."""
    case = load_case("transformer", models_root)
    turns = tuple(node.name for node in case.program.nodes if node.op == "Transpose")
    joint = compile_case(case, tmp_path / "joint", strategy, l1)
    apart = compile_case(case, tmp_path / "apart", strategy, l1, opt_out=turns)
    assert len(joint.plan.steps) < len(apart.plan.steps)
    assert result_hash(joint.run("--dma-order", "late")) == result_hash(apart.run())
