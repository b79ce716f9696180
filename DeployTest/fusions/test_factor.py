"""A product's result times a number: where the product's kernel multiplies, where a step of its own stays; the bits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deployer import pipeline
from deployer.core.ir import Program
from deployer.core.operator import Array, registry
from deployer.core.plan import Options
from deployer.core.samples import Sample
from deployer.fusions import factor
from deployer.planning import fuse
from deployer.testing.bench import bits, canonical, run_step, step_of
from deployer.verify.program import verify_program
from deployer.verify.reference import run_inference
from DeployTest.support.building.cases import compile_case, result_hash
from DeployTest.support.graphs.small_graphs import Model, chain, constant, infer, node, ops, value

pytestmark = [pytest.mark.host, pytest.mark.training]

RANDOM = np.random.default_rng(9)
PRODUCT = node("MatMul", ("x", "m"), ("p",), "product")
TIMES = node("Mul", ("p", "f"), ("y",), "times")
SUM = node("Add", ("s", "b"), ("y",), "sum")
SCALED = node("Mul", ("p", "f"), ("s",), "times")


def numbers(**values: object) -> dict[str, object]:
    """The constants of a graph: normal numbers of a shape, or a number."""
    arrays = {
        name: RANDOM.standard_normal(what) if isinstance(what, tuple) else np.array(what)
        for name, what in values.items()
    }
    return {"initializers": tuple(constant(name, array.astype(np.float32)) for name, array in arrays.items())}


JOINT: dict[str, tuple[Model, float]] = {
    "number behind": (chain(PRODUCT, TIMES, **numbers(m=(3, 4), f=0.3)), 0.3),
    "number before": (chain(PRODUCT, node("Mul", ("f", "p"), ("y",), "times"), **numbers(m=(3, 4), f=[0.3])), 0.3),
    "power of two below": (chain(PRODUCT, node("Div", ("p", "f"), ("y",), "times"), **numbers(m=(3, 4), f=-8)), -0.125),
    "batches": (chain(PRODUCT, TIMES, x=(5, 2, 3), **numbers(m=(5, 3, 4), f=0.25)), 0.25),
    "sum behind": (chain(PRODUCT, SCALED, SUM, **numbers(m=(3, 4), f=4, b=(2, 4))), 4),
    "Relu behind": (chain(PRODUCT, SCALED, node("Relu", ("s",), ("y",)), **numbers(m=(3, 4), f=4)), 4),
    "sign before": (chain(node("Gemm", ("x", "m"), ("p",), alpha=-1.0), TIMES, **numbers(m=(3, 4), f=0.3)), -0.3),
    "sign behind": (chain(node("Gemm", ("x", "m"), ("p",), alpha=0.3), TIMES, **numbers(m=(3, 4), f=-1)), -0.3),
    "doubled before": (chain(node("Gemm", ("x", "m"), ("p",), alpha=4.0), TIMES, **numbers(m=(3, 4), f=1.3)), 5.2),
}
"""Inference graphs of which one Gemm is left, and its alpha."""

STAYS: dict[str, Model] = {
    "second reader": chain(PRODUCT, TIMES, node("Add", ("p", "y"), ("z",)), **numbers(m=(3, 4), f=2)),
    "number that is computed": chain(
        PRODUCT, node("ReduceSum", ("x",), ("f",), keepdims=0), TIMES, **numbers(m=(3, 4))
    ),
    "several numbers": chain(PRODUCT, TIMES, **numbers(m=(3, 4), f=(4,))),
    "larger result": chain(PRODUCT, TIMES, **numbers(m=(3, 4), f=[[[2]]])),
    "a third": chain(PRODUCT, node("Div", ("p", "f"), ("y",), "times"), **numbers(m=(3, 4), f=3)),
    "no reciprocal": chain(PRODUCT, node("Div", ("p", "f"), ("y",), "times"), **numbers(m=(3, 4), f=2.0**-149)),
    "divided by the product": chain(PRODUCT, node("Div", ("f", "p"), ("y",), "times"), **numbers(m=(3, 4), f=2)),
    "infinite": chain(PRODUCT, TIMES, **numbers(m=(3, 4), f=np.inf)),
    "sum before": chain(node("Gemm", ("x", "m", "b"), ("p",)), TIMES, **numbers(m=(3, 4), b=(4,), f=2)),
    "Relu before": chain(
        node("MatMul", ("x", "m"), ("r",)), node("Relu", ("r",), ("p",)), TIMES, **numbers(m=(3, 4), f=2)
    ),
    "factor of its own": chain(node("Gemm", ("x", "m"), ("p",), alpha=0.3), TIMES, **numbers(m=(3, 4), f=0.7)),
    "small powers": chain(node("Gemm", ("x", "m"), ("p",), alpha=0.5), TIMES, **numbers(m=(3, 4), f=0.25)),
    "another producer": chain(node("Add", ("x", "x"), ("p",)), TIMES, **numbers(f=2)),
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


@pytest.mark.parametrize("name", JOINT)
def test_multiplied_by_the_product(name: str, tmp_path: Path) -> None:
    """One product with the factor is left, under both names, and a node may be opted out."""
    model, alpha = JOINT[name]
    before, after = both(tmp_path, model)
    assert ops(after) == ["Gemm"]
    assert np.float32(after.nodes[0].attrs["alpha"]) == np.float32(alpha)
    assert "times" in after.nodes[0].name
    alone = fuse.fuse_program(before, Options(opt_out=("times",)))
    assert {"Mul", "Div"} & set(ops(alone))


def test_multiplied_by_the_gradient_of_softmax(tmp_path: Path) -> None:
    """Scores that are scaled before Softmax have a gradient in one step, whose kernel leaves the bits of both."""
    model = chain(node("SoftmaxGrad", ("x", "x"), ("p",), domain="com.microsoft"), TIMES, **numbers(f=0.3))
    _, after = both(tmp_path, model)
    assert ops(after) == ["SoftmaxGrad"]
    assert after.nodes[0].attrs["alpha"] == np.float32(0.3)
    sample = next(s for s in registry()["SoftmaxGrad"].samples() if s.label == "scaled")
    steps = [
        step_of(registry()["SoftmaxGrad"], replace(sample, attrs={"axis": 1, **a}))
        for a in (sample.attrs, {"alpha": 1.0})
    ]
    joint, plain = (run_step(step, step.access.sizes)[0] for step in steps)
    assert bits(joint) == bits(plain * np.float32(sample.attrs["alpha"]))


@pytest.mark.parametrize("name", STAYS)
def test_a_step_of_its_own(name: str, tmp_path: Path) -> None:
    """A product with a number stays where it could not be the kernel's, or where bits could differ."""
    outputs = "z" if name == "second reader" else "y"
    before, after = both(tmp_path, replace(STAYS[name], outputs=(value(outputs, None),)))
    kept = {"Mul", "Div"}
    assert [op for op in ops(after) if op in kept] == [op for op in ops(before) if op in kept]


