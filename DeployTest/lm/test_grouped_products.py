"""Products that share an operand or a result as one step: fewer steps, and the same bits."""

from collections.abc import Collection
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.ir import Program
from deployer.core.operator import Array, registry
from deployer.core.plan import Options
from deployer.core.samples import Sample
from deployer.operators.products.joint_gemm import JointGemm
from deployer.testing.bench import bits, lawful, run_step, step_of
from deployer.verify.reference import run_inference
from DeployTest.support.graphs.fusing import fused
from DeployTest.support.graphs.small_graphs import Model, constant, infer, node, ops, value

pytestmark = [pytest.mark.host, pytest.mark.training]
ROWS, TERMS = 64, 32
WITHOUT = Options(disabled_rewrites=("group",))
JOINT = [name for name, op in registry().items() if isinstance(op, JointGemm)]
Shapes = dict[str, tuple[int, ...]]
Graph = tuple[list[onnx.NodeProto], tuple[str, ...], Shapes]
"""Nodes, results and the shapes of inputs."""


def product(left: str, right: str, result: str, *added: str, **swaps: int) -> onnx.NodeProto:
    """A product of two matrices, with what is added to it."""
    return node("Gemm", (left, right, *added), (result,), result, **swaps)


def fan(columns: tuple[int, ...], rows: int = ROWS, added: Collection[int] = ()) -> Graph:
    """Products of x with weights of so many rows each, some of them with biases."""
    shapes: Shapes = {"x": (rows, TERMS), **{f"w{i}": (n, TERMS) for i, n in enumerate(columns)}}
    shapes |= {f"c{i}": (columns[i],) for i in added}
    results = tuple(f"y{i}" for i in range(len(columns)))
    biases = [(f"c{i}",) if i in added else () for i in range(len(columns))]
    return [product("x", f"w{i}", f"y{i}", *c, transB=1) for i, c in enumerate(biases)], results, shapes


def weights(rows: tuple[int, ...]) -> Graph:
    """Gradients of weights of so many rows, from those of what products of x have made."""
    shapes: Shapes = {"x": (TERMS, ROWS), **{f"d{i}": (TERMS, n) for i, n in enumerate(rows)}}
    results = tuple(f"y{i}" for i in range(len(rows)))
    return [product(f"d{i}", "x", y, transA=1) for i, y in enumerate(results)], results, shapes


def total(terms: tuple[int, ...], c: bool = False) -> Graph:
    """Products of so many terms each, which are added up, to c if there is one."""
    shapes: Shapes = {f"a{i}": (ROWS, k) for i, k in enumerate(terms)}
    shapes |= {f"b{i}": (k, TERMS) for i, k in enumerate(terms)} | ({"c": (ROWS, TERMS)} if c else {})
    before = [("c",) if c else (), *((f"y{i}",) for i in range(len(terms) - 1))]
    chain = [product(f"a{i}", f"b{i}", f"y{i}", *added) for i, added in enumerate(before)]
    return chain, (f"y{len(terms) - 1}",), shapes


def program_of(graph: Graph, folder: Path, *results: str) -> Program:
    """An inference graph of such nodes, with further results."""
    nodes, outputs, shapes = graph
    named = tuple(value(name, None) for name in (*outputs, *results))
    return infer(folder, Model(tuple(nodes), tuple(value(name, shape) for name, shape in shapes.items()), named))


CASES: dict[str, tuple[Graph, list[str]]] = {
    "three": (fan((32, 16, 16)), ["ProductsOfA"]),
    "two": (fan((64, 64)), ["ProductsOfA"]),
    "four": (fan((32, 32, 32, 32)), ["ProductsOfA", "Gemm"]),
    "five": (fan((32, 16, 16, 32, 48)), ["ProductsOfA", "ProductsOfA"]),
    "one row": (fan((32, 16, 16), 1), ["Gemm"] * 3),
    "three biases": (fan((32, 16, 16), added=(0, 1, 2)), ["ProductsOfA"]),
    "a bias of two": (fan((64, 64), added=(0,)), ["ProductsOfA"]),
    "a last bias": (fan((32, 16, 16), added=(2,)), ["ProductsOfA"]),
    "weights": (weights((32, 16, 16)), ["ProductsOfB"]),
    "a sum": (total((32, 16, 16)), ["SumOfProducts"]),
    "a sum of four": (total((32, 16, 16, 32)), ["SumOfProducts", "Gemm"]),
    "a sum with c": (total((32, 16), True), ["SumOfProducts"]),
}
"""Graphs, and the operators that are left of each."""


