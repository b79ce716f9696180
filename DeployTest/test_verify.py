"""The judges of tilings and plans: sound artefacts pass, each broken one is refused under the rule it breaks."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import BOOL, Case, Model, chain, constant, infer, node, value

from deployer import artefact, pipeline
from deployer.access import Access, At, Axis, Broadcast, Dim, Operand, Whole, Window, box_shape, order_dims, transfer
from deployer.errors import VerifyFailed
from deployer.ir import Program
from deployer.operator import Const, registry
from deployer.plan import LevelUse, Options, Plan, PlanOperand, PlanStep, Step, StepTiling, Tiling, Timeline
from deployer.stages import generate, lifetimes, schedule, tile
from deployer.verify import verify_plan, verify_tiling
from deployer.verify_tiling import axes_once, marked_once, strided_levels

pytestmark = [pytest.mark.host, pytest.mark.training]

L1 = 2300
"""Budget under which the small program has resident tensors, single and double steps, and a split reduction."""

BATCH, WIDTH = 8, 16
SQUARE, ROWS = (WIDTH, WIDTH), (BATCH, WIDTH)
G1, G2, GB = (f"{weight}_grad.accumulation.buffer" for weight in ("w1", "w2", "b1"))


def accumulate(buffer: str, gradient: str, out: str) -> onnx.NodeProto:
    """The node that adds a gradient to its buffer."""
    return node("InPlaceAccumulatorV2", (buffer, gradient, "lazy"), (out,), domain="com.microsoft")


TRAIN = Model(
    nodes=(
        node("Gemm", ("x", "w1", "b1"), ("h",), "fc1", transB=1),
        node("Relu", ("h",), ("a",), "relu"),
        node("Gemm", ("a", "w2"), ("y",), "fc2", transB=1),
        node("MSELoss", ("y", "t"), ("loss",), "loss"),
        node("MSELossGrad", ("y", "t"), ("dy",), "dloss", domain="com.microsoft"),
        node("Gemm", ("dy", "a"), ("dw2",), "dw2", transA=1),
        accumulate(G2, "dw2", "g2_out"),
        node("Gemm", ("dy", "w2"), ("da",), "da"),
        node("ReluGrad", ("da", "a"), ("dh",), "dh", domain="com.microsoft"),
        node("Gemm", ("dh", "x"), ("dw1",), "dw1", transA=1),
        accumulate(G1, "dw1", "g1_out"),
        node("ReduceSum", ("dh", "axes"), ("db1",), "db1", keepdims=0),
        accumulate(GB, "db1", "gb_out"),
    ),
    inputs=(
        value("x", ROWS),
        value("t", ROWS),
        value("w1", SQUARE),
        value("b1", (WIDTH,)),
        value("w2", SQUARE),
        *(value(name, shape) for name, shape in ((G1, SQUARE), (GB, (WIDTH,)), (G2, SQUARE))),
        value("lazy", (1,), BOOL),
    ),
    outputs=(value("loss", ()), *(value(name, (1,), BOOL) for name in ("g1_out", "gb_out", "g2_out"))),
    initializers=(constant("axes", np.array([0], np.int64)),),
)
OPTIMIZER = Model(
    nodes=(
        node("Mul", ("w1", "w1"), ("square",), "square"),
        node("Add", ("square", G2), ("mixed",), "mix"),
        node("SGD", ("w1", G1), ("w1_new",), "sgd1", lr=0.5),
        node("SGD", ("b1", GB), ("b1_new",), "sgd_b", lr=0.5),
        node("SGD", ("w2", "mixed"), ("w2_new",), "sgd2", lr=0.5),
    ),
    inputs=tuple(v for v in TRAIN.inputs if v.name not in ("x", "t", "lazy")),
    outputs=(value("w1_new", SQUARE), value("b1_new", (WIDTH,)), value("w2_new", SQUARE)),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tiling, Plan]:
    """The small program, tiled and placed."""
    program = Case(TRAIN, OPTIMIZER).program(tmp_path_factory.mktemp("mlp"))
    return pipeline.plan_program(program, Options(budgets={"L1": L1}, accumulate=2))


@pytest.fixture(scope="module")
def tiling(made: tuple[Tiling, Plan]) -> Tiling:
    """Its tiling."""
    return made[0]


@pytest.fixture(scope="module")
def plan(made: tuple[Tiling, Plan]) -> Plan:
    """Its plan."""
    return made[1]


def refused(rule: str, check: Callable[[], None]) -> None:
    """The check fails under that rule, and says so first."""
    with pytest.raises(VerifyFailed) as caught:
        check()
    assert caught.value.rule == rule, str(caught.value)
    assert str(caught.value).startswith(f"VerifyFailed: [{rule}]")


# Edits of a tiling


def with_steps(t: Tiling, steps: list[Step], renumber: bool = True) -> Tiling:
    """The tiling with other steps, and those choices of it that belong to them."""
    steps = [replace(s, index=i) for i, s in enumerate(steps)] if renumber else steps
    planned = replace(t.lifetimes.schedule, steps=tuple(steps))
    choices = {c.step: c for c in t.steps}
    chosen = tuple(choices[s.name] for s in steps)
    return replace(t, lifetimes=replace(t.lifetimes, schedule=planned), steps=chosen)


def moved(t: Tiling, name: str, before: str) -> Tiling:
    """The tiling with one step put before another."""
    steps = list(t.lifetimes.schedule.steps)
    step = next(s for s in steps if s.name == name)
    steps.remove(step)
    steps.insert(next(i for i, s in enumerate(steps) if s.name == before), step)
    return with_steps(t, steps)


def without(t: Tiling, name: str) -> Tiling:
    """The tiling without a step."""
    return with_steps(t, [s for s in t.lifetimes.schedule.steps if s.name != name])


def edited(t: Tiling, name: str, /, **changes: Any) -> Tiling:
    """The tiling with one scheduled step changed."""
    steps = [replace(s, **changes) if s.name == name else s for s in t.lifetimes.schedule.steps]
    return with_steps(t, steps, renumber=False)


def without_operand(t: Tiling, name: str, arg: str) -> Tiling:
    """The tiling with an operand missing from a step's access."""
    access = next(s.access for s in t.lifetimes.schedule.steps if s.name == name)
    kept = tuple(o for o in access.operands if o.arg != arg)
    return edited(t, name, access=replace(access, operands=kept))


