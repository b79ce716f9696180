"""A sum with a product's result: where the product's kernel adds, where a step of its own stays, and the same bits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deployer.core.ir import Program
from deployer.core.operator import Array, registry
from deployer.core.plan import Options
from deployer.core.samples import Sample
from deployer.planning import fuse
from deployer.testing.bench import bits, canonical, run_step, step_of
from deployer.verify.program import verify_program
from deployer.verify.reference import run_inference
from DeployTest.support.building.cases import compile_case, load_case, result_hash
from DeployTest.support.graphs.small_graphs import Model, chain, constant, infer, node, ops, value

pytestmark = [pytest.mark.host, pytest.mark.training]

RANDOM = np.random.default_rng(7)
PRODUCT = node("MatMul", ("x", "m"), ("p",), "product")
BIAS = node("Add", ("p", "b"), ("y",), "bias")
SEEN, ADDS = node("Reshape", ("p", "shape"), ("q",)), node("Add", ("q", "b"), ("y",), "bias")
SHAPE = constant("shape", np.array([2, 3, 4]))


def constants(**shapes: tuple[int, ...]) -> tuple[object, ...]:
    """Normal numbers of these shapes."""
    return tuple(constant(n, RANDOM.standard_normal(shape).astype(np.float32)) for n, shape in shapes.items())


def weights(**shapes: tuple[int, ...]) -> dict[str, object]:
    """The part of a graph that says its constants: normal numbers of these shapes."""
    return {"initializers": constants(**shapes)}


def seen(*nodes: object, **shapes: tuple[int, ...]) -> Model:
    """A product of six rows, which the nodes see in two times three as `q`."""
    return chain(PRODUCT, SEEN, *nodes, x=(6, 3), initializers=(*constants(m=(3, 4), **shapes), SHAPE))


ADDED: dict[str, tuple[Model, list[str]]] = {
    "bias": (chain(PRODUCT, BIAS, **weights(m=(3, 4), b=(4,))), ["Gemm"]),
    "bias before": (chain(PRODUCT, node("Add", ("b", "p"), ("y",), "bias"), **weights(m=(3, 4), b=(4,))), ["Gemm"]),
    "column": (chain(PRODUCT, BIAS, **weights(m=(3, 4), b=(2, 1))), ["Gemm"]),
    "number": (chain(PRODUCT, BIAS, **weights(m=(3, 4), b=())), ["Gemm"]),
    "factors": (
        chain(node("Gemm", ("x", "m"), ("p",), alpha=0.3, beta=0.0), BIAS, **weights(m=(3, 4), b=(4,))),
        ["Gemm"],
    ),
    "residual": (chain(PRODUCT, node("Add", ("x", "p"), ("y",), "bias"), **weights(m=(3, 3))), ["Gemm"]),
    "two products": (
        chain(
            node("MatMul", ("x", "m"), ("b",)), node("MatMul", ("x", "k"), ("p",), "product"), BIAS,
            **weights(m=(3, 4), k=(3, 4)),
        ),
        ["Gemm", "Gemm"],
    ),
    "the later of two products": (
        chain(
            node("MatMul", ("x", "m"), ("b",)), node("MatMul", ("x", "k"), ("p",), "product"),
            node("Add", ("b", "p"), ("y",), "bias"), **weights(m=(3, 4), k=(3, 4)),
        ),
        ["Gemm", "Gemm"],
    ),
    "Relu behind": (
        chain(PRODUCT, node("Add", ("p", "b"), ("s",)), node("Relu", ("s",), ("y",), "bias"),
              **weights(m=(3, 4), b=(4,))),
        ["Gemm"],
    ),
    "computed later": (
        chain(PRODUCT, node("Exp", ("x",), ("e",)), node("Add", ("p", "e"), ("y",), "bias"), **weights(m=(3, 3))),
        ["Exp", "Gemm"],
    ),
    "chain": (
        chain(
            PRODUCT, node("MatMul", ("x", "k"), ("q",)), node("MatMul", ("x", "l"), ("r",)),
            node("Add", ("q", "r"), ("s",), "first"), node("Add", ("p", "s"), ("y",), "bias"),
            **weights(m=(3, 4), k=(3, 4), l=(3, 4)),
        ),
        ["Gemm", "Gemm", "Gemm"],
    ),
    "batches": (chain(PRODUCT, BIAS, x=(5, 2, 3), **weights(m=(5, 3, 4), b=(4,))), ["Gemm"]),
    "rows of batches": (chain(PRODUCT, BIAS, x=(5, 2, 3), **weights(m=(3, 4), b=(5, 2, 4))), ["Gemm"]),
    "a view between": (seen(ADDS, b=(2, 3, 4)), ["Gemm"]),
    "a row behind a view": (seen(ADDS, b=(4,)), ["Gemm"]),
    "a number behind a view": (seen(ADDS, b=()), ["Gemm"]),
    "views of two products": (
        chain(
            node("MatMul", ("x", "k"), ("o",)), node("Reshape", ("o", "shape"), ("b",)), PRODUCT, SEEN, ADDS,
            x=(6, 3), initializers=(*constants(m=(3, 4), k=(3, 4)), SHAPE),
        ),
        ["Gemm", "Gemm"],
    ),
    "views in a chain": (
        seen(node("Add", ("q", "b"), ("s",), "first"), node("Relu", ("s",), ("y",), "bias"), b=(2, 3, 4)),
        ["Gemm"],
    ),
}  # fmt: skip
"""Inference graphs and the operators that are left."""

STAYS: dict[str, Model] = {
    "second reader": chain(PRODUCT, BIAS, node("Mul", ("p", "y"), ("z",)), **weights(m=(3, 4), b=(4,))),
    "twice": chain(PRODUCT, node("Add", ("p", "p"), ("y",)), **weights(m=(3, 4))),
    "C of its own": chain(node("Gemm", ("x", "m", "b"), ("p",)), BIAS, **weights(m=(3, 4), b=(4,))),
    "C that beta takes away": chain(node("Gemm", ("x", "m", "b"), ("p",), beta=0.0), BIAS, **weights(m=(3, 4), b=(4,))),
    "larger result": chain(PRODUCT, BIAS, **weights(m=(3, 4), b=(5, 1, 1))),
    "some batch axes": chain(PRODUCT, BIAS, x=(5, 2, 2, 3), **weights(m=(5, 2, 3, 4), b=(5, 1, 2, 4))),
    "a column behind a view": seen(ADDS, b=(3, 1)),
    "two views": seen(node("Reshape", ("p", "shape"), ("r",)), node("Exp", ("r",), ("b",)), ADDS),
    "a view of a value with another reader": seen(
        node("Exp", ("p",), ("e",)), node("Reshape", ("e", "shape"), ("b",)), ADDS
    ),
    "another producer": chain(node("Mul", ("x", "x"), ("p",)), node("Add", ("p", "x"), ("y",))),
}


def both(tmp_path: Path, model: Model) -> tuple[Program, Program]:
    """The program before and after fusion, which give the same bits."""
    before = infer(tmp_path, model)
    after = fuse.fuse_program(before, Options())
    verify_program(after)
    inputs = {n: RANDOM.standard_normal(before.tensors[n].type.shape).astype(np.float32) for n in before.data}
    results = [run_inference(program, inputs) for program in (before, after)]
    assert {n: bits(x) for n, x in results[0].items()} == {n: bits(x) for n, x in results[1].items()}
    return before, after


@pytest.mark.parametrize("name", ADDED)
def test_added_by_the_product(name: str, tmp_path: Path) -> None:
    """No Add is left, the product has both names, and it may be opted out."""
    model, left = ADDED[name]
    before, after = both(tmp_path, model)
    assert "Add" in ops(before)
    assert ops(after) == left
    assert after.nodes[-1].name.endswith("bias")
    assert "p" not in after.tensors
    alone = fuse.fuse_program(before, Options(opt_out=(next(n.name for n in before.nodes if n.op == "Add"),)))
    assert "Add" in ops(alone)


@pytest.mark.parametrize("name", STAYS)
def test_a_step_of_its_own(name: str, tmp_path: Path) -> None:
    """An Add stays where the product has another reader, or cannot add what there is at its time."""
    outputs = "z" if name == "second reader" else "y"
    _, after = both(tmp_path, replace(STAYS[name], outputs=(value(outputs, None),)))
    assert ops(after).count("Add") == 1


def test_not_after_what_is_overwritten(tmp_path: Path) -> None:
    """A product is computed later, as what it adds is, only where nothing has overwritten what it reads."""
    model = chain(PRODUCT, node("Relu", ("x",), ("r",)), node("Add", ("p", "r"), ("y",)), **weights(m=(3, 3)))
    program = infer(tmp_path, model)
    assert ops(fuse.fuse_program(program, Options())) == ["Relu", "Gemm"]
    inplace = {**program.tensors, "r": replace(program.tensors["r"], storage="x")}
    assert ops(fuse.fuse_program(replace(program, tensors=inplace), Options())) == ["Gemm", "Relu", "Add"]


def test_special_values() -> None:
    """Infinities, numbers without a normal form and zeros of both signs are added as by Add; NaN stays NaN."""
    words = [0x7FC00001, 0xFFC00001, 0x7F800000, 0xFF800000, 0x80000000, 0, 1, 0x80000001, 0x7F7FFFFF, 0x3F800001]
    special = np.array(words, np.uint32).view(np.float32)
    left, right = (grid.reshape(-1) for grid in np.meshgrid(special, special))

    def by(op: str, *inputs: Array) -> Array:
        step = step_of(registry()[op], Sample("s", inputs))
        return run_step(step, step.access.sizes)[0].reshape(-1)

    one = np.ones((1, 1), np.float32)
    product = by("Gemm", left[:, None], one)
    assert canonical(by("Gemm", left[:, None], one, right[:, None])) == canonical(by("Add", product, right))


@pytest.mark.slow
@pytest.mark.parametrize(("l1", "strategy"), [(24000, "auto"), (24000, "single"), (9000, "double")])
def test_training(l1: int, strategy: str, models_root: Path, tmp_path: Path) -> None:
    """A transformer's losses and weights are the same where each Add is opted out and so a step of its own."""
    case = load_case("transformer", models_root)
    sums = tuple(node.name for node in case.program.nodes if node.op == "Add")
    added = compile_case(case, tmp_path / "added", strategy, l1)
    alone = compile_case(case, tmp_path / "alone", strategy, l1, opt_out=sums)
    assert len(added.plan.steps) < len(alone.plan.steps)
    assert result_hash(added.run("--dma-order", "late")) == result_hash(alone.run())
