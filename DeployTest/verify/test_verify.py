"""The judge of tilings, and artefacts on disk: sound ones pass, broken ones are refused by the rule they break."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployer import pipeline
from deployer.codegen import generate
from deployer.core import artefact
from deployer.core.access import (
    Access,
    At,
    Axis,
    Broadcast,
    Dim,
    Mirror,
    Operand,
    Whole,
    Window,
    box_shape,
    order_dims,
    transfer,
)
from deployer.core.errors import VerifyFailed
from deployer.core.ir import Program
from deployer.core.kernel import Const
from deployer.core.operator import registry
from deployer.core.plan import Options, Plan, Step, StepTiling, Tiling
from deployer.planning import lifetimes, place, schedule, tile
from deployer.testing.bench import lawful
from deployer.verify.boxes import axes_once, marked_once, strided_levels
from deployer.verify.plan import verify_plan
from deployer.verify.tiling import verify_tiling
from DeployTest.support.graphs.small_graphs import Case, chain, constant, infer, node
from DeployTest.verify.plan_edits import (
    G1,
    L1,
    OPTIMIZER,
    TRAIN,
    WIDTH,
    edited,
    in_choice,
    is_double,
    is_single,
    is_step,
    life,
    moved,
    pick,
    refused,
    slot,
    small_plan,
    tile_of,
    with_steps,
    without,
    without_life,
    without_operand,
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


BROKEN_TILINGS: dict[str, tuple[str, Callable[[Tiling], Tiling]]] = {
    "consumer before producer": ("schedule", lambda t: moved(t, "relu", "fc1")),
    "backward before forward": ("schedule", lambda t: moved(t, "dw1", "fc2")),
    "overwritten before read": ("schedule", lambda t: moved(t, "sgd1", "square")),
    "optimizer before training": ("schedule", lambda t: moved(t, "sgd1", "fc1")),
    "gradient cut": ("schedule", lambda t: without(t, "dw1")),
    "accumulation cut": ("schedule", lambda t: without(t, "sum1")),
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
    "a gap too many": ("tile", lambda t: replace(t, packing_slack=(*t.packing_slack, 0))),
    "a gap too few": ("tile", lambda t: replace(t, packing_slack=t.packing_slack[1:])),
    "a gap below 0": ("tile", lambda t: replace(t, packing_slack=(-4, *t.packing_slack[1:]))),
    "unknown resident": ("lifetime", lambda t: replace(t, resident=(*t.resident, "nothing"))),
    "tile too large": ("tile", lambda t: in_choice(t, is_step("fc1"), tile=tile_of(n=WIDTH + 1))),
    "tile of nothing": ("tile", lambda t: in_choice(t, is_step("fc1"), tile=tile_of(n=0))),
    "unknown dim": ("tile", lambda t: in_choice(t, is_step("fc1"), tile=tile_of(q=1))),
    "dim missing": ("tile", lambda t: in_choice(t, is_step("fc1"), tile=lambda c: {"n": 4})),
    "dim twice in the order": ("tile", lambda t: in_choice(t, is_step("fc1"), order=lambda c: (*c.order[:-1], "m"))),
    "reduction outside": ("tile", lambda t: in_choice(t, is_step("fc1"), order=lambda c: c.order[::-1])),
    "slots without residency": ("slots", lambda t: in_choice(t, is_single, slots=slot(0, 1))),
    "resident with slot": ("slots", lambda t: in_choice(t, lambda c: 0 in c.slots.values(), slots=slot(1, 0))),
    "residency dropped": ("slots", lambda t: replace(t, resident=t.resident[1:])),
    "two slots, single": ("slots", lambda t: in_choice(t, is_single, slots=slot(2, 1))),
    "single step with two slots": ("slots", lambda t: in_choice(t, is_double, buffering=lambda c: "single")),
    "one slot under a moving box": ("slots", lambda t: in_choice(t, is_double, slots=slot(1, 2))),
    "three slots": ("slots", lambda t: in_choice(t, is_double, slots=slot(3, 2))),
    "operand without slots": ("slots", lambda t: in_choice(t, is_double, slots=lambda c: {})),
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


def test_faulty_names_are_sorted(tiling: Tiling) -> None:
    """Of several spilled tensors without lifetimes, every run names them in the same order."""
    names = [f"n{i:02}" for i in range(20)]
    with pytest.raises(VerifyFailed) as caught:
        verify_tiling(replace(tiling, spilled=tuple(reversed(names))))
    assert str(names) in str(caught.value)


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
    alive = lifetimes.find_lifetimes(schedule.make_schedule(program, Options()))
    (step,) = alive.schedule.steps
    slots = dict.fromkeys((o.arg for o in step.access.operands), 1)
    choice = StepTiling(step.name, step.access.sizes | lengths, order_dims(step.access), "single", slots)
    return Tiling(alive, (), (), (choice,), 1 << 10, (0, 0))


REDUCE = chain(
    node("ReduceSum", ("x", "axes"), ("y",), keepdims=0),
    x=(4, 3, 5),
    initializers=(constant("axes", np.array([0, 2], np.int64)),),
)


def test_an_inner_reduction_is_split_under_single_tiles(tmp_path: Path) -> None:
    program = infer(tmp_path, REDUCE)
    dims = {d.size: d.name for d in tiled(program, {}).lifetimes.schedule.steps[0].access.dims}
    verify_tiling(tiled(program, {dims[4]: 2, dims[3]: 2}))
    verify_tiling(tiled(program, {dims[4]: 1, dims[5]: 2}))
    refused("tile", lambda: verify_tiling(tiled(program, {dims[5]: 2})))
    refused("tile", lambda: verify_tiling(tiled(program, {dims[4]: 2, dims[5]: 2})))


def test_reductions_keep_their_order(tmp_path: Path) -> None:
    sound = tiled(infer(tmp_path, REDUCE), {})
    (choice,) = sound.steps
    order = (*choice.order[:-2], *reversed(choice.order[-2:]))
    refused("tile", lambda: verify_tiling(replace(sound, steps=(replace(choice, order=order),))))


def test_a_tile_ends_where_a_block_of_products_does(tmp_path: Path) -> None:
    weights = (constant("w", np.ones((300, 3), np.float32)),)
    program = infer(tmp_path, chain(node("MatMul", ("x", "w"), ("y",)), x=(2, 300), initializers=weights))
    for length in (144, 288, 300):
        verify_tiling(tiled(program, {"k": length}))
    refused("tile", lambda: verify_tiling(tiled(program, {"k": 100})))
    with pytest.raises(VerifyFailed, match=r"tile k=100 ends inside of a block, not at a multiple of 144"):
        verify_tiling(tiled(program, {"k": 100}))


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


def _axes(access: Access, input_axis: Axis, output_axis: Axis) -> Access:
    x, y = access.operands
    return replace(access, operands=(replace(x, axes=(input_axis,)), replace(y, axes=(output_axis,))))


@pytest.mark.parametrize("fault", WRONG_ACCESS)
def test_wrong_access_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """A fault in an operator's own declaration affects all stages; only the check of its written elements shows it."""
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
    lengths = lawful(Access(tuple(dims), ()), {d.name: draw(st.integers(1, d.size)) for d in dims})
    axes: list[Axis] = []
    view: list[int] = []
    for d in draw(st.permutations(dims)):
        form = draw(st.sampled_from(("at", "at", "mirror", "window", "broadcast", "none")))
        if form in ("at", "mirror"):
            axes.append(At(d.name) if form == "at" else Mirror(d.name))
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
    box = box_shape(operand, choice.tile)
    assert strided_levels(operand, access, choice.tile) == len(transfer(operand.view, box).levels)


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
    expected = in_choice(tiling, lambda c: c is choice, tile=tile_of(**{name: half}))
    assert edited_tiling == expected
    new = pipeline.place_tiling(edited_tiling)
    step = next(s for s in new.steps if s.name == choice.step)
    assert {d.name: d.tile for d in step.dims}[name] == half
    assert generate.generate_files(new) == generate.generate_files(pipeline.place_tiling(expected))
    refused("digest", lambda: verify_plan(new, tiling))


