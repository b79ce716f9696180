"""The judge of plans: a sound one passes, each broken one is refused under the rule it breaks."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployer.core.access import Whole
from deployer.core.errors import VerifyFailed
from deployer.core.plan import Plan, Tiling, Timeline
from deployer.verify import plan as judge
from deployer.verify.plan import check_kernel, verify_plan
from DeployTest.verify.plan_edits import (
    at_home,
    beyond,
    in_home,
    in_level,
    in_operand,
    in_step,
    is_in_double,
    is_split,
    onto_neighbour,
    reads,
    refused,
    resident,
    shifted,
    slot_on_home,
    slot_on_slot,
    small_plan,
    whole_dims,
    without_home,
    without_pointer,
    writes,
)

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.fixture
def tiling() -> Tiling:
    """The small program's tiling."""
    return small_plan()[0]


@pytest.fixture
def plan() -> Plan:
    """The small program's plan."""
    return small_plan()[1]


BROKEN_PLANS: dict[str, tuple[str, Callable[[Plan], Plan]]] = {
    "digest": ("digest", lambda p: replace(p, digest="0" * 16)),
    "homes overlap": ("overlap", onto_neighbour),
    "home shifted by 4": ("overlap", shifted),
    "slots overlap": ("overlap", slot_on_slot),
    "slot on a home": ("overlap", slot_on_home),
    "slot on the tables": ("overlap", lambda p: in_operand(p, reads, slot_offset=lambda o: 0)),
    "home on the tables": ("overlap", lambda p: in_home(p, "y", offset=lambda h: 0)),
    "home misaligned": ("alignment", lambda p: in_home(p, "w1", offset=lambda h: h.offset + 2)),
    "slot misaligned": ("alignment", lambda p: in_operand(p, reads, slot_offset=lambda o: o.slot_offset + 1)),
    "second slot misaligned": (
        "alignment",
        lambda p: in_operand(p, lambda s, o: o.slots == 2, slot_bytes=lambda o: o.slot_bytes + 2),
    ),
    "negative offset": ("alignment", lambda p: in_home(p, "w1", offset=lambda h: -h.bytes)),
    "L1 shrunk": ("budget", lambda p: in_level(p, 0, lambda u: replace(u, budget=u.peak - 4))),
    "L2 enlarged": ("budget", lambda p: in_level(p, 1, lambda u: replace(u, budget=u.budget + 4))),
    "peak lies": ("budget", lambda p: in_level(p, 0, lambda u: replace(u, peak=u.peak - 4))),
    "bound lies": ("budget", lambda p: in_level(p, 1, lambda u: replace(u, bound=u.bound + 4))),
    "top home shifted by 4": ("budget", lambda p: in_home(p, at_home(p, 1), offset=lambda h: h.offset + 4)),
    "beyond the budget": ("budget", beyond),
    "no slot and not resident": ("ingress", lambda p: in_operand(p, reads, slots=lambda o: 0)),
    "resident and slots": (
        "ingress",
        lambda p: in_operand(p, lambda s, o: resident(s, o) and o.mode == "in", slots=lambda o: 1),
    ),
    "input slot too small": ("ingress", lambda p: in_operand(p, reads, slot_bytes=lambda o: o.slot_bytes - 4)),
    "input operand missing": ("ingress", lambda p: without_pointer(p, reads)),
    "weight without home": ("ingress", lambda p: without_home(p, "w1")),
    "sample without home": ("ingress", lambda p: without_home(p, "x")),
    "home smaller than its tensor": ("ingress", lambda p: in_home(p, "w1", bytes=lambda h: h.bytes - 4)),
    "tile enlarged": ("ingress", lambda p: in_step(p, is_split(p), dims=whole_dims)),
    "no way out": ("egress", lambda p: in_operand(p, writes, slots=lambda o: 0)),
    "output slot too small": ("egress", lambda p: in_operand(p, writes, slot_bytes=lambda o: o.slot_bytes - 4)),
    "output operand missing": ("egress", lambda p: without_pointer(p, writes)),
    "value without home": ("egress", lambda p: without_home(p, "a")),
    "loss without home": ("egress", lambda p: without_home(p, "loss")),
    "home dies early": ("lifetime", lambda p: in_home(p, "a", last=lambda h: h.last - 1)),
    "home not kept": ("lifetime", lambda p: in_home(p, "w1", persistent=lambda h: False)),
    "too few tables": ("table", lambda p: replace(p, table_bytes=p.table_bytes - 4)),
    "unknown level": ("plan", lambda p: in_home(p, "w1", level=lambda h: "L7")),
    "home in the wrong level": ("plan", lambda p: in_home(p, "w1", level=lambda h: "L1")),
    "home twice": ("plan", lambda p: replace(p, homes=(*p.homes, p.homes[0]))),
    "levels out of order": ("plan", lambda p: replace(p, levels=p.levels[::-1])),
    "options": ("plan", lambda p: replace(p, options=replace(p.options, cores=2))),
    "weights": ("plan", lambda p: replace(p, weights=p.weights[1:])),
    "storage of the loss": ("plan", lambda p: replace(p, storage_of=p.storage_of | {"loss": "y"})),
    "step missing": ("plan", lambda p: replace(p, steps=p.steps[:-1])),
    "steps out of order": ("plan", lambda p: replace(p, steps=p.steps[::-1])),
    "tile shrunk": (
        "plan",
        lambda p: in_step(p, "fc1", dims=lambda s: tuple(replace(d, tile=1) for d in s.dims)),
    ),
    "loop order": ("plan", lambda p: in_step(p, "fc1", dims=lambda s: s.dims[::-1])),
    "buffering": ("plan", lambda p: in_step(p, "square", buffering=lambda s: "single")),
    "slots of another buffering": ("plan", lambda p: in_operand(p, is_in_double, slots=lambda o: 1)),
    "argument missing": ("plan", lambda p: in_step(p, "sgd1", args=lambda s: {"n": s.args["n"]})),
    "another map": ("plan", lambda p: in_operand(p, reads, axes=lambda o: (Whole(),) * len(o.axes))),
    "another tensor": ("plan", lambda p: in_operand(p, reads, tensor=lambda o: "w2", storage=lambda o: "w2")),
    "operands out of order": ("plan", lambda p: in_step(p, "fc1", operands=lambda s: s.operands[::-1])),
    "tile without cost": ("cycles", lambda p: in_step(p, "fc1", tile_cycles=lambda s: s.tile_cycles[1:])),
    "too few cycles": ("cycles", lambda p: in_step(p, "fc1", cycles=lambda s: s.tile_cycles[0])),
    "bytes moved": ("cycles", lambda p: in_step(p, "fc1", bytes_in=lambda s: s.bytes_in - 4)),
    "timeline": ("cycles", lambda p: in_step(p, "fc1", timeline=lambda s: Timeline((), ()))),
}