@pytest.mark.parametrize("name", CASES)
def test_grouped(name: str, tmp_path: Path) -> None:
    """As many products as a kernel has are one step, and what is left over stays as it was."""
    graph, left = CASES[name]
    program = program_of(graph, tmp_path)
    assert ops(fused(program)) == left
    assert set(ops(fused(program, WITHOUT))) == {"Gemm"}
    first = program.nodes[0].name
    assert ops(fused(program, Options(opt_out=(first,)))).count("Gemm") >= 1


def test_other_readers(tmp_path: Path) -> None:
    """A sum that is also read before its last product is added stays."""
    assert ops(fused(program_of(total((32, 16)), tmp_path, "y0"))) == ["Gemm", "Gemm"]


def test_views_of_one_value(tmp_path: Path) -> None:
    """Products that read a value through views of their own share it, as those of a captured training step do."""
    nodes, results, shapes = fan((32, 16, 16))
    views = [node("Reshape", ("x", "rows"), (f"x{i}",)) for i in range(len(nodes))]
    renamed = [product(f"x{i}", f"w{i}", f"y{i}", transB=1) for i in range(len(nodes))]
    inputs = tuple(value(name, (4, ROWS // 4, TERMS) if name == "x" else shape) for name, shape in shapes.items())
    outputs = tuple(value(name, None) for name in results)
    rows = constant("rows", np.array([ROWS, TERMS]))
    program = infer(tmp_path, Model((*views, *renamed), inputs, outputs, (rows,)))
    assert ops(fused(program)) == ["ProductsOfA"]
    assert ops(fused(program, WITHOUT)) == ["Gemm"] * 3
    draw = np.random.default_rng(0)
    given = {n: draw.standard_normal(program.tensors[n].type.shape).astype(np.float32) for n in program.data}
    both = [run_inference(p, given) for p in (program, fused(program))]
    assert {n: bits(x) for n, x in both[0].items()} == {n: bits(x) for n, x in both[1].items()}


def test_cost_decides(tmp_path: Path) -> None:
    """Products of few rows that leave rests are quicker by themselves."""
    small: Shapes = {"a0": (9, 18), "b0": (18, 18), "a1": (9, 6), "b1": (6, 18)}
    chain = [product("a0", "b0", "y0"), product("a1", "b1", "y1", "y0")]
    assert ops(fused(program_of((chain, ("y1",), small), tmp_path))) == ["Gemm", "Gemm"]


def apart(name: str, sample: Sample, cores: int) -> list[Array]:
    """The results of the products of a sample, each by Gemm's kernel in one tile."""
    operator = registry()[name]
    assert isinstance(operator, JointGemm)
    step = step_of(operator, sample)
    values: dict[str, Array] = dict(step.values)
    for part in operator.parts(step.node):
        inputs = tuple(values[n] for n in part.inputs)
        of_one = step_of(registry()["Gemm"], Sample("part", inputs, dict(part.attrs)))
        (values[part.outputs[0]],) = run_step(of_one, of_one.access.sizes, range(cores))
    return [values[n] for n in step.node.outputs]


@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize("name", JOINT)
def test_kernels_leave_the_same_bits(name: str, cores: int) -> None:
    """Each result has the bits of Gemm's kernel, in any tiles, resident or not."""
    for sample in registry()[name].samples():
        step = step_of(registry()[name], sample)
        expected = [bits(y) for y in apart(name, sample, cores)]
        for length in (1, 3, max(step.access.sizes.values())):
            sizes = lawful(step.access, {d: min(length, size) for d, size in step.access.sizes.items()})
            for resident in ([], [o.arg for o in step.access.operands]):
                assert [bits(y) for y in run_step(step, sizes, range(cores), resident)] == expected, (
                    sample.label,
                    sizes,
                )