def life(t: Tiling, storage: str, /, **changes: Any) -> Tiling:
    """The tiling with a lifetime changed; every change may look at the old lifetime."""
    old = t.lifetimes.of(storage)
    new = replace(old, **{k: v(old) if callable(v) else v for k, v in changes.items()})
    storages = tuple(new if x is old else x for x in t.lifetimes.storages)
    return replace(t, lifetimes=replace(t.lifetimes, storages=storages))


def without_life(t: Tiling, storage: str) -> Tiling:
    """The tiling with a lifetime missing."""
    kept = tuple(x for x in t.lifetimes.storages if x.storage != storage)
    return replace(t, lifetimes=replace(t.lifetimes, storages=kept))


Wanted = Callable[[StepTiling], bool]


def pick(t: Tiling, wanted: Wanted) -> StepTiling:
    """The first choice with a property."""
    return next(c for c in t.steps if wanted(c))


def chosen(t: Tiling, wanted: Wanted, /, **changes: Any) -> Tiling:
    """The tiling with the first choice that has a property changed; every change is a function of the old choice."""
    old = pick(t, wanted)
    new = replace(old, **{k: v(old) for k, v in changes.items()})
    return replace(t, steps=tuple(new if c is old else c for c in t.steps))


def is_step(name: str) -> Wanted:
    """The choice for a step."""
    return lambda c: c.step == name


def is_double(c: StepTiling) -> bool:
    """Two slots somewhere."""
    return c.buffering == "double"


def is_single(c: StepTiling) -> bool:
    """One slot somewhere, and nothing resident."""
    return c.buffering == "single" and set(c.slots.values()) == {1}


