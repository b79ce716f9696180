"""Transfers of cached copies: whole tensors between the outermost level and the middle level, step by step."""

from collections.abc import Iterator
from dataclasses import dataclass

from deployer.core.level import L_HOME
from deployer.core.plan import Plan
from deployer.planning.expr import Home
from deployer.planning.loop_program import Direction, Transfer


@dataclass(frozen=True)
class ResidencyCopy:
    """A transfer between a storage's home and its copy, which starts when step `start` begins and is awaited when step
    `end` ends.
    """

    storage: str
    name: str
    direction: Direction
    start: int
    end: int
    dtype: str
    bytes: int

    @property
    def transfer(self) -> Transfer:
        """The transfer as the graph's program has it: one run of all bytes."""
        home, copy = Home(self.storage, self.dtype), Home(self.name, self.dtype)
        target, source = (copy, home) if self.direction == "in" else (home, copy)
        return Transfer(self.direction, L_HOME, target, source, (self.bytes,))


def copies(plan: Plan) -> Iterator[ResidencyCopy]:
    """The copies that a plan's visits make, in the order of the visits."""
    final = {residency.storage: residency for residency in plan.residencies}
    homes = {home.storage: home for home in plan.homes}
    writes = {o.storage: step.index for step in plan.steps for o in step.operands if o.mode != "in"}
    for residency in plan.residencies:
        kind = homes[residency.storage].type
        fields = kind.dtype, kind.bytes
        if residency.begin < residency.first:
            yield ResidencyCopy(residency.storage, residency.name, "in", residency.begin, residency.first - 1, *fields)
        if final[residency.storage] != residency:
            yield ResidencyCopy(
                residency.storage, residency.name, "out", writes[residency.name] + 1, residency.end, *fields
            )
