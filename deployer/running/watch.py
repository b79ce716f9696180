"""First wrong step of a pass, and how far the losses of a run drift from the float64 run.

The host's simulator writes the results of all steps of one pass; every step is then compared with float64 on the
operands that the program itself had there. So an error is named at the step that made it, however far it spread.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from deployer.codegen.c_names import MemoryNames
from deployer.core.files.reading import real_path
from deployer.core.ir import Node, Program
from deployer.core.operator import Array, operator_of
from deployer.core.plan import Home, Plan, PlanStep, target_of
from deployer.frontend.dataset import Dataset
from deployer.lr_schedules.run_time import at_rates
from deployer.running import output
from deployer.running.build import toolchain
from deployer.running.run import command_line, supervised
from deployer.verify import verdict
from deployer.verify.reference import Memory, begin_pass, initial_memory
from deployer.verify.tolerances import TOLERANCES

LIST, VALUES = "--watch", "--watched"
"""The options of a simulator that writes values."""


@dataclass(frozen=True)
class Divergence:
    """First step whose result deviates from float64 of its operands, by `error`, a share of its largest magnitude."""

    step: int
    name: str
    op: str
    tensor: str
    element: tuple[int, ...]
    computed: float
    due: float
    error: float

    def __str__(self) -> str:
        place = f"step {self.step} {self.name!r} ({self.op}), {self.tensor}{list(self.element)}"
        return f"{place}: {self.computed:.9g}, its operands give {self.due:.9g}"


def can_watch(plan: Plan) -> bool:
    """Whether the target's simulator writes the values of steps."""
    return {LIST, VALUES} <= set(toolchain(target_of(plan.options)).run_flags)


def results(step: PlanStep) -> tuple[tuple[str, str], ...]:
    """The tensors that a step writes, with their storages."""
    return tuple((o.tensor, o.storage) for o in step.operands if o.mode != "in")


def watched(plan: Plan, directory: Path, steps: tuple[PlanStep, ...], index: int) -> dict[int, dict[str, Array]]:
    """Run a built program again; the results of steps in a pass by the step's index and the tensor's storage."""
    target = target_of(plan.options)
    tools, addresses = toolchain(target), MemoryNames(plan, target)
    levels = [level.name for level in plan.levels]
    written = [(step.index, plan.home(storage)) for step in steps for _, storage in results(step)]
    rows = sorted((_at_home(plan, step, home), step, at) for at, (step, home) in enumerate(written))
    words = [index]
    for moment, _, at in rows:
        home = written[at][1]
        words += [moment, levels.index(home.level), addresses.address(home.level, home.offset), home.bytes]
    with output.scratch(directory) as folder:
        for file in ("network", "input.bin"):
            (folder / file).symlink_to(real_path(directory / file))
        (folder / "list.bin").write_bytes(np.array(words, np.uint32).tobytes())
        flags = [LIST, "list.bin", VALUES, "values.bin"]  # in the folder, which the program runs in
        supervised(command_line(target.name, tools, folder, flags), folder, plan)
        content = (folder / "values.bin").read_bytes()
    values: dict[int, dict[str, Array]] = {}
    of = {residency.name: residency.storage for residency in plan.residencies}
    begin = 0
    for _, step, at in rows:
        home = written[at][1]
        array = np.frombuffer(content, home.type.dtype, home.type.size, begin)
        values.setdefault(step, {})[of.get(home.storage, home.storage)] = array
        begin += home.bytes
    return values


def _at_home(plan: Plan, step: int, home: Home) -> int:
    """The step at whose end a result of a step is at home: its own, or the one in which its egress is awaited."""
    args = {o.arg for o in plan.steps[step].operands if o.storage == home.storage}
    return max(
        [step, *(c.at for c in plan.cross_step_transfers if c.step == step and c.direction == "out" and c.arg in args)]
    )