def slot(count: int, old: int) -> Callable[[StepTiling], dict[str, int]]:
    """The first operand with `old` slots gets `count`."""

    def change(c: StepTiling) -> dict[str, int]:
        arg = next(a for a, n in c.slots.items() if n == old)
        return c.slots | {arg: count}

    return change


def tile_of(**lengths: int) -> Callable[[StepTiling], dict[str, int]]:
    """Other tile lengths."""
    return lambda c: c.tile | lengths


BROKEN_TILINGS: dict[str, tuple[str, Callable[[Tiling], Tiling]]] = {
    "consumer before producer": ("schedule", lambda t: moved(t, "relu", "fc1")),
    "backward before forward": ("schedule", lambda t: moved(t, "dw1", "fc2")),
    "overwritten before read": ("schedule", lambda t: moved(t, "sgd1", "square")),
    "optimizer before training": ("schedule", lambda t: moved(t, "sgd1", "fc1")),
    "gradient cut": ("schedule", lambda t: without(t, "dw1")),
    "accumulation cut": ("schedule", lambda t: without(t, "InPlaceAccumulatorV2_" + "g1_out")),
    "step twice": ("schedule", lambda t: with_steps(t, [*t.lifetimes.schedule.steps[:1], *t.lifetimes.schedule.steps])),
    "index": ("schedule", lambda t: edited(t, "relu", index=7)),
    "graph": ("schedule", lambda t: edited(t, "relu", graph="optimizer")),
    "another kernel": ("schedule", lambda t: edited(t, "relu", kernel=t.lifetimes.schedule.steps[0].kernel)),
    "argument": ("schedule", lambda t: edited(t, "sgd1", args={"n": Const(3), "lr": Const(0.5)})),
    "ingress cut": ("schedule", lambda t: without_operand(t, "fc1", "c")),
    "egress cut": ("schedule", lambda t: without_operand(t, "relu", "y")),
    "choices out of order": ("schedule", lambda t: replace(t, steps=t.steps[::-1])),
    "dies early": ("lifetime", lambda t: life(t, "a", last=lambda x: x.last - 1)),
    "born late": ("lifetime", lambda t: life(t, "a", first=lambda x: x.first + 1)),
    "sample loaded late": ("lifetime", lambda t: life(t, "t", first=lambda x: 1)),
    "sample not loaded": ("lifetime", lambda t: life(t, "t", loaded=False)),
    "weight dies": ("lifetime", lambda t: life(t, "w1", last=lambda x: x.last - 1)),
    "accumulator not kept": ("lifetime", lambda t: life(t, G1, persistent=False)),
    "loss gone before the harness reads it": ("lifetime", lambda t: life(t, "loss", last=lambda x: x.last - 1)),
    "value kept": ("lifetime", lambda t: life(t, "h", persistent=True)),
    "lives on after the end": ("lifetime", lambda t: life(t, "h", last=lambda x: 99)),
    "too small": ("lifetime", lambda t: life(t, "h", bytes=lambda x: x.bytes - 4)),
    "no lifetime": ("lifetime", lambda t: without_life(t, "dh")),
    "unknown resident": ("lifetime", lambda t: replace(t, resident=(*t.resident, "nothing"))),
    "tile too large": ("tile", lambda t: chosen(t, is_step("fc1"), tile=tile_of(n=WIDTH + 1))),
    "tile of nothing": ("tile", lambda t: chosen(t, is_step("fc1"), tile=tile_of(n=0))),
    "unknown dim": ("tile", lambda t: chosen(t, is_step("fc1"), tile=tile_of(q=1))),
    "dim missing": ("tile", lambda t: chosen(t, is_step("fc1"), tile=lambda c: {"n": 4})),
    "dim twice in the order": ("tile", lambda t: chosen(t, is_step("fc1"), order=lambda c: (*c.order[:-1], "m"))),
    "reduction outside": ("tile", lambda t: chosen(t, is_step("fc1"), order=lambda c: c.order[::-1])),
    "slots without residency": ("slots", lambda t: chosen(t, is_single, slots=slot(0, 1))),
    "resident with slot": ("slots", lambda t: chosen(t, lambda c: 0 in c.slots.values(), slots=slot(1, 0))),
    "residency dropped": ("slots", lambda t: replace(t, resident=t.resident[1:])),
    "two slots, single": ("slots", lambda t: chosen(t, is_single, slots=slot(2, 1))),
    "single step with two slots": ("slots", lambda t: chosen(t, is_double, buffering=lambda c: "single")),
    "one slot under a moving box": ("slots", lambda t: chosen(t, is_double, slots=slot(1, 2))),
    "three slots": ("slots", lambda t: chosen(t, is_double, slots=slot(3, 2))),
    "operand without slots": ("slots", lambda t: chosen(t, is_double, slots=lambda c: {})),
    "too few tables": ("table", lambda t: replace(t, table_bytes=t.table_bytes - 4)),
    "table misaligned": ("table", lambda t: replace(t, table_bytes=t.table_bytes + 2)),
}