def test_hand_edited_nonsense_is_refused(tiling: Tiling, tmp_path: Path) -> None:
    path = tmp_path / "tiling.json"
    envelope = json.loads(artefact.dumps(tiling))
    envelope["body"]["steps"][0]["tile"]["n"] = 1 << 20
    path.write_text(json.dumps(envelope))
    refused("tile", lambda: pipeline.place_tiling(pipeline.tiling_from(path)) and None)


def test_same_input_same_bytes(tiling: Tiling) -> None:
    first, second = (tile.Tiler(tiling.lifetimes).tile() for _ in range(2))
    verify_tiling(first)
    assert artefact.dumps(first) == artefact.dumps(second)
    assert artefact.dumps(place.place_buffers(first, pipeline.ONCE)) == artefact.dumps(
        place.place_buffers(second, pipeline.ONCE)
    )


@pytest.mark.parametrize("allow_rewrites", [True, False])
def test_accumulators_need_not_last_with_one_pass_per_update(tiling: Tiling, allow_rewrites: bool) -> None:
    """An accumulator that dies at its update is refused if several passes add to it."""
    program = tiling.lifetimes.schedule.program
    options = Options(budgets={"L1": L1}, allow_rewrites=allow_rewrites)
    once = pipeline.plan_program(program, options)[0]
    assert not once.lifetimes.of(G1).persistent
    planned = replace(once.lifetimes.schedule, options=replace(options, accumulate=2))
    several = replace(once, lifetimes=replace(once.lifetimes, schedule=planned))
    refused("lifetime", lambda: verify_tiling(several))


def test_updated_weight_is_read_after_its_update(tmp_path: Path) -> None:
    """An update moved up to its gradient stays ahead of those who read its result."""
    sgd1, sgd_b, sgd2 = (n for n in OPTIMIZER.nodes if n.op_type == "SGD")
    square = node("Mul", ("w1_new", "w1_new"), ("square",), "square")
    mix = next(n for n in OPTIMIZER.nodes if n.name == "mix")
    optimizer = replace(OPTIMIZER, nodes=(sgd1, square, sgd_b, mix, sgd2))
    program = Case(TRAIN, optimizer).program(tmp_path)
    alive = lifetimes.find_lifetimes(schedule.make_schedule(program, Options()))
    verify_tiling(tile.Tiler(alive).tile())