def first_divergence(
    program: Program, dataset: Dataset, before: Mapping[str, Array], plan: Plan, directory: Path, index: int
) -> Divergence | None:
    """The first step of a pass that diverges from float64 on its own operands; `program` is the one that was planned.

    None where no step does: what is off then came with the operands, or is rounding that grew.
    """
    graphs = plan.graphs if dataset.updates_after(index) else plan.graphs[:1]
    steps = tuple(step for step in plan.steps if step.graph in graphs)
    values = watched(plan, directory, steps, index)
    weights = {n: a for n, a in dataset.weights.items() if n in program.tensors}
    memory = initial_memory(program, replace(dataset, weights=weights))
    with np.errstate(invalid="ignore"):
        memory.update({n: a for n, a in before.items() if n in program.tensors})
    begin_pass(program, dataset, memory, index)
    rates = dataset.rates_of(index)
    by_name = {(graph.name, node.name): at_rates(node, rates) for graph in program.graphs for node in graph.nodes}
    for step in steps:
        divergence = _diverging(step, by_name[step.graph, step.name], memory, values[step.index])
        if divergence is not None:
            return divergence
    return None


def computed(program: Program, plan: Plan, directory: Path, index: int, names: Sequence[str]) -> dict[str, Array]:
    """Return the values that the program computed in a pass for the tensors that a step writes."""
    writers = {tensor: step.index for step in plan.steps for tensor, _ in results(step) if tensor in names}
    steps = tuple(step for step in plan.steps if step.index in writers.values())
    values = watched(plan, directory, steps, index)
    shapes = {tensor: program.tensors[tensor].type.shape for tensor in writers}
    return {n: values[step][program.storage(n)].reshape(shapes[n]) for n, step in writers.items()}


def _diverging(step: PlanStep, node: Node, memory: Memory, values: Mapping[str, Array]) -> Divergence | None:
    """Judge one step, and leave what the program computed in the memory.

    Its error may be some times that of the operator's reference in float32 on the same operands, which has what
    cancels in a sum, and some units of rounding of what it changes, which of a weight is less than the weight.
    """
    operands = memory.operands(node)
    narrow = [x.astype(np.float32) if x is not None and x.dtype == np.float64 else x for x in operands]
    storage = {name: memory.program.storage(name) for name in (*node.inputs, *node.outputs) if name}
    was = {storage[n]: np.asarray(x) for n, x in zip(node.inputs, operands, strict=False) if n and x is not None}
    with np.errstate(all="ignore"):
        expected = operator_of(node).reference(node, operands)
        rounded = operator_of(node).reference(node, narrow)
    found = None
    for name, due, near in zip(node.outputs, expected, rounded, strict=False):
        if not name or storage[name] not in values:
            continue
        with np.errstate(invalid="ignore"):
            actual = values[storage[name]].astype(np.float64).reshape(np.shape(due))
        base = was.get(storage[name], np.zeros(())).reshape(-1).astype(np.float64)
        wide_due, wide_near = (np.asarray(x, np.float64).reshape(-1) for x in (due, near))
        error = _Error(actual.reshape(-1), wide_due, wide_near, base)
        if found is None and error.share > 1:
            at = tuple(int(i) for i in np.unravel_index(error.worst, np.shape(due)))
            actual_value, right = float(error.actual[error.worst]), float(error.due[error.worst])
            found = Divergence(step.index, step.name, step.op, name, at, actual_value, right, error.relative)
        memory[name] = actual
    return found


@dataclass(frozen=True, eq=False)
class _Error:
    """Result of a step, the expected one in float64 and in float32, and the content before it."""

    actual: Array
    due: Array
    near: Array
    was: Array

    @cached_property
    def errors(self) -> Array:
        """The error of each element; a NaN that is not due is infinite."""
        same = (self.actual == self.due) | (np.isnan(self.actual) & np.isnan(self.due))
        with np.errstate(invalid="ignore"):
            errors = np.where(same, 0.0, np.abs(self.actual - self.due))
        return np.where(np.isnan(errors), np.inf, errors)

    @cached_property
    def change(self) -> Array:
        """The step's change, or its result if that is smaller."""
        with np.errstate(invalid="ignore"):
            change = self.due - self.was if self.was.shape == self.due.shape else self.due
        plain, change = (np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0) for x in (self.due, change))
        return change if verdict.norm(change) < verdict.norm(plain) else plain

    @property
    def worst(self) -> int:
        """The place of the largest error."""
        return int(self.errors.argmax())

    @property
    def relative(self) -> float:
        """The largest error as a share of the largest change."""
        return verdict.share(float(self.errors.max()), float(np.abs(self.change).max()))

    @property
    def share(self) -> float:
        """The error as a share of its bound: of its largest element, or as a 2-norm."""
        if not self.errors.any():
            return 0.0
        own = np.nan_to_num(np.abs(verdict.minus(self.near, self.due)), nan=0.0, posinf=0.0, neginf=0.0)
        units = verdict.roundings(self.due, self.due, 1)
        least = float(np.finfo(np.float32).tiny)
        shares = []
        for size in (np.max, verdict.norm):  # of the largest element, and of all
            bound = TOLERANCES.step * float(size(own)) + TOLERANCES.step_units * float(size(np.abs(self.change)))
            shares.append(verdict.share(float(size(self.errors)), bound + float(size(units)) + least))
        return max(shares)


