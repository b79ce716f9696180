"""Profiles of a target's own records are read back from records with known times."""

import re
import struct
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from deployer.core.errors import RunFailed
from deployer.core.level import FusedLaunch
from deployer.core.plan import Plan
from deployer.core.target import TARGETS_DIR
from deployer.running import profile

pytestmark = pytest.mark.host

Events = list[tuple[int, int]]
HEADER = (TARGETS_DIR / "riscv" / "profile.h").read_text()
KINDS = re.search(r"enum \{([^}]*)\} profile_kind_t", HEADER)
assert KINDS is not None
STEP, INGRESS, KERNEL, EGRESS = range(len(KINDS[1].split(",")))
COLD, WARM = 61, 13
"""Cycles that recording a step takes: the first time, and each later one."""
PLAN = cast(
    Plan,
    SimpleNamespace(
        steps=[
            SimpleNamespace(index=0, name="first", op="Gemm", tiles=2, cycles=300),
            SimpleNamespace(index=1, name="second", op="Relu", tiles=1, cycles=50),
        ],
        fused_launches=(),
    ),
)
RUNS: list[tuple[int, int, Events]] = [
    (0, 250, [(INGRESS, 5), (INGRESS, 7), (KERNEL, 100), (INGRESS, 3), (KERNEL, 90), (EGRESS, 11)]),
    (1, 40, [(INGRESS, 2), (KERNEL, 30), (EGRESS, 6)]),
    (0, 270, [(INGRESS, 8), (KERNEL, 110), (EGRESS, 4), (INGRESS, 3), (KERNEL, 90), (EGRESS, 9)]),
    (1, 46, [(INGRESS, 4), (KERNEL, 32), (EGRESS, 8)]),
]
"""Two passes of both steps: what each takes without recording, and what is recorded within."""


def recorded(runs: Sequence[tuple[int, int, Events]], events: bool, begin: int = 1000) -> bytes:
    """The records of such a program: some of no step first, then each step, and the end of all."""
    empty = [(profile.NO_STEP, 0, Events())] * (int(HEADER.split("PROFILE_EMPTY_STEPS ")[1].split("u")[0]) - 1)

    def words() -> Iterator[tuple[int, int]]:
        now, cost = begin, COLD
        for step, cycles, within in (*empty, *runs):
            yield from ((STEP, step), (STEP, now % (1 << 32)))
            yield from within if events else ()
            now, cost = now + cycles + cost, WARM
        yield from ((STEP, profile.NO_STEP), (STEP, now % (1 << 32)))

    return b"".join(struct.pack("<2I", *word) for word in words())


@pytest.mark.parametrize("begin", [1000, (1 << 32) - 500])
def test_records_without_what_recording_takes(begin: int) -> None:
    """Each step's mean, without the warm cost of a record; waits and kernels by tile; the clock may start over."""
    first, second = profile.measured_profile(PLAN, recorded(RUNS, False, begin), recorded(RUNS, True))
    assert (first.cycles, second.cycles) == (260, 43)
    assert (first.predicted, second.predicted) == (300, 50)
    assert (first.ingress_wait, first.kernel, first.egress_wait) == ((10, 3), (105, 90), (2, 10))
    assert (second.ingress_wait, second.kernel, second.egress_wait) == ((3,), (31,), (7,))


def test_a_bundle_is_its_first_step() -> None:
    """Steps that share a start have one record, of the first; the others' rows are empty, and the sums are right."""
    steps = [*PLAN.steps, SimpleNamespace(index=2, name="third", op="Relu", tiles=1, cycles=20)]
    plan = cast(Plan, SimpleNamespace(steps=steps, fused_launches=(FusedLaunch(1, 2),)))
    _, second, third = profile.measured_profile(plan, recorded(RUNS, False), recorded(RUNS, True))
    assert (second.cycles, second.predicted, second.kernel) == (43, 50 + 20, (31,))
    assert (third.cycles, third.predicted, third.kernel) == (0, 0, (0,))


def test_a_step_without_record_is_named() -> None:
    """A run that ended early leaves no row of zeros."""
    with pytest.raises(RunFailed, match="no record of step 1 'second'"):
        profile.measured_profile(PLAN, recorded(RUNS[:1], False), recorded(RUNS, True))
