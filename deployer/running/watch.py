"""Where a pass first goes wrong: what each step of the program made of its own operands, beside float64 of the same.

The host's simulator writes the results of all steps of one pass; every step is then judged alone, by the operands that
the program itself had there. So an error is named at the step that made it, however far it went from there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from deployer.codegen.c_names import Memory as Addresses
from deployer.core.ir import Node, Program
from deployer.core.operator import Array, operator_of
from deployer.core.plan import Home, Plan, PlanStep, target_of
from deployer.frontend.dataset import Dataset
from deployer.rates.run_time import at_rates
from deployer.running import output
from deployer.running.build import toolchain
from deployer.running.run import command_line, supervised
from deployer.verify.reference import Memory, begin_pass, initial_memory
from deployer.verify.tolerances import TOLERANCES

LIST, VALUES = "--watch", "--watched"
"""The options of a simulator that writes values."""


@dataclass(frozen=True)
class Divergence:
    """The first step whose result is not what its own operands give: by `error`, a share of its largest magnitude."""

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
    tools, addresses = toolchain(target), Addresses(plan, target)
    levels = [level.name for level in plan.levels]
    written = [(step.index, plan.home(storage)) for step in steps for _, storage in results(step)]
    rows = sorted((_at_home(plan, step, home), step, at) for at, (step, home) in enumerate(written))
    words = [index]
    for moment, _, at in rows:
        home = written[at][1]
        words += [moment, levels.index(home.level), addresses.address(home.level, home.offset), home.bytes]
    with output.scratch(directory) as folder:
        for file in ("network", "input.bin"):
            (folder / file).symlink_to((directory / file).resolve())
        (folder / "list.bin").write_bytes(np.array(words, np.uint32).tobytes())
        flags = [LIST, "list.bin", VALUES, "values.bin"]  # in the folder, which the program runs in
        supervised(command_line(target.name, tools, folder, flags), folder, plan)
        content = (folder / "values.bin").read_bytes()
    values: dict[int, dict[str, Array]] = {}
    of = {visit.name: visit.storage for visit in plan.visits}
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
    return max([step, *(c.at for c in plan.crossings if c.step == step and c.way == "out" and c.arg in args)])


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
    """What the program computed in a pass for those of the tensors that a step writes."""
    writers = {tensor: step.index for step in plan.steps for tensor, _ in results(step) if tensor in names}
    steps = tuple(step for step in plan.steps if step.index in writers.values())
    values = watched(plan, directory, steps, index)
    shapes = {tensor: program.tensors[tensor].type.shape for tensor in writers}
    return {n: values[step][program.storage(n)].reshape(shapes[n]) for n, step in writers.items()}


def _diverging(step: PlanStep, node: Node, memory: Memory, values: Mapping[str, Array]) -> Divergence | None:
    """Judge one step, and leave what the program computed in the memory."""
    operands = memory.operands(node)
    with np.errstate(all="ignore"):
        expected = operator_of(node).reference(node, operands)
    rows = []
    for name, due in zip(node.outputs, expected, strict=False):
        storage = memory.program.storage(name) if name else ""
        if storage not in values:
            continue
        with np.errstate(invalid="ignore"):
            actual = values[storage].astype(np.float64).reshape(np.shape(due))
        rows.append((name, actual, np.asarray(due, np.float64)))
    for name, actual, _ in rows:
        memory[name] = actual
    for name, actual, due in rows:
        largest = float(np.abs(due[np.isfinite(due)]).max(initial=0.0))
        errors = np.where(actual == due, 0.0, np.abs(actual - due))
        errors = np.where(np.isnan(errors), np.inf, errors)
        if errors.size and not errors.max() <= TOLERANCES.step * largest:
            place = int(errors.argmax())
            at = tuple(int(i) for i in np.unravel_index(place, due.shape))
            error = float(errors.max() / largest) if largest else float("inf")
            return Divergence(
                step.index, step.name, step.op, name, at, float(actual.flat[place]), float(due.flat[place]), error
            )
    return None