COLUMNS = 48
LEAST, MOST = -9, 1
"""Powers of ten that a plot shows."""
MARKS = "_.-:=+*#"
WIDTH, HEIGHT, MARGIN = 640, 200, 44


@dataclass(frozen=True)
class Drift:
    """Difference of each pass's loss from that of the float64 run of the same case, as numbers and a plot.

    `largest` is that of pass `at`; `tenfold` is the number of passes in which a difference grows ten times, by a
    straight line through the logarithms, infinite where it does not grow.
    """

    largest: float
    at: int
    tenfold: float
    columns: tuple[float, ...]
    """The largest difference of each of some equal parts of the run."""

    @property
    def line(self) -> str:
        """The plot as text: a mark per part of the run, higher marks for more powers of ten."""
        return "".join(MARKS[round(_height(value) * (len(MARKS) - 1))] for value in self.columns)


def drift_of(losses: Sequence[float], expected: Sequence[float]) -> Drift | None:
    """The drift of a run; None where there is nothing to compare."""
    differences = verdict.distances(np.array(losses), np.array(expected))
    if not differences.size:
        return None
    values = np.nan_to_num(differences, nan=np.inf)
    count = min(COLUMNS, values.size)
    chunks = [values[at * values.size // count : (at + 1) * values.size // count] for at in range(count)]
    return Drift(float(values.max()), int(values.argmax()), _tenfold(values), tuple(float(p.max()) for p in chunks))


def _tenfold(differences: Array) -> float:
    """Passes per power of ten."""
    at = np.flatnonzero((differences > 0) & np.isfinite(differences))
    if at.size < 3:
        return math.inf
    powers = np.log10(differences[at])
    offsets = at - at.mean()
    slope = float((offsets * (powers - powers.mean())).sum() / np.square(offsets).sum())
    return 1 / slope if slope > 0 else math.inf


def _height(value: float) -> float:
    """The place of a difference between the least and the most that a plot shows, from 0 to 1."""
    if not value > 0:
        return 0.0
    power = math.log10(value) if math.isfinite(value) else MOST
    return min(max((power - LEAST) / (MOST - LEAST), 0.0), 1.0)


def drift_svg(drift: Drift, passes: int, tolerance: float) -> str:
    """The plot as a picture: passes to the right, the difference upwards in powers of ten, a line for the tolerance."""
    across = (WIDTH - MARGIN) / max(len(drift.columns), 1)
    bars, lines = [], []
    for at, value in enumerate(drift.columns):
        height = _height(value) * HEIGHT
        place = f'x="{MARGIN + at * across:.1f}" y="{HEIGHT - height:.1f}" width="{across * 0.9:.1f}"'
        first, last = at * passes // len(drift.columns), (at + 1) * passes // len(drift.columns) - 1
        title = f"passes {first} to {max(first, last)}: {value:.2e}"
        bars.append(f'<rect {place} height="{height:.1f}" fill="#4c78a8"><title>{title}</title></rect>')
    for power in range(LEAST, MOST + 1, 2):
        y = HEIGHT - _height(10.0**power) * HEIGHT
        lines.append(f'<text x="{MARGIN - 4}" y="{y + 4:.0f}" text-anchor="end">1e{power}</text>')
    level = HEIGHT - _height(tolerance) * HEIGHT
    lines.append(f'<line x1="{MARGIN}" x2="{WIDTH}" y1="{level:.1f}" y2="{level:.1f}" stroke="red"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -10 {WIDTH} {HEIGHT + 34}" font-size="11" '
        f'font-family="sans-serif"><title>Difference of each pass\'s loss from the expected one</title>'
        f"{''.join(bars)}{''.join(lines)}"
        f'<text x="{MARGIN}" y="{HEIGHT + 18}">{passes} passes; the line is the tolerance, {tolerance:g}</text></svg>\n'
    )
