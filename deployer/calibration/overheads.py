"""The cost of a generated program besides kernels and transfers, per step and per tile, measured on full programs."""

import itertools
import statistics
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from deployer.core.files.reading import own_toml
from deployer.core.ir import Graph, Node, Program, Tensor, TensorType
from deployer.core.level import L_INNER
from deployer.core.operator import Array, operator_of
from deployer.core.plan import Options, Step, StepTiling, Tiling
from deployer.core.target import Target
from deployer.planning.timeline import simulate
from deployer.running.profile import StepProfile
from deployer.tilers.levels.geometry import geometry, loop_key

WIDTH = 128
LAYERS = 12
"""The layers of the measured program: its code exceeds an instruction cache."""
BUDGETS = (230000, 80000, 30000)
LAYER = Path(__file__).with_name("layer.toml")
WIDEST = (128, 128)
"""The first changes of the costs that are searched: of contention and tile."""
STRATEGIES = ("single", "double")

Profiled = Callable[[Program, Options, Mapping[str, Array], Path], tuple[Tiling, list[StepProfile]]]
"""Plans, builds and runs a program with these inputs in a folder; returns its tiling and the profile of each step."""


@dataclass(frozen=True)
class Overheads:
    """Cycles per step, further cycles per tile after the first, and the contention of kernels and transfers.

    Contention is in thousandths of a byte's cost.
    """

    step: int
    tile: int
    contention: int


@dataclass(frozen=True)
class Observed:
    """Measured step, and the features that predict its cycles."""

    row: StepProfile
    step: Step
    choice: StepTiling

    @cached_property
    def kind(self) -> Hashable:
        """Key of its predicted cycles: layers of one geometry and tiling have the same."""
        choice = self.choice
        return geometry(self.step), self.step.icache_miss_permille, loop_key(choice), loop_key(choice.stage)

    def predicted(self, target: Target) -> int:
        """The model's cycles of the step."""
        return simulate(self.step, self.choice, target, True).cycles


def fit_overheads(target: Target, folder: Path, profiled: Profiled) -> Overheads:
    """Fit the cycles that kernels and transfers do not explain; in `target` these costs are zero."""
    observations: list[Observed] = []
    for budget, strategy in itertools.product(BUDGETS, STRATEGIES):
        observations += _profiled(target, budget, strategy, folder / f"{strategy}{budget}", profiled)
    alone = sorted((o for o in observations if len(o.row.kernel) == 1), key=lambda o: o.row.cycles)
    # What the model of kernels is off by weighs least in the smaller half.
    single = max(round(statistics.median(o.row.cycles - o.predicted(target) for o in alone[: -(-len(alone) // 2)])), 0)
    several = [o for o in observations if len(o.row.kernel) > 1]
    contention, tile = _searched(several, replace(target, step=single))
    return Overheads(single, tile, contention)


def _searched(several: list[Observed], target: Target) -> tuple[int, ...]:
    """Contention and tile with the least mean relative error of steps with many tiles.

    From where nothing costs anything, the best change of some of them is made as long as there is one; the changes
    are then half as wide.
    """
    first = {o.kind: o for o in several}

    @cache
    def error(costs: tuple[int, ...]) -> float:
        machine = replace(target, contention=costs[0], tile=costs[1])
        cycles = {kind: o.predicted(machine) for kind, o in first.items()}
        return statistics.fmean(abs(o.row.cycles - cycles[o.kind]) / o.row.cycles for o in several)

    best: tuple[int, ...] = (0, 0)
    widths: tuple[int, ...] = WIDEST
    while any(widths):
        signs = list(itertools.product((-1, 0, 1), repeat=len(widths)))
        near = (tuple(b + c * w for b, c, w in zip(best, change, widths, strict=True)) for change in signs)
        found = min((costs for costs in near if min(costs) >= 0), key=error)
        if error(found) < error(best):
            best = found
        else:
            widths = tuple(width // 2 for width in widths)
    return best


def _profiled(target: Target, budget: int, strategy: str, folder: Path, profiled: Profiled) -> list[Observed]:
    """The measured steps of the program."""
    program = _program(LAYERS)
    budgets = {target.levels[L_INNER].name: budget}
    # Each transfer starts and ends in the step that waits for it.
    options = Options(target.name, strategy, budgets, target.cores, cross_step_prefetch=False)
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
    entries = own_toml(LAYER)["node"]
    for i in range(layers):
        tensor_names = {"value": value, "weight": weights[i], "bias": biases[i]}
        for entry in entries:
            attrs = {name: values[i % len(values)] for name, values in entry.get("turns", {}).items()}
            operands = tuple(tensor_names[name] for name in entry["inputs"])
            value = tensor_names[entry["output"]] = emit(entry["op"], operands, f"{entry['output']}{i}", **attrs)
            outputs += [value] * entry.get("kept", False)
    outputs.append(value)
    return Program(tensors, (Graph("infer", tuple(nodes)),), ("x",), (*weights, *biases), (), "", tuple(outputs), {})
