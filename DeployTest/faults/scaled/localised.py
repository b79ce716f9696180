"""Wrong kernels drawn over operators, losses and optimizers, and whether the step that has one is the one named.

A float32 run in numpy of the program that was planned stands for the generated one, and its values of a pass for those
that a simulator writes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np

from deployer import judging, pipeline
from deployer.core.ir import Node
from deployer.core.operator import Array
from deployer.core.plan import Options, Plan
from deployer.pipeline import Case
from deployer.planning import fuse
from deployer.running import watch
from deployer.verify.checks import Judge
from deployer.verify.reference import Memory
from deployer.verify.same_state import Recorded, recorded_passes
from deployer.verify.tolerances import TOLERANCES
from DeployTest.faults.scaled.nets import Net
from DeployTest.faults.scaled.search import LEAST, effect, places, replaced
from DeployTest.support.graphs.turned import recorded_run

Values = dict[int, dict[str, Array]]
Fault = Callable[[Array, Array, np.random.Generator], Array]
"""A wrong result of a right one, what was in its place, and draws."""


def _one(values: Array, draws: np.random.Generator, share: float) -> Array:
    wrong = np.array(values)
    wrong.flat[draws.integers(values.size)] += share * np.abs(values).max()
    return wrong


def _part(values: Array, was: Array, draws: np.random.Generator) -> Array:
    wrong = np.array(values)
    begin = int(draws.integers(values.size))
    wrong.reshape(-1)[begin:] = was.reshape(-1)[begin:]
    return wrong


NOTHING = "nothing"
FAULTS: dict[str, Fault] = {
    NOTHING: lambda x, was, r: x,
    "a thousandth more": lambda x, was, r: was + (x - was) * np.float64(1.001),
    "a ten-thousandth less": lambda x, was, r: was + (x - was) * np.float64(0.9999),
    "an element off by a hundredth of the largest": lambda x, was, r: _one(x - was, r, 0.01) + was,
    "the other sign": lambda x, was, r: was - (x - was),
    "a part left out": _part,
    "half as much again": lambda x, was, r: was + (x - was) * np.float64(1.5),
}


@dataclass(frozen=True)
class Localised:
    """A fault, the verdict's fault, and the step that is named; `step` has the fault."""

    net: str
    fault: str
    op: str
    step: int
    failed: bool
    named: int | None
    said: str

    @property
    def right(self) -> bool:
        """Whether the step with the fault is named, in a run that failed."""
        return self.failed and self.named == self.step


@dataclass(frozen=True)
class Planned:
    """A net with its plan and the program that was planned."""

    net: Net
    plan: Plan
    case: Case

    @classmethod
    def of(cls, net: Net) -> "Planned":
        """Plan for the host."""
        options = Options("host", "auto", {"L1": 128000})
        _, plan = pipeline.plan_case(net.case, options)
        fused = fuse.fuse_program(net.case.program, plan.options)
        return cls(net, plan, replace(net.case, program=fused))

    def places(self) -> list[tuple[int, Node, int]]:
        """Each step with its node and each of its outputs of floats."""
        graphs = {id(node): graph.name for graph in self.case.program.graphs for node in graph.nodes}
        steps = {(step.graph, step.name): step.index for step in self.plan.steps}
        found = [(steps.get((graphs[id(node)], node.name)), node, at) for node, at in places(self.case)]
        return [(step, node, at) for step, node, at in found if step is not None]


def judged(planned: Planned, step: int, node: Node, at: int, fault: str, seed: int) -> Localised | None:
    """Run with the fault in every pass, judge the run, and look for the step; None where the fault changes nothing.

    That is no bit, or, such as a mean of which what follows takes the mean again, no more than rounding.
    """
    program, dataset = planned.case.program, planned.case.dataset
    assert dataset is not None
    values = dict[int, Values]()
    steps = {(s.graph, s.name): s for s in planned.plan.steps}
    graphs = {id(n): graph.name for graph in program.graphs for n in graph.nodes}

    def wrong(result: Array, was: Array) -> Array:
        return FAULTS[fault](result, was, np.random.default_rng([seed, step]))

    before, plant = replaced(planned.case, node, at, wrong)

    def after(index: int, found: Node, memory: Memory) -> None:
        plant(index, found, memory)
        planned_step = steps.get((graphs[id(found)], found.name))
        if planned_step is not None:
            written = [row for row in watch.results(planned_step) if row[1] in memory]
            row = {storage: memory[tensor].reshape(-1).copy() for tensor, storage in written}
            values.setdefault(index, {})[planned_step.index] = row

    recorded = recorded_run(planned.case, before, after)
    if fault != NOTHING and _same(recorded, recorded_run(planned.case)):
        return None
    passes = recorded_passes(program, dataset, recorded, dataset.n_batches)
    judge = Judge(program, dataset, TOLERANCES.loss, passes)
    failed = judge.checks().failed
    label = (planned.net.of, fault, node.op, step)
    if failed is None:
        return None if effect(planned.case, node, at) <= LEAST else Localised(*label, False, None, "")

    def watched(plan: Plan, directory: Path, of: object, index: int) -> Values:
        return values[index]

    with mock.patch.object(watch, "watched", watched):
        found, said = judging.divergence(planned.net.case, planned.plan, judge, Path(), failed)
    return Localised(*label, True, found.step if found else None, said)


def drawn(nets: Iterator[Net], each: int, seed: int) -> Iterator[Localised]:
    """So many faults in each net, at drawn steps; those that change no result are left out."""
    for net in nets:
        planned = Planned.of(net)
        rows = planned.places()
        draws = np.random.default_rng([seed, len(rows), *net.of.encode()])
        for count in range(each):
            step, node, at = rows[int(draws.integers(len(rows)))]
            fault = list(FAULTS)[1 + int(draws.integers(len(FAULTS) - 1))]
            result = judged(planned, step, node, at, fault, seed + count)
            if result is not None:
                yield result


def _same(left: Recorded, right: Recorded) -> bool:
    return left.losses == right.losses and all(np.array_equal(a, right.final[n]) for n, a in left.final.items())