def test_sound_tiling_passes(tiling: Tiling) -> None:
    verify_tiling(tiling)
    assert tiling.resident
    assert {c.buffering for c in tiling.steps} == {"single", "double"}
    split = {d for s, c in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True) for d in _split(s, c)}
    assert "reduction" in split, "the small program should split a reduction"


def _split(step: Step, choice: StepTiling) -> set[str]:
    return {d.kind for d in step.access.dims if choice.tile[d.name] < d.size}


@pytest.mark.parametrize("fault", BROKEN_TILINGS)
def test_broken_tiling_is_refused(tiling: Tiling, fault: str) -> None:
    rule, change = BROKEN_TILINGS[fault]
    refused(rule, lambda: verify_tiling(change(tiling)))


def test_resident_step_is_one_tile(tiling: Tiling) -> None:
    """All operands at home and yet two tiles: nothing would move, so nothing is gained."""
    step = next(s for s in tiling.lifetimes.schedule.steps if s.name == "relu")
    program = tiling.lifetimes.schedule.program
    home = {program.storage(o.tensor) for o in step.access.operands}
    changed = replace(tiling, resident=tuple(sorted({*tiling.resident, *home})))
    steps = []
    for s, c in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        at_home = {o.arg for o in s.access.operands if program.storage(o.tensor) in home}
        steps.append(replace(c, slots=c.slots | dict.fromkeys(at_home, 0)))
        if s.name == "relu":
            steps[-1] = replace(steps[-1], buffering="single", tile={"n": 5})
    refused("slots", lambda: verify_tiling(replace(changed, steps=tuple(steps))))


def tiled(program: Program, lengths: dict[str, int]) -> Tiling:
    """An inference program of one step, tiled by hand with one slot per operand."""
    alive = lifetimes.run(schedule.run(program, Options()))
    (step,) = alive.schedule.steps
    slots = dict.fromkeys((o.arg for o in step.access.operands), 1)
    choice = StepTiling(step.name, step.access.sizes | lengths, order_dims(step.access), "single", slots)
    return Tiling(alive, (), (choice,), 1 << 10, 0)


REDUCE = chain(
    node("ReduceSum", ("x", "axes"), ("y",), keepdims=0),
    x=(4, 3, 5),
    initializers=(constant("axes", np.array([0, 2], np.int64)),),
)


def test_only_the_outermost_reduction_is_split(tmp_path: Path) -> None:
    program = infer(tmp_path, REDUCE)
    dims = {d.size: d.name for d in tiled(program, {}).lifetimes.schedule.steps[0].access.dims}
    verify_tiling(tiled(program, {dims[4]: 2, dims[3]: 2}))
    refused("tile", lambda: verify_tiling(tiled(program, {dims[5]: 2})))


def test_boxes_the_dma_cannot_describe_are_refused(tmp_path: Path) -> None:
    program = infer(tmp_path, chain(node("Transpose", ("x",), ("y",)), x=(2, 3, 4, 5)))
    verify_tiling(tiled(program, {}))
    refused("tile", lambda: verify_tiling(tiled(program, {"n0": 4, "n1": 3, "n2": 2, "n3": 1})))
    refused("tile", lambda: verify_tiling(tiled(program, {"n0": 3, "n1": 3, "n2": 2})))


