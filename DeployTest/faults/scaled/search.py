"""The smallest e for which a run whose node gives (1 + e) times its result is not passed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from deployer.core.ir import Node
from deployer.core.operator import Array
from deployer.pipeline import Case
from deployer.verify.checks import Judge
from deployer.verify.reference import Memory, initial_memory, run_pass
from deployer.verify.same_state import recorded_passes
from deployer.verify.systematic import Directions, Systematic
from deployer.verify.tolerances import TOLERANCES
from DeployTest.support.graphs.turned import Hook, recorded_run

SIZES = (3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6)
"""The sizes e that are tried."""
LEAST = 2.0**-5
"""A node whose scaled result changes nothing by this share of e has no effect: what follows divides it out."""


@dataclass(frozen=True)
class Scaled:
    """A node's output of a case, the share of e by which it changes what is trained, and the smallest e found.

    `visible` is the smallest e that is beyond the bounds of a pass that does not magnify rounding.
    """

    node: str
    op: str
    output: int
    effect: float
    smallest: float
    elements: int
    visible: float = np.inf


def places(case: Case) -> list[tuple[Node, int]]:
    """Every output of floats that a node gives."""
    program, dataset = case.program, case.dataset
    assert dataset is not None
    rows: list[tuple[Node, int]] = []

    def look(node: Node, results: Sequence[Array]) -> None:
        names = enumerate(node.outputs[: len(results)])
        rows.extend((node, at) for at, n in names if n and program.tensors[n].type.dtype == "float32")

    memory = initial_memory(program, dataset)
    for index in range(dataset.n_accum):
        rows.clear()
        run_pass(program, dataset, memory, index, look)
    return rows


def replaced(case: Case, node: Node, at: int, wrong: Callable[[Array, Array], Array]) -> tuple[Hook, Hook]:
    """Hooks that replace an output by a wrong one, made of it and of what was in its place, or zeros."""
    program, name = case.program, node.outputs[at]
    base = [np.zeros(program.tensors[name].type.shape)]
    own = any(n and program.storage(n) == program.storage(name) for n in node.inputs)

    def before(index: int, found: Node, memory: Memory) -> None:
        if found is node and own:
            base[0] = memory[name].astype(np.float64)

    def after(index: int, found: Node, memory: Memory) -> None:
        if found is node:
            memory[name] = wrong(memory[name].astype(np.float64), base[0])

    return before, after


def planted(case: Case, node: Node, at: int, factor: float) -> tuple[Hook, Hook]:
    """Hooks that scale the output, or its change where it is written in the place of what it was."""
    return replaced(case, node, at, lambda x, was: was + factor * (x - was))


def effect(case: Case, node: Node, at: int, size: float = 2.0**-10) -> float:
    """The largest relative change of the movement of what is trained, as a share of the size, in float64."""
    plain = _after(case, *[lambda *_: None] * 2)
    scaled = _after(case, *planted(case, node, at, 1 + size))
    shares = [0.0]
    for (moved, _), (other, _) in zip(plain, scaled, strict=True):
        norm = float(np.sqrt(np.square(moved).sum()))
        shares.append(float(np.sqrt(np.square(other - moved).sum())) / norm / size if norm else 0.0)
    losses = [abs(b - a) / max(1.0, abs(a)) / size for (_, a), (_, b) in zip(plain, scaled, strict=True)]
    return max([*shares, *losses])


def _after(case: Case, before: Hook, after: Hook) -> list[tuple[Array, float]]:
    """The movement of each trained tensor in the first update, and the loss."""
    program, dataset = case.program, case.dataset
    assert dataset is not None
    memory = initial_memory(program, dataset)
    names = sorted(n for n in set(program.updated.values()) if program.tensors[n].type.dtype == "float32")
    start = {n: memory[n].copy() for n in names}
    for index in range(dataset.n_accum):
        loss = run_pass(program, dataset, memory, index, lambda n, _: after(0, n, memory), partial(before, 0))
    return [(memory[n] - start[n], loss) for n in names]


def is_found(case: Case, node: Node, at: int, size: float) -> bool:
    """Whether the verdict on a float32 run with the scaled result is not passed."""
    dataset = case.dataset
    assert dataset is not None
    recorded = recorded_run(case, *planted(case, node, at, 1 + size))
    passes = recorded_passes(case.program, dataset, recorded, dataset.n_batches)
    return bool(Judge(case.program, dataset, TOLERANCES.loss, passes).checks().faults)


def scan(case: Case) -> Iterator[Scaled]:
    """The smallest e of every place with an effect, infinite where the largest is not found."""
    for node, at in places(case):
        share = effect(case, node, at)
        smallest = _smallest(case, node, at) if share > LEAST else np.inf
        seen = visible(case, node, at) if share > LEAST else np.inf
        yield Scaled(node.name, node.op, at, share, smallest, case.program.tensors[node.outputs[at]].type.size, seen)


def visible(case: Case, node: Node, at: int, size: float = 2.0**-10) -> float:
    """The smallest e by the bounds of systematic errors: of one that is far beyond rounding, and as much larger."""
    dataset = case.dataset
    assert dataset is not None
    recorded, sums, severity = recorded_run(case, *planted(case, node, at, 1 + size)), Systematic(), 0.0
    for one in recorded_passes(case.program, dataset, recorded, dataset.n_batches):
        rows = list(Directions(one.reference(), TOLERANCES.loss).rows(one))
        sums = sums.after(rows)
        severity = max(severity, sums.found(rows).severity)
    return size / severity if severity else float(np.inf)


def _smallest(case: Case, node: Node, at: int) -> float:
    """By halving, as what is found at one size is found at larger ones."""
    least, most = 0, len(SIZES)
    while least < most:
        middle = (least + most + 1) // 2
        if is_found(case, node, at, SIZES[middle - 1]):
            least = middle
        else:
            most = middle - 1
    return SIZES[least - 1] if least else float(np.inf)
