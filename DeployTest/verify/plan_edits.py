"""A small training program with its tiling and plan, and edits that break them in one place."""

import itertools
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deployer import pipeline
from deployer.core.access import order_dims
from deployer.core.errors import VerifyFailed
from deployer.core.ir import Program
from deployer.core.level import LevelUse
from deployer.core.plan import Buffering, Options, Plan, PlanOperand, PlanStep, Step, StepTiling, Tiling
from deployer.planning import lifetimes, schedule
from DeployTest.support.graphs.small_graphs import BOOL, Case, Model, constant, node, value

L1 = 3000
L_INNER = ("b1", "y")
TILES: dict[str, tuple[Buffering, dict[str, int]]] = {
    "fc1": ("single", {"k": 6}),
    "relu": ("double", {"n": 50}),
    "fc2": ("double", {"n": 5}),
    "loss": ("single", {"n": 60}),
    "dloss": ("double", {"n": 32}),
    "dw2": ("double", {"m": 4, "n": 8}),
    "sum2": ("double", {"n": 48}),
    "da": ("double", {"k": 6}),
    "dh": ("single", {"n": 64}),
    "dw1": ("single", {"m": 8}),
    "sum1": ("double", {"n": 48}),
    "square": ("double", {"n3": 48}),
    "sgd1": ("double", {"n": 64}),
    "mix": ("single", {"n3": 64}),
    "sgd2": ("double", {"n": 64}),
}
"""The small program's tiling, fixed by hand so that it has every feature whatever the tiler would choose: resident
tensors, single and double steps, border tiles, split reductions under both; steps not listed are one tile."""

BATCH, WIDTH = 8, 16
SQUARE, ROWS = (WIDTH, WIDTH), (BATCH, WIDTH)
G1, G2, GB = (f"{weight}_grad.accumulation.buffer" for weight in ("w1", "w2", "b1"))


def accumulate(name: str, buffer: str, gradient: str) -> onnx.NodeProto:
    """The node that adds a gradient to its buffer."""
    inputs = (buffer, gradient, "lazy")
    return node("InPlaceAccumulatorV2", inputs, (f"{name}_out",), name, domain="com.microsoft")


TRAIN = Model(
    nodes=(
        node("Gemm", ("x", "w1", "b1"), ("h",), "fc1", transB=1),
        node("Relu", ("h",), ("a",), "relu"),
        node("Gemm", ("a", "w2"), ("y",), "fc2", transB=1),
        node("MSELoss", ("y", "t"), ("loss",), "loss"),
        node("MSELossGrad", ("y", "t"), ("dy",), "dloss", domain="com.microsoft"),
        node("Gemm", ("dy", "a"), ("dw2",), "dw2", transA=1),
        accumulate("sum2", G2, "dw2"),
        node("Gemm", ("dy", "w2"), ("da",), "da"),
        node("ReluGrad", ("da", "a"), ("dh",), "dh", domain="com.microsoft"),
        node("Gemm", ("dh", "x"), ("dw1",), "dw1", transA=1),
        accumulate("sum1", G1, "dw1"),
        node("ReduceSum", ("dh", "axes"), ("db1",), "db1", keepdims=0),
        accumulate("sum_b", GB, "db1"),
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
    outputs=(value("loss", ()), *(value(name, (1,), BOOL) for name in ("sum1_out", "sum_b_out", "sum2_out"))),
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


@cache
def small_plan() -> tuple[Tiling, Plan]:
    """The small program, tiled as above and placed."""
    with tempfile.TemporaryDirectory() as folder:
        program = Case(TRAIN, OPTIMIZER).program(Path(folder))
    alive = lifetimes.find_lifetimes(schedule.make_schedule(program, Options(budgets={"L1": L1}, accumulate=2)))
    steps = alive.schedule.steps
    tables = sum(s.kernel.table_bytes(4) for s in steps)
    tiling = Tiling(alive, L_INNER, (), tuple(_choice(program, s) for s in steps), tables, (0, 0))
    return tiling, pipeline.place_tiling(tiling)


def _choice(program: Program, step: Step) -> StepTiling:
    buffering, lengths = TILES.get(step.name, ("single", {}))
    slots = {}
    for o in step.access.operands:
        double = buffering == "double" and any(d in lengths for d in o.dims)
        slots[o.arg] = 0 if program.storage(o.tensor) in L_INNER else 1 + double
    return StepTiling(step.name, step.access.sizes | lengths, order_dims(step.access), buffering, slots)


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
    tilings = tuple(choices[s.name] for s in steps)
    return replace(t, lifetimes=replace(t.lifetimes, schedule=planned), steps=tilings)


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
    operands = tuple(o for o in access.operands if o.arg != arg)
    return edited(t, name, access=replace(access, operands=operands))


def life(t: Tiling, storage: str, /, **changes: Any) -> Tiling:
    """The tiling with a lifetime changed; every change may look at the old lifetime."""
    old = t.lifetimes.of(storage)
    new = replace(old, **{k: v(old) if callable(v) else v for k, v in changes.items()})
    storages = tuple(new if x is old else x for x in t.lifetimes.storages)
    return replace(t, lifetimes=replace(t.lifetimes, storages=storages))


def without_life(t: Tiling, storage: str) -> Tiling:
    """The tiling with a lifetime missing."""
    storages = tuple(x for x in t.lifetimes.storages if x.storage != storage)
    return replace(t, lifetimes=replace(t.lifetimes, storages=storages))


Wanted = Callable[[StepTiling], bool]


def pick(t: Tiling, predicate: Wanted) -> StepTiling:
    """The first choice with a property."""
    return next(c for c in t.steps if predicate(c))


def in_choice(t: Tiling, predicate: Wanted, /, **changes: Any) -> Tiling:
    """The tiling with the first choice that has a property changed; every change is a function of the old choice."""
    old = pick(t, predicate)
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


# Edits of a plan


def in_step(p: Plan, name: str, /, **changes: Any) -> Plan:
    """The plan with a step changed; every change is a function of the old step."""
    steps = tuple(replace(s, **{k: v(s) for k, v in changes.items()}) if s.name == name else s for s in p.steps)
    return replace(p, steps=steps)


def kernels_alone(p: Plan, name: str) -> Plan:
    """The plan in which a step takes the cycles of its kernels and waits, and none for its argument table."""

    def cycles(s: PlanStep) -> int:
        return sum((*s.tile_cycles, *s.timeline.ingress_wait, *s.timeline.egress_wait))

    return in_step(p, name, cycles=cycles)


Which = Callable[[PlanStep, PlanOperand], bool]


def in_operand(p: Plan, which: Which, /, **changes: Any) -> Plan:
    """The plan with the first operand that has a property changed; every change is a function of the old operand."""
    step, old = operand_of(p, which)
    new = replace(old, **{k: v(old) for k, v in changes.items()})
    operands = tuple(new if o is old else o for o in step.operands)
    return in_step(p, step.name, operands=lambda s: operands)


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
    homes = sorted((h for h in p.homes if h.persistent and h.level == "L2"), key=lambda h: h.offset)
    below = next(a for a, b in itertools.pairwise(homes) if a.offset + a.bytes == b.offset)
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


def is_in_double(s: PlanStep, o: PlanOperand) -> bool:
    """An operand with two slots."""
    return s.buffering == "double" and o.slots == 2
