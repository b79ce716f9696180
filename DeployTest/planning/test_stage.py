"""Tensors that live in L3: what is spilled, how it passes through L2, and that no bit depends on it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.core import artefact
from deployer.core import target as targets
from deployer.core.errors import RunFailed, TilingInfeasible
from deployer.core.plan import Options, Stage, StepTiling, Tiling, target_for
from deployer.loops.leaves import SizeExpr
from deployer.loops.lower import lower
from deployer.planning import fuse, lifetimes, place, schedule, tile
from deployer.tilers.addresses.placement import Item, Placement
from deployer.tilers.levels.inner import InnerLevel
from deployer.tilers.levels.middle_level import LEAST_SHARE, MiddleLevel, fits
from deployer.tilers.levels.staging import stage_estimate
from deployer.verify.tiling import verify_tiling
from DeployTest.support.building.cases import (
    Built,
    canonical_hash,
    case_dir,
    compile_case,
    crossed,
    load_case,
    result_hash,
    worst_difference,
)
from DeployTest.support.building.planted import planted
from DeployTest.support.graphs.small_graphs import chain, infer, node
from DeployTest.support.tolerances import table
from DeployTest.verify.plan_edits import refused, small_plan

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.l3]
TOLERANCE = table()["training"]["weight"]
L1, L2 = 16000, 70000
"""The autoencoder needs 233 KB of L2 when nothing is spilled."""
MODES = ("single", "double", "auto", "double_l3", "training_double")


@pytest.fixture(scope="module")
def built(models_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A double-buffered program with tiles in both hops."""
    case = load_case("autoencoder", models_root)
    return compile_case(case, tmp_path_factory.mktemp("l3"), "double", L1, l2=L2, outermost="L3")


@pytest.mark.slow
def test_sizes_are_named_after_what_they_measure(built: Built) -> None:
    """The C calls a length the stage's tile of a dim only where the stage cuts that dim."""
    for step in built.plan.steps:
        cut = {f"stage_{d.name}_tile" for d in step.dims if d.outer < d.size}
        names = {size.name for size in lower(step).body.walk() if isinstance(size, SizeExpr)}
        assert {name for name in names if re.fullmatch("stage_.*_tile", name)} <= cut, step.name


LITTLE_L2 = 40000


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize(("mode", "l2"), crossed([(mode,) for mode in MODES], [L2, LITTLE_L2]))
def test_same_bits_from_l3(mode: str, l2: int, models_root: Path, tmp_path: Path) -> None:
    """In each DMA and core order a run is within the budgets, takes the model's cycles and has the bits of L2 alone."""
    case = load_case("autoencoder", models_root)
    built = compile_case(case, tmp_path / "c", mode, L1, l2=l2, outermost="L3")
    expected = canonical_hash("autoencoder", models_root, tmp_path)
    for order, seed in (("early", 0), ("late", 0), ("random", 1), ("random", 2)):
        outcome = built.run("--dma-order", order, "--seed", str(seed), "--core-order", "random")
        assert worst_difference(case, outcome) <= TOLERANCE
        assert result_hash(outcome) == expected, f"{order} {seed}"
        assert int(outcome.bench["train_cycles"]) == built.plan.cycles("train"), "the clock is the model"
        assert int(outcome.bench["l2_bytes"]) <= l2
        assert int(outcome.bench["l3_bytes"]) > 0


@pytest.mark.slow
def test_batches_and_accumulation_from_l3(models_root: Path, tmp_path: Path) -> None:
    """Accumulators of several passes may be spilled too; they are read in all passes but the first of an update."""
    case = pipeline.load_training(case_dir("autoencoder_batch4", models_root), n_accum=2, n_steps=2)
    expected = result_hash(compile_case(case, tmp_path / "l2", "auto", L1).run())
    built = compile_case(case, tmp_path / "l3", "auto", L1, l2=40000, outermost="L3")
    spilled = {case.program.tensors[name].role for name in built.tiling.spilled}
    assert {"accumulator", "weight"} <= spilled
    for order in ("early", "late", "random"):
        assert result_hash(built.run("--dma-order", order)) == expected