def test_sound_plan_passes(tiling: Tiling, plan: Plan) -> None:
    verify_plan(plan, tiling)
    assert {h.level for h in plan.homes} == {"L1", "L2"}


@pytest.mark.parametrize("fault", BROKEN_PLANS)
def test_broken_plan_is_refused(tiling: Tiling, plan: Plan, fault: str) -> None:
    rule, change = BROKEN_PLANS[fault]
    refused(rule, lambda: verify_plan(change(plan), tiling))


def test_a_written_pointer_has_an_operand(tiling: Tiling, plan: Plan) -> None:
    """A pointer that a kernel only reads may have no operand; one that it writes must have one."""
    step = plan.steps[0]
    read, output_step = (
        replace(step, kernel=replace(step.kernel, pointers=(*step.kernel.pointers, ("more", "float32", is_written))))
        for is_written in (False, True)
    )
    check_kernel(read, tiling)
    refused("plan", lambda: check_kernel(output_step, tiling))


def bytes_collide(p: Plan) -> bool:
    """Whether some byte of some level belongs to two live buffers in some step: every byte of every step is painted."""
    sizes = {u.name: 1 << 16 for u in p.levels}
    inner = p.levels[0].name
    for step in p.steps:
        owners = {name: np.zeros(size, np.uint8) for name, size in sizes.items()}
        owners[inner][: p.table_bytes] += 1
        for home in p.homes:
            if home.first <= step.index <= home.last:
                owners[home.level][home.offset : home.offset + home.bytes] += 1
        for o in step.operands:
            owners[inner][o.slot_offset : o.slot_offset + o.slots * o.slot_bytes] += 1
        if any((x > 1).any() for x in owners.values()):
            return True
    return False


@pytest.mark.slow
@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_overlap_is_what_painting_bytes_shows(data: st.DataObject) -> None:
    """Any one buffer anywhere: refused for overlap exactly where two live buffers share a byte, however many are
    compared at a time.
    """
    tiling, plan = small_plan()
    compared = data.draw(st.sampled_from([1, 3, judge.COMPARED]))
    offset = 4 * data.draw(st.integers(0, 1 << 10))
    if data.draw(st.booleans()):
        storage = data.draw(st.sampled_from([h.storage for h in plan.homes]))
        changed = in_home(plan, storage, offset=lambda h: offset)
    else:
        slots = [o for s in plan.steps for o in s.operands if o.slots]
        chosen_slot = data.draw(st.sampled_from(range(len(slots))))
        changed = in_operand(plan, lambda s, o: o is slots[chosen_slot], slot_offset=lambda o: offset)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(judge, "COMPARED", compared)
            verify_plan(changed, tiling)
        rule = ""
    except VerifyFailed as error:
        rule = error.rule
    assert rule in ("", "budget", "overlap")
    assert (rule == "overlap") == bytes_collide(changed)