# Operators that declare their access wrongly

WRONG_ACCESS: dict[str, Callable[[Access], Access]] = {
    "output that no tile moves along": lambda a: _axes(a, Broadcast(), Broadcast()),
    "output repeated by every tile": lambda a: _axes(a, At("n"), Whole()),
    "output written in overlapping windows": lambda a: _axes(a, At("n"), Window("n", 2)),
    "output with a gap": lambda a: replace(a, dims=(Dim("n", 36),)),
    "box outside": lambda a: replace(a, dims=(Dim("n", 38),)),
    "view of another size": lambda a: replace(a, operands=tuple(replace(o, view=(36,)) for o in a.operands)),
}


def _axes(access: Access, read: Axis, written: Axis) -> Access:
    x, y = access.operands
    return replace(access, operands=(replace(x, axes=(read,)), replace(y, axes=(written,))))


@pytest.mark.parametrize("fault", WRONG_ACCESS)
def test_wrong_access_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """A fault in an operator's own declaration reaches every stage alike; only the cover of its output shows it."""
    program = infer(tmp_path, chain(node("Relu", ("x",), ("y",)), x=(37,)))
    verify_tiling(tiled(program, {"n": 10}))
    relu = registry()["Relu"]
    declared = type(relu).access
    wrong = WRONG_ACCESS[fault]
    monkeypatch.setattr(type(relu), "access", lambda self, node, types: wrong(declared(self, node, types)))
    refused("cover", lambda: verify_tiling(tiled(program, {"n": 10})))


@st.composite
def covers(draw: st.DrawFn) -> tuple[Operand, Access, StepTiling]:
    """An output under a tiling that keeps the rules of tiles, but whose maps may be wrong."""
    kinds = draw(st.lists(st.sampled_from(("parallel", "reduction")), min_size=1, max_size=3))
    kinds.sort()
    dims = [Dim(f"d{i}", draw(st.integers(1, 6)), k) for i, k in enumerate(kinds)]  # type: ignore[arg-type]
    first = next((d.name for d in dims if d.kind == "reduction"), "")
    lengths = {
        d.name: draw(st.integers(1, d.size)) if d.kind == "parallel" or d.name == first else d.size for d in dims
    }
    axes: list[Axis] = []
    view: list[int] = []
    for d in draw(st.permutations(dims)):
        form = draw(st.sampled_from(("at", "at", "at", "window", "broadcast", "none")))
        if form == "at":
            axes.append(At(d.name))
            view.append(draw(st.sampled_from((d.size, d.size, d.size + 1))))
        elif form == "window":
            stride = draw(st.integers(1, 2))
            axes.append(Window(d.name, draw(st.integers(1, 2)), stride))
            view.append(d.size * stride)
        elif form == "broadcast":
            axes.append(draw(st.sampled_from((Broadcast(), Whole()))))
            view.append(1)
    operand = Operand("y", "y", "out", tuple(view), tuple(axes))
    access = Access(tuple(dims), (operand,))
    choice = StepTiling("s", lengths, order_dims(access), "single", {"y": 1})
    return operand, access, choice


@given(covers())
@settings(deadline=None, max_examples=300)
def test_marking_and_axes_agree(case: tuple[Operand, Access, StepTiling]) -> None:
    assert marked_once(*case) == axes_once(*case)


@given(covers())
@settings(deadline=None)
def test_strided_levels_are_those_of_the_transfer(case: tuple[Operand, Access, StepTiling]) -> None:
    operand, access, choice = case
    box = box_shape(operand, access, choice.tile)
    assert strided_levels(operand, access, choice) == len(transfer(operand.view, box).levels)


# Edits of a plan


def in_step(p: Plan, name: str, /, **changes: Any) -> Plan:
    """The plan with a step changed; every change is a function of the old step."""
    steps = tuple(replace(s, **{k: v(s) for k, v in changes.items()}) if s.name == name else s for s in p.steps)
    return replace(p, steps=steps)


