"""The cost of a generated program besides kernels and transfers, per step and per tile, measured on full programs."""

import statistics
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from deployer.core.cost import kernel_cost
from deployer.core.ir import Graph, Node, Program, Tensor, TensorType
from deployer.core.level import RESIDENT
from deployer.core.operator import Array, operator_of
from deployer.core.plan import Options, Step, StepTiling, Tiling
from deployer.core.target import Target
from deployer.planning.timeline import simulate
from deployer.running.profile import StepProfile

WIDTH = 128
LARGE, SMALL = 12, 3
"""The layers of the two measured programs: the code of the large one exceeds an instruction cache."""
BUDGETS = (230000, 80000, 30000)
LAYER = Path(__file__).with_name("layer.toml")
CONTENTIONS = tuple(range(0, 501, 50))
STRATEGIES = ("single", "double")

Profiled = Callable[[Program, Options, Mapping[str, Array], Path], tuple[Tiling, list[StepProfile]]]
"""Plans, builds and runs a program with these inputs in a folder; returns its tiling and the profile of each step."""


@dataclass(frozen=True)
class Overheads:
    """Cycles per step, more per tile after its first, the share of a kernel's cold start that a pass sees, and the
    contention between kernels and transfers in thousandths of a byte's cost."""

    step: int
    tile: int
    cold_share: float
    contention: int


@dataclass(frozen=True)
class Observed:
    """A step as measured, and what predicts it."""

    row: StepProfile
    step: Step
    choice: StepTiling

    def predicted(self, target: Target, contention: int) -> int:
        """The model's cycles of the step under this contention, without loop code and its kernel's cold start."""
        step = replace(self.step, cold=False, switched=False)
        warm = simulate(step, self.choice, replace(target, contention=contention), True).cycles
        return warm + target.eviction.cycles(0, self.step.cold, self.step.switched)

    def cold(self, target: Target) -> int:
        """What of its kernel's cold start the model adds."""
        form = operator_of(self.step.node).work(self.step.node, self.step.access, self.choice.tile).form
        start = kernel_cost(target, self.step.kernel.symbol, form).cold
        added, without = (target.eviction.cycles(c, self.step.cold, self.step.switched) for c in (start, 0))
        return added - without


def fit_overheads(target: Target, layers: int, folder: Path, profiled: Profiled) -> Overheads:
    """Fit the cycles that kernels and transfers do not explain; in `target` these costs are zero.

    Steps of one tile take a step's cycles, by least squares, and the median share of what their cold code costs.
    """
    observations: list[Observed] = []
    for budget in BUDGETS:
        for strategy in STRATEGIES:
            observations += _profiled(
                target, layers, budget * layers // LARGE, strategy, folder / f"{strategy}{budget}", profiled
            )
    alone = [o for o in observations if len(o.row.kernel) == 1]
    parts = np.array([[1.0, o.cold(target)] for o in alone])
    rest = np.array([o.row.cycles - o.predicted(target, 0) for o in alone], float)
    single = float(np.linalg.lstsq(parts, rest, rcond=None)[0][0])
    lost = parts[:, 1] > 0
    share = float(np.median((rest[lost] - round(single)) / parts[lost, 1])) if lost.any() else 0.0
    share = min(max(share, 0.0), 1.0)
    several = [o for o in observations if len(o.row.kernel) > 1]
    _, contention, tile = min(_loop_error(several, target, c, single, share) for c in CONTENTIONS)
    return Overheads(max(round(single), 0), round(tile), share, contention)


def _loop_error(
    several: list[Observed], target: Target, contention: int, single: float, share: float
) -> tuple[float, int, float]:
    """(mean relative error, contention, cycles per tile) of steps with many tiles, were the contention this."""
    rest = [(o, o.row.cycles - o.predicted(target, contention) - single - share * o.cold(target)) for o in several]
    tile = max(statistics.median(r / (len(o.row.kernel) - 1) for o, r in rest), 0.0)
    errors = [abs(r - tile * (len(o.row.kernel) - 1)) / o.row.cycles for o, r in rest]
    return sum(errors) / len(errors), contention, tile


def _profiled(
    target: Target, layers: int, budget: int, strategy: str, folder: Path, profiled: Profiled
) -> list[Observed]:
    """The measured steps of a program of so many layers."""
    program = _program(layers)
    options = Options(target.name, strategy, {target.levels[RESIDENT].name: budget}, target.cores)
    draw = np.random.default_rng(0)
    inputs = {n: draw.standard_normal(t.type.shape).astype(np.float32) for n, t in program.tensors.items()}
    tiling, rows = profiled(program, options, inputs, folder)
    steps = tiling.lifetimes.schedule.steps
    return [Observed(r, s, c) for r, s, c in zip(rows, steps, tiling.steps, strict=True)]


def _program(layers: int) -> Program:
    """A program of so many layers from `layer.toml`, whose weights exceed the smaller budgets."""
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
    parts = tomllib.loads(LAYER.read_text())["node"]
    for i in range(layers):
        tensor_names = {"value": value, "weight": weights[i], "bias": biases[i]}
        for part in parts:
            attrs = {name: values[i % len(values)] for name, values in part.get("turns", {}).items()}
            operands = tuple(tensor_names[name] for name in part["inputs"])
            value = tensor_names[part["output"]] = emit(part["op"], operands, f"{part['output']}{i}", **attrs)
            outputs += [value] * part.get("kept", False)
    outputs.append(value)
    return Program(tensors, (Graph("infer", tuple(nodes)),), ("x",), (*weights, *biases), (), "", tuple(outputs), {})