def test_an_output_stays(tmp_path: Path) -> None:
    """A product that is an output itself is not multiplied."""
    model = replace(STAYS["another producer"], nodes=(PRODUCT, TIMES), outputs=(value("p", None), value("y", None)))
    _, after = both(tmp_path, replace(model, **numbers(m=(3, 4), f=2)))
    assert ops(after) == ["Gemm", "Mul"]


SPECIAL = np.array([0, 1, 3, 0x7FFFFF, 0x800000, 0x3F800001, 0x7F7FFFFF, 0x7F800000, 0x7FC00000], np.uint32)
POWERS = [2.0**n for n in (-126, -3, -1, 0, 1, 5, 127)]
FEW = settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
factors = st.one_of(st.sampled_from([s * p for s in (1, -1) for p in POWERS]), st.floats(width=32, allow_nan=False))


@FEW
@given(factors, factors, st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_joint_factors(first: float, second: float, values: list[float]) -> None:
    """One factor for two gives the bits of both, one after the other, for any number."""
    joint = factor.joint_factor(first, second)
    if joint is None:
        return
    x = np.concatenate([np.array(values, np.float32), SPECIAL.view(np.float32), -SPECIAL.view(np.float32)])
    with np.errstate(all="ignore"):
        assert canonical(x * np.float32(first) * np.float32(second)) == canonical(x * np.float32(joint))


@pytest.mark.parametrize(("first", "second"), [(0.5, 0.25), (2, 0.5), (0.25, 4), (1.5, 1.5), (0.3, 2)])
def test_factors_that_round(first: float, second: float) -> None:
    """Factors without a joint factor round differently for some number."""
    assert factor.joint_factor(first, second) is None
    x = np.arange(2**13, dtype=np.uint32).view(np.float32)
    normal = np.arange(0x3F800000, 0x3F802000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([x, normal, SPECIAL.view(np.float32)])
    with np.errstate(all="ignore"):
        twice = x * np.float32(first) * np.float32(second)
        assert canonical(twice) != canonical(x * np.float32(first * second))


@FEW
@given(factors)
def test_divisors(divisor: float) -> None:
    """A divisor is a factor only where every quotient is the product."""
    fusion = registry()["Div"].fusion
    assert fusion is not None
    multiple = fusion.multiple({1: float(divisor)})
    if multiple is None:
        return
    x = np.concatenate([RANDOM.standard_normal(50).astype(np.float32), SPECIAL.view(np.float32)])
    with np.errstate(all="ignore"):
        assert canonical(x / np.float32(divisor)) == canonical(x * np.float32(multiple[1]))


@pytest.mark.parametrize("number", [0.3, -4.0, 0.0, 2.0**-149, 3e38])
def test_special_values(number: float) -> None:
    """Infinities, numbers without a normal form and zeros of both signs are multiplied as by Mul, and then added."""
    special = np.concatenate([SPECIAL, SPECIAL | np.uint32(1 << 31)]).view(np.float32)
    left, right = (grid.reshape(-1) for grid in np.meshgrid(special, special))

    def by(op: str, *inputs: Array, **attrs: float) -> Array:
        step = step_of(registry()[op], Sample("s", inputs, dict(attrs)))
        return run_step(step, step.access.sizes)[0].reshape(-1)

    one = np.ones((1, 1), np.float32)
    multiple = by("Mul", by("Gemm", left[:, None], one), np.array(number, np.float32))
    assert canonical(by("Gemm", left[:, None], one, alpha=number)) == canonical(multiple)
    added = by("Gemm", left[:, None], one, right[:, None], alpha=number)
    assert canonical(added) == canonical(by("Add", multiple, right))


def test_same_bits(tmp_path: Path) -> None:
    """A chain of scaled products and sums gives the bits of its steps, whatever the tiles."""
    nodes = [node("MatMul", ("x", "m0"), ("t0",), "product0")]
    for i in (1, 2, 3):
        nodes.append(node("MatMul", ("x", f"m{i}"), (f"p{i}",), f"product{i}"))
        nodes.append(node("Mul", (f"p{i}", "f"), (f"s{i}",), f"times{i}"))
    nodes += [node("Add", (f"t{i - 1}", f"s{i}"), (f"t{i}" if i < 3 else "y",), f"sum{i}") for i in (1, 2, 3)]
    model = chain(*nodes, x=(2, 9, 21), out=(2, 9, 17), **numbers(f=0.3, **{f"m{i}": (21, 17) for i in range(4)}))
    case = pipeline.load_inference_case(model.save(tmp_path / "model.onnx"))
    assert ops(fuse.fuse_program(case.program, Options())) == ["Gemm"] * 4
    names = tuple(n.name for n in case.program.nodes if n.op != "Gemm")
    expected = result_hash(compile_case(case, tmp_path / "apart", "single", 64000, opt_out=names).run())
    for l1, strategy in ((64000, "single"), (1200, "single"), (900, "double")):
        built = compile_case(case, tmp_path / f"{strategy}{l1}", strategy, l1)
        assert result_hash(built.run("--dma-order", "late")) == expected