Which = Callable[[PlanStep, PlanOperand], bool]


def in_operand(p: Plan, which: Which, /, **changes: Any) -> Plan:
    """The plan with the first operand that has a property changed; every change is a function of the old operand."""
    step, old = operand_of(p, which)
    new = replace(old, **{k: v(old) for k, v in changes.items()})
    kept = tuple(new if o is old else o for o in step.operands)
    return in_step(p, step.name, operands=lambda s: kept)


def operand_of(p: Plan, which: Which) -> tuple[PlanStep, PlanOperand]:
    """The first operand with a property, and its step."""
    return next((s, o) for s in p.steps for o in s.operands if which(s, o))


def reads(_: PlanStep, o: PlanOperand) -> bool:
    """An input that comes through slots."""
    return o.mode == "in" and o.slots > 0


def writes(_: PlanStep, o: PlanOperand) -> bool:
    """An output that leaves through slots."""
    return o.mode == "out" and o.slots > 0


def resident(_: PlanStep, o: PlanOperand) -> bool:
    """An operand at home."""
    return o.slots == 0


def without_pointer(p: Plan, which: Which) -> Plan:
    """The plan with an operand missing."""
    step, old = operand_of(p, which)
    return in_step(p, step.name, operands=lambda s: tuple(o for o in s.operands if o is not old))


def in_home(p: Plan, storage: str, /, **changes: Any) -> Plan:
    """The plan with a home changed; every change is a function of the old home."""
    return replace(
        p,
        homes=tuple(
            replace(h, **{k: v(h) for k, v in changes.items()}) if h.storage == storage else h for h in p.homes
        ),
    )


def without_home(p: Plan, storage: str) -> Plan:
    """The plan with a home missing."""
    return replace(p, homes=tuple(h for h in p.homes if h.storage != storage))


def in_level(p: Plan, index: int, change: Callable[[LevelUse], LevelUse]) -> Plan:
    """The plan with a level's figures changed."""
    levels = list(p.levels)
    levels[index] = change(levels[index])
    return replace(p, levels=tuple(levels))


def at_home(p: Plan, level: int) -> str:
    """The storage whose home is the highest of a level."""
    return max((h for h in p.homes if h.level == p.levels[level].name), key=lambda h: h.offset + h.bytes).storage


def onto_neighbour(p: Plan) -> Plan:
    """Two persistent homes at one place."""
    weight = p.home("w2").offset
    return in_home(p, "w1", offset=lambda h: weight)


def shifted(p: Plan) -> Plan:
    """A home moved by one float into the persistent one that follows."""
    kept = sorted((h for h in p.homes if h.persistent and h.level == "L2"), key=lambda h: h.offset)
    below = next(a for a, b in itertools.pairwise(kept) if a.offset + a.bytes == b.offset)
    return in_home(p, below.storage, offset=lambda h: h.offset + 4)


def slot_on_slot(p: Plan) -> Plan:
    """Two slots of one step at one place."""
    step, one = operand_of(p, reads)
    other = next(o for o in step.operands if o is not one and o.slots)
    return in_operand(p, lambda s, o: o is one, slot_offset=lambda o: other.slot_offset)


def slot_on_home(p: Plan) -> Plan:
    """A slot on a resident tensor that is live in its step."""
    step, one = operand_of(p, lambda s, o: o.slots > 0 and any(x.slots == 0 for x in s.operands))
    home = p.home(next(x.storage for x in step.operands if x.slots == 0))
    return in_operand(p, lambda s, o: o is one, slot_offset=lambda o: home.offset)


def beyond(p: Plan) -> Plan:
    """A home put above the budget, with a peak that admits it."""
    top = p.levels[1].budget
    return in_level(in_home(p, "w1", offset=lambda h: top), 1, lambda u: replace(u, peak=top + p.home("w1").bytes))


def whole_dims(s: PlanStep) -> tuple[Any, ...]:
    """The step's dims in one tile."""
    return tuple(replace(d, tile=d.size) for d in s.dims)


