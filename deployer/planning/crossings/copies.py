"""Copies of visits: the transfers of whole tensors between the outermost level and the level between, step by step."""

from collections.abc import Iterator
from dataclasses import dataclass

from deployer.core.level import USUAL
from deployer.core.plan import Plan
from deployer.planning.expr import Home
from deployer.planning.loop_program import Transfer, Way


@dataclass(frozen=True)
class Copy:
    """A transfer between a storage's home and its copy, which starts when step `start` begins and is awaited when step
    `end` ends.
    """

    storage: str
    name: str
    way: Way
    start: int
    end: int
    dtype: str
    bytes: int

    @property
    def transfer(self) -> Transfer:
        """The transfer as the graph's program has it: one run of all bytes."""
        home, copy = Home(self.storage, self.dtype), Home(self.name, self.dtype)
        target, source = (copy, home) if self.way == "in" else (home, copy)
        return Transfer(self.way, USUAL, target, source, (self.bytes,))


def copies(plan: Plan) -> Iterator[Copy]:
    """The copies that a plan's visits make, in the order of the visits."""
    final = {visit.storage: visit for visit in plan.visits}
    homes = {home.storage: home for home in plan.homes}
    writes = {o.storage: step.index for step in plan.steps for o in step.operands if o.mode != "in"}
    for visit in plan.visits:
        kind = homes[visit.storage].type
        fields = kind.dtype, kind.bytes
        if visit.begin < visit.first:
            yield Copy(visit.storage, visit.name, "in", visit.begin, visit.first - 1, *fields)
        if final[visit.storage] != visit:
            yield Copy(visit.storage, visit.name, "out", writes[visit.name] + 1, visit.end, *fields)