def test_nothing_is_spilled_that_fits(models_root: Path) -> None:
    """With room in L2, permission to use L3 does not change the steps, homes and levels of the plan."""
    case = load_case("autoencoder", models_root)
    plans = []
    for outermost in ("L2", "L3"):
        options = Options("host", "auto", {"L1": L1}, outermost=outermost)
        tiling, plan = pipeline.plan_case(case, options)
        assert not tiling.spilled
        plans.append((plan.steps, plan.homes, plan.levels))
    assert plans[0] == plans[1]


def test_two_engines_share_the_work(built: Built) -> None:
    """A hop with an engine per direction is busy for at least half the cycles of a single engine, and no more."""
    host, tiling = targets.load("host"), built.tiling
    program, faster = tiling.lifetimes.schedule.program, 0
    storage_of = {name: program.storage(name) for name in program.tensors}
    for step, choice in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        if choice.stage and choice.stage.buffering == "double":
            machines = (replace(host, hops=(host.hops[0], replace(host.hops[1], shared=one))) for one in (True, False))
            one, two = (stage_estimate(step, choice.stage, storage_of, machine, True) for machine in machines)
            assert two.busy <= one.busy <= 2 * two.busy
            faster += two.busy < one.busy
    assert faster > 0


def test_residents_make_room(models_root: Path) -> None:
    """Tensors at home in L1 need no room in L2: 233 KB fit 190 KB of L2 and 64 KB of L1, so nothing is spilled."""
    case = load_case("autoencoder", models_root)
    options = Options("host", "single", {"L1": 64000, "L2": 190000}, outermost="L3")
    tiling, plan = pipeline.plan_case(case, options)
    assert not tiling.spilled
    assert [use.name for use in plan.levels if use.peak] == ["L1", "L2"]


def test_outputs_are_not_spilled(tmp_path: Path) -> None:
    """Outputs stay in L2, where the harness reads them: one that is larger than L2 does not fit its step."""
    nodes = (node("Exp", ("x",), ("a",)), node("Tanh", ("a",), ("b",)), node("Relu", ("b",), ("y",)))
    program = infer(tmp_path, chain(*nodes, x=(2000,)))
    options = Options("host", "auto", {"L1": 4000, "L2": 12000}, outermost="L3")
    spilled = pipeline.plan_program(program, options)[0].spilled
    assert "b" in spilled
    assert "y" not in spilled
    with pytest.raises(TilingInfeasible, match=r"node 'Relu_y' \(Relu\) does not fit L2"):
        pipeline.plan_program(program, replace(options, budgets={"L1": 4000, "L2": 7000}))


