"""What a generated program costs besides kernels and transfers: measured on whole programs, per step and per tile."""

import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deployer import pipeline
from deployer.ir import Graph, Node, Program, Tensor, TensorType
from deployer.operator import operator_of, registry
from deployer.pipeline import Case
from deployer.plan import Options
from deployer.profile import StepProfile
from deployer.target import Target

WIDTH = 64
LARGE, SMALL = 12, 3
"""Layers of the programs measured: one whose code does not fit an instruction cache, and one whose code does."""
BUDGETS = (100000, 30000, 12000)
STRATEGIES = ("single", "double")


@dataclass(frozen=True)
class Overheads:
    """Cycles per step, more per tile after its first, and the share of a kernel's cold start that a pass sees."""

    step: int
    tile: int
    cold_share: float


def fit_overheads(target: Target, layers: int, folder: Path) -> Overheads:
    """What kernels and transfers leave unexplained, in the median; the target's data has step and tile at zero."""
    runs = [
        _profiled(target, layers, budget * layers // LARGE, strategy, folder / f"{strategy}{budget}")
        for budget in BUDGETS
        for strategy in STRATEGIES
    ]
    first = [[r.op not in {x.op for x in rows[:i]} for i, r in enumerate(rows)] for rows in runs]
    pairs = [pair for rows, cold in zip(runs, first, strict=True) for pair in zip(rows, cold, strict=True)]
    warm = [r for r, is_cold in pairs if not is_cold]
    single = statistics.median(r.cycles - r.predicted for r in warm if len(r.kernel) == 1)
    tile = statistics.median((r.cycles - r.predicted - single) / (len(r.kernel) - 1) for r in warm if len(r.kernel) > 1)
    tile = max(tile, 0.0)
    shares = []
    for r, is_cold in pairs:
        start = max(c.cold for key, c in target.kernels.items() if key.split(".")[0] == _symbol(r.op))
        if is_cold and start:
            rest = r.cycles - (r.predicted - start) - single - tile * (len(r.kernel) - 1)
            shares.append(rest / start)
    share = min(max(statistics.median(shares), 0.0), 1.0)
    return Overheads(max(round(single), 0), round(tile), share)


def _symbol(op: str) -> str:
    kernel = registry()[op].kernel
    return kernel.symbol if kernel else ""


def _profiled(target: Target, layers: int, budget: int, strategy: str, folder: Path) -> list[StepProfile]:
    """A program's steps as measured, with what the target's data predicts for them."""
    program = _program(layers)
    options = Options(target.name, strategy, {target.levels[0].name: budget}, target.cores)
    draw = np.random.default_rng(0)
    inputs = {n: draw.standard_normal(t.type.shape).astype(np.float32) for n, t in program.tensors.items()}
    case = Case(folder, program, None, inputs, {}, "")
    tiling, plan = pipeline.plan_program(program, options)
    pipeline.write_case(case, tiling, plan, folder)
    return pipeline.profile(case, plan, folder, measured=True)


def _program(layers: int) -> Program:
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
    weights = [add(f"w{i}", (WIDTH, WIDTH), "weight") for i in range(layers)]
    biases = [add(f"b{i}", (WIDTH,), "weight") for i in range(layers)]
    outputs = []
    for i in range(layers):
        product = emit("Gemm", (value, weights[i], biases[i]), f"product{i}", transB=i % 2)
        outputs.append(emit("Gemm", (product, value), f"outer{i}", transA=1))
        value = emit("Relu", (product,), f"relu{i}")
    outputs.append(value)
    return Program(tensors, (Graph("infer", tuple(nodes)),), ("x",), (*weights, *biases), (), "", tuple(outputs), {})
