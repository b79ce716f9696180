"""What a generated program costs besides kernels and transfers: measured on whole programs, per step and per tile."""

import statistics
from pathlib import Path

import numpy as np

from deployer import pipeline
from deployer.ir import Graph, Node, Program, Tensor, TensorType
from deployer.operator import operator_of
from deployer.pipeline import Case
from deployer.plan import Options
from deployer.profile import StepProfile
from deployer.target import Target

WIDTH = 64
LAYERS = 6
BUDGETS = (60000, 12000, 5000)
STRATEGIES = ("single", "double")


def fit_overheads(target: Target, folder: Path) -> tuple[int, int]:
    """(cycles per step, cycles per tile) that kernels and transfers leave unexplained, in the median.

    The target's data must have both at zero.
    """
    rows = [
        row
        for budget in BUDGETS
        for strategy in STRATEGIES
        for row in _profiled(target, budget, strategy, folder / f"{strategy}{budget}")
    ]
    step = statistics.median(r.cycles - r.predicted for r in rows if len(r.kernel) == 1)
    tile = statistics.median((r.cycles - r.predicted - step) / len(r.kernel) for r in rows if len(r.kernel) > 1)
    return max(round(step), 0), max(round(tile), 0)


def _profiled(target: Target, budget: int, strategy: str, folder: Path) -> list[StepProfile]:
    """A program's steps as measured, with what the target's data predicts for them."""
    program = _program()
    options = Options(target.name, strategy, {target.levels[0].name: budget}, target.cores)
    draw = np.random.default_rng(0)
    inputs = {n: draw.standard_normal(t.type.shape).astype(np.float32) for n, t in program.tensors.items()}
    case = Case(folder, program, None, inputs, {}, "")
    tiling, plan = pipeline.plan_program(program, options)
    pipeline.write_case(case, tiling, plan, folder)
    return pipeline.profile(case, plan, folder, measured=True)


def _program() -> Program:
    """Layers of matrix product, bias, rectifier and an outer product, whose weights do not fit the smaller budgets."""
    tensors: dict[str, Tensor] = {}
    nodes: list[Node] = []

    def add(name: str, shape: tuple[int, ...], role: str) -> str:
        tensors[name] = Tensor(name, TensorType("float32", shape), role, name)  # type: ignore[arg-type]
        return name

    def emit(op: str, inputs: tuple[str, ...], output: str, **attrs: int) -> str:
        node = Node(output, op, inputs, (output,), dict(attrs))
        result = operator_of(node).infer(node, [tensors[n].type for n in inputs])[0]
        add(output, result.shape, "value")
        nodes.append(node)
        return output

    value = add("x", (1, WIDTH), "data")
    weights = [add(f"w{i}", (WIDTH, WIDTH), "weight") for i in range(LAYERS)]
    biases = [add(f"b{i}", (WIDTH,), "weight") for i in range(LAYERS)]
    outputs = []
    for i in range(LAYERS):
        product = emit("Gemm", (value, weights[i], biases[i]), f"product{i}", transB=i % 2)
        outputs.append(emit("Gemm", (product, value), f"outer{i}", transA=1))
        value = emit("Relu", (product,), f"relu{i}")
    outputs.append(value)
    return Program(tensors, (Graph("infer", tuple(nodes)),), ("x",), (*weights, *biases), (), "", tuple(outputs), {})