def is_split(p: Plan) -> str:
    """A step of several tiles."""
    return next(s.name for s in p.steps if s.tiles > 1)


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


def is_in_double(s: PlanStep, o: PlanOperand) -> bool:
    """An operand with two slots."""
    return s.buffering == "double" and o.slots == 2


def test_sound_plan_passes(tiling: Tiling, plan: Plan) -> None:
    verify_plan(plan, tiling)
    assert {h.level for h in plan.homes} == {"L1", "L2"}


@pytest.mark.parametrize("fault", BROKEN_PLANS)
def test_broken_plan_is_refused(tiling: Tiling, plan: Plan, fault: str) -> None:
    rule, change = BROKEN_PLANS[fault]
    refused(rule, lambda: verify_plan(change(plan), tiling))


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


@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_overlap_is_what_painting_bytes_shows(made: tuple[Tiling, Plan], data: st.DataObject) -> None:
    """Any one buffer anywhere: refused for overlap exactly where two live buffers share a byte."""
    tiling, plan = made
    offset = 4 * data.draw(st.integers(0, 1 << 10))
    if data.draw(st.booleans()):
        storage = data.draw(st.sampled_from([h.storage for h in plan.homes]))
        changed = in_home(plan, storage, offset=lambda h: offset)
    else:
        slots = [o for s in plan.steps for o in s.operands if o.slots]
        chosen_slot = data.draw(st.sampled_from(range(len(slots))))
        changed = in_operand(plan, lambda s, o: o is slots[chosen_slot], slot_offset=lambda o: offset)
    try:
        verify_plan(changed, tiling)
        found = ""
    except VerifyFailed as error:
        found = error.rule
    assert found in ("", "budget", "overlap")
    assert (found == "overlap") == bytes_collide(changed)


# Artefacts on disk


def test_round_trip(tiling: Tiling, plan: Plan, tmp_path: Path) -> None:
    for made_object in (tiling, plan):
        path = tmp_path / "artefact.json"
        path.write_text(artefact.dumps(made_object))
        loaded: Any = artefact.load(type(made_object), path)
        assert loaded == made_object
        assert artefact.dumps(loaded) == path.read_text()


def test_hand_edited_tile_re_enters(tiling: Tiling, tmp_path: Path) -> None:
    """A tile halved in tiling.json gives the C of a run that chose it; the plan of before is no longer its plan."""
    path = tmp_path / "tiling.json"
    choice = pick(tiling, lambda c: is_single(c) and max(c.tile.values()) > 1)
    name = max(choice.tile, key=lambda n: choice.tile[n])
    half = choice.tile[name] // 2
    envelope = json.loads(artefact.dumps(tiling))
    envelope["body"]["steps"][tiling.steps.index(choice)]["tile"][name] = half
    path.write_text(json.dumps(envelope))
    edited_tiling = pipeline.tiling_from(path)
    chosen_tiling = chosen(tiling, lambda c: c is choice, tile=tile_of(**{name: half}))
    assert edited_tiling == chosen_tiling
    new = pipeline.place_tiling(edited_tiling)
    step = next(s for s in new.steps if s.name == choice.step)
    assert {d.name: d.tile for d in step.dims}[name] == half
    assert generate.run(new) == generate.run(pipeline.place_tiling(chosen_tiling))
    refused("digest", lambda: verify_plan(new, tiling))


def test_hand_edited_nonsense_is_refused(tiling: Tiling, tmp_path: Path) -> None:
    path = tmp_path / "tiling.json"
    envelope = json.loads(artefact.dumps(tiling))
    envelope["body"]["steps"][0]["tile"]["n"] = 1 << 20
    path.write_text(json.dumps(envelope))
    refused("tile", lambda: pipeline.place_tiling(pipeline.tiling_from(path)) and None)


def test_same_input_same_bytes(tiling: Tiling) -> None:
    again = tile.run(tiling.lifetimes, tiling.gap)
    assert artefact.dumps(again) == artefact.dumps(tiling)