@pytest.mark.slow
def test_a_packing_with_gaps_is_tiled_again(models_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that a packing of L2 loses are withheld from the next tiling, which spills more."""
    case, packed = load_case("autoencoder", models_root), place.place

    def loses(items: list[Item], capacity: int, alignment: int, last: bool) -> Placement:
        packing = packed(items, capacity, alignment, last=last)
        lost = capacity == 40000 and "withheld" not in next(text for text in reversed(said) if text.startswith("tiles"))
        return replace(packing, height=max(packing.height, 40064), bound=40000) if lost else packing

    said = list[str]()
    monkeypatch.setattr(place, "place", loses)
    options = Options("host", "single", {"L1": L1, "L2": 40000}, outermost="L3")
    tiling, plan = pipeline.plan_case(case, options, said.append)
    assert tiling.packing_slack == (0, 64)
    assert "tiles, 64 B withheld for packing" in said
    assert next(use for use in plan.levels if use.name == "L2").peak <= 40000


@pytest.mark.slow
def test_the_last_packing_searches_most(models_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A level that a new tiling can relieve gives up sooner, but for the last attempt; another level never does."""
    case, packed, asked = load_case("autoencoder", models_root), place.place, dict[int, list[bool]]()

    def loses(items: list[Item], capacity: int, alignment: int, last: bool) -> Placement:
        asked.setdefault(capacity, []).append(last)
        packing = packed(items, capacity, alignment, last=last)
        return replace(packing, height=40064, bound=40000) if capacity == 40000 else packing

    monkeypatch.setattr(place, "place", loses)
    options = Options("host", "single", {"L1": L1, "L2": 40000}, outermost="L3")
    with pytest.raises(TilingInfeasible, match="could not be packed in 6 attempts"):
        pipeline.plan_case(case, options)
    plans, rest = divmod(len(asked[40000]), 6)  # with argument tables resident, and by groups
    assert plans > 0
    assert rest == 0
    assert asked[40000] == ([False] * 5 + [True]) * plans
    monkeypatch.undo()
    monkeypatch.setattr(place, "place", lambda *x, last: asked.setdefault(0, []).append(last) or packed(*x, last=last))
    tiling = pipeline.plan_case(case, replace(options, budgets={"L1": L1, "L2": L2}))[0]
    pipeline.place_edited(tiling, pipeline.ONCE)
    *planned, edited = (asked[0][i : i + 3] for i in range(0, len(asked[0]), 3))  # L1, L2 and L3
    assert planned == [[False, False, True]] * len(planned)
    assert edited == [True] * 3
    assert planned


def test_little_withheld_leaves_tensors_in_l1(models_root: Path) -> None:
    """With a small gap in L1 tensors are still resident; with one that leaves too little for slots none is."""
    case = load_case("simple_mlp", models_root)
    options = pipeline.accumulate_of(case, Options("host", "single", {"L1": 4000}))
    alive = lifetimes.find_lifetimes(schedule.make_schedule(fuse.fuse_program(case.program, options), options))
    little, most = (tile.Tiler(alive).tile((gap, 0)) for gap in (16, 3900))
    assert little.resident
    assert not most.resident


@pytest.mark.slow
def test_auto_is_best_from_l3(models_root: Path) -> None:
    """In the model, auto takes no more cycles than single and double, and double waits less than single."""
    case = load_case("autoencoder", models_root)
    cycles, waits = {}, {}
    for mode in ("single", "double", "auto"):
        options = Options("host", mode, {"L1": L1, "L2": L2}, outermost="L3")
        plan = pipeline.plan_case(case, options)[1]
        cycles[mode] = plan.cycles("train") + plan.cycles("optimizer")
        waits[mode] = sum(s.staging.wait for s in plan.steps if s.staging)
        for step in plan.steps:
            if step.staging and mode == "single":
                assert all(o.stage_slots <= 1 for o in step.operands)
    assert cycles["auto"] <= min(cycles["single"], cycles["double"])
    assert waits["double"] < waits["single"]


@pytest.mark.slow
def test_stages_do_not_starve_kernels(models_root: Path) -> None:
    """Stages have tiles on which kernels are fast, not of single channels, which a convolution computes one by one."""
    case, kernels = load_case("resnet8", models_root), {}
    for l2 in (400000, 1900000):
        options = Options("siracusa", "double", {"L1": 128000, "L2": l2}, outermost="L3")
        tiling, plan = pipeline.plan_case(case, options)
        assert bool(tiling.spilled) == (l2 == 400000)
        kernels[l2] = sum(sum(step.tile_cycles) for step in plan.steps)
    assert kernels[400000] < 1.1 * kernels[1900000]


@pytest.mark.slow
def test_too_small_an_l2_says_what_fits(models_root: Path) -> None:
    """The L2 size that the error proposes works, and 4 B less fail."""
    case = load_case("autoencoder", models_root)

    def plan(l2: int) -> None:
        options = Options("host", "single", {"L1": L1, "L2": l2}, outermost="L3")
        pipeline.plan_case(case, options)

    with pytest.raises(TilingInfeasible) as caught:
        plan(64)
    match = re.search(r"--l2 (\d+)", caught.value.hint)
    assert match
    plan(int(match[1]))
    with pytest.raises(TilingInfeasible):
        plan(int(match[1]) - 4)


def test_tiling_with_stages_is_an_artefact(built: Built, tmp_path: Path) -> None:
    """A tiling with stages survives JSON without loss, and gives the same plan."""
    again = artefact.load(Tiling, built.directory / "tiling.json")
    assert again == built.tiling
    assert pipeline.place_edited(again, built.plan.running) == built.plan


FAULTS = {
    "forgotten wait for the stage": (r"hal_dma_wait\((\w+_stage_in\[\w*use\])\)", r"(void)\g<1>", "forgotten-wait"),
    "the stage's other slot in the transfer": (
        r"(hal_dma_in_\w+\(0, .*STAGE_\w+ \+ )(\w*use) \* ",
        r"\g<1>(1 - \g<2>) * ",
        "trace: |forgotten-wait: ",
    ),
    "the stage's slot one element late": (
        r"(hal_dma_in_\w+\(1, STAGE_\w+.*, HOME_\w+ \+ coming_\w+( \* \d+)?)",
        r"\g<1> + 1",
        "trace|outside-buffer",
    ),
    "a stage that is never sent": (
        r"^( *)((if \(.*\) )?\w+_stage_out\[\w+\] = hal_dma_out)",
        r"\g<1>if (0) \g<2>",  # what it uses alone is still used
        "swapped-slot: .* was never sent out|trace: .* without transfer",
    ),
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_planted_faults_are_caught(fault: str, built: Built, tmp_path: Path) -> None:
    """The simulator names each planted fault, in every DMA order."""
    pattern, replacement, expected = FAULTS[fault]
    copy = planted(built, tmp_path / "c", pattern, replacement)
    for order in ("early", "late", "random"):
        with pytest.raises(RunFailed, match=expected):
            copy.run("--dma-order", order)


WRONG_STAGES = {
    "no stage": lambda s: None,
    "a slot too few": lambda s: replace(s, slots={}),
    "a slot too many": lambda s: replace(s, slots={k: 9 for k in s.slots}),
    "longer than the dim": lambda s: replace(s, tile={k: v + 1 for k, v in s.tile.items()}),
    "shorter than the tile": lambda s: replace(s, tile=dict.fromkeys(s.tile, 0)),
    "an order without a dim": lambda s: replace(s, order=s.order[1:]),
}


@pytest.mark.parametrize("fault", sorted(WRONG_STAGES))
def test_wrong_stages_are_refused(fault: str, built: Built) -> None:
    """The verifier refuses tilings with a wrong stage."""

    def edited(choice: StepTiling) -> StepTiling:
        stage: Stage | None = choice.stage
        return replace(choice, stage=WRONG_STAGES[fault](stage)) if stage else choice

    wrong = replace(built.tiling, steps=tuple(edited(s) for s in built.tiling.steps))
    refused("stage", lambda: verify_tiling(wrong))


def test_a_split_reduction_is_refused(built: Built) -> None:
    """The verifier refuses a stage that splits a reduction, as an incomplete sum may not leave its slot."""
    steps = list(built.tiling.steps)
    for index, step in enumerate(built.tiling.lifetimes.schedule.steps):
        split = [d.name for d in step.access.dims if d.kind == "reduction" and d.size > 1]
        stage = steps[index].stage
        if split and stage:
            tile = steps[index].tile | {split[0]: 1}
            steps[index] = replace(steps[index], tile=tile, stage=replace(stage, tile=stage.tile | {split[0]: 1}))
            break
    refused("stage", lambda: verify_tiling(replace(built.tiling, steps=tuple(steps))))


@pytest.mark.parametrize(("more", "spilled"), [(0, True), (1, False)])
def test_next_to_nothing_is_not_spilled(more: int, spilled: bool) -> None:
    """A storage of exactly the least share of the level may be spilled, a smaller one stays."""
    alive = small_plan()[0].lifetimes
    bytes_of_h = next(life.bytes for life in alive.storages if life.storage == "h")
    level = MiddleLevel(alive, target_for(alive.schedule), bytes_of_h * LEAST_SHARE + more, {})
    assert ("h" in {life.storage for life in level.eligible}) is spilled


def test_only_what_fits_may_be_resident() -> None:
    """Among the few storages that may have homes in L1 is none that is larger than it."""
    alive, room = small_plan()[0].lifetimes, 600
    target = target_for(alive.schedule)
    level = InnerLevel(alive, target, InnerLevel(alive, target, 0).capacity - room)
    assert level.capacity == room
    assert max(life.bytes for life in alive.storages) > level.capacity
    assert level.eligible
    assert max(life.bytes for life in level.eligible) <= level.capacity


def test_a_level_is_filled_to_the_last_byte() -> None:
    """A level needs the bytes that are alive at the fullest step, and no byte more."""
    alive = small_plan()[0].lifetimes
    target, steps = target_for(alive.schedule), range(len(alive.schedule.steps))
    need = max(sum(x.bytes for x in alive.storages if x.first <= step <= x.last) for step in steps)
    assert all(life.bytes % target.alignment == 0 for life in alive.storages)
    assert fits(alive, target, need, frozenset())
    assert not fits(alive, target, need - 1, frozenset())
