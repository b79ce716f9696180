"""Transfers that begin in one step and end in another: same bits, the model's cycles, and what stands against them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.codegen import render
from deployer.core import artefact
from deployer.core.errors import RunFailed, VerifyFailed
from deployer.core.level import CrossStepTransfer
from deployer.core.plan import Options, Plan, PlanStep, Tiling, target_of
from deployer.core.safe_text import c_comment
from deployer.loops.graph_program import timed
from deployer.verify.plan import verify_plan
from DeployTest.support.building.cases import Built, canonical_hash, case_dir, compile_case, load_case, result_hash
from DeployTest.support.building.planted import planted
from DeployTest.verify.plan_edits import refused

pytestmark = [pytest.mark.host, pytest.mark.training]
L1, L2 = 24000, 140000
"""Tensors spill, so that transfers cross steps on both hops, both ways."""
SINGLE_L1 = range(10000, 20000, 1000)
"""L1s of which some let the last tiles of single-buffered loops cross steps; the tiling decides which."""
ORDERS = (("early",), ("late",), ("random", "--seed", "1"), ("random", "--seed", "2"))


@pytest.fixture(scope="module")
def built(models_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The autoencoder from L3, with transfers that cross."""
    case = load_case("autoencoder", models_root)
    return compile_case(case, tmp_path_factory.mktemp("across"), "auto", L1, l2=L2, outermost="L3")


def within_steps(plan: Plan) -> Plan:
    """The plan without its cross-step transfers, with the cycles that it then has."""
    return timed(replace(plan, cross_step_transfers=()))


@pytest.mark.slow
def test_bits_and_cycles(built: Built, models_root: Path, tmp_path: Path) -> None:
    """On both hops transfers start early and end late; no bit changes, and the simulator's clock is the model's."""
    ways = {(c.direction, bool(built.plan.steps[c.step].staging)) for c in built.plan.cross_step_transfers}
    assert ways == {(direction, staged) for direction in ("in", "out") for staged in (False, True)}
    expected = canonical_hash("autoencoder", models_root, tmp_path)
    for order in ORDERS:
        outcome = built.run("--dma-order", *order, "--core-order", "random")
        assert result_hash(outcome) == expected, order
        for graph, key in (("train", "train_cycles"), ("optimizer", "opt_cycles")):
            assert int(outcome.bench[key]) == built.plan.cycles(graph), order
    before = within_steps(built.plan)
    assert all(built.plan.cycles(graph) < before.cycles(graph) for graph in built.plan.graphs)


def _leaves_loops(plan: Plan) -> bool:
    """Whether a step of several tiles writes its last one back in a later step."""
    return any(c.direction == "out" and plan.steps[c.step].tiles > 1 for c in plan.cross_step_transfers)


@pytest.mark.slow
def test_single_buffered_loops(models_root: Path, tmp_path: Path) -> None:
    """A loop leaves the ticket of its last tile alone, which compilers need not see: the C builds without a warning."""
    case = load_case("autoencoder", models_root)
    l1 = next(
        l1 for l1 in SINGLE_L1 if _leaves_loops(pipeline.plan_case(case, Options("host", "single", {"L1": l1}))[1])
    )
    moving = compile_case(case, tmp_path / "c", "single", l1)
    for order in ORDERS:
        assert result_hash(moving.run("--dma-order", *order)) == canonical_hash("autoencoder", models_root, tmp_path)


@pytest.mark.slow
def test_several_passes_per_update(models_root: Path, tmp_path: Path) -> None:
    """Accumulators that a pass does not read in concern no cross-step transfer, with and without sanitizers."""
    case = pipeline.load_training(case_dir("autoencoder_batch4", models_root), n_accum=2, n_steps=2)
    expected = result_hash(compile_case(case, tmp_path / "apart", "auto", L1, cross_step_prefetch=False).run())
    for mode in ("auto", "single", "double"):
        moving = compile_case(case, tmp_path / mode, mode, L1, l2=40000, outermost="L3", sanitize=True)
        assert moving.plan.cross_step_transfers
        for order in ORDERS:
            assert result_hash(moving.run("--dma-order", *order)) == expected, (mode, order)


def forbidding(tiling: Tiling) -> Tiling:
    """The tiling with options that forbid cross-step transfers."""
    schedule = tiling.lifetimes.schedule
    options = replace(schedule.options, cross_step_prefetch=False)
    return replace(tiling, lifetimes=replace(tiling.lifetimes, schedule=replace(schedule, options=options)))


def test_without_transfers_a_graph_is_its_steps(built: Built) -> None:
    """The clock of a whole graph gives each step the cycles and waits that it has on a clock of its own."""
    plan = pipeline.place_tiling(forbidding(built.tiling))
    assert not plan.cross_step_transfers
    assert timed(plan) == plan


def test_equal_steps_still_share_functions(built: Built) -> None:
    """The graph has a part in the transfers of steps of one form alike, so there is no function more than without."""
    counts = []
    for plan in (built.plan, replace(built.plan, cross_step_transfers=())):
        texts = [render.network_view(plan, graph, c_comment("")).functions for graph in plan.graphs]
        counts.append(sum(map(len, texts)))
    assert counts[0] <= counts[1]


def test_each_step_is_told_once(built: Built) -> None:
    """A graph that starts transfers tells the HAL of all its steps, and no step's function does so again."""
    for graph in built.plan.graphs:
        view = render.network_view(built.plan, graph, c_comment(""))
        told = [call.definition for call in view.calls].count("c_begin")
        assert told == sum(step.graph == graph for step in built.plan.steps), graph
        assert not any(function.steps for function in view.functions), graph


def test_short_transfers_stay(built: Built) -> None:
    """Nothing crosses that takes no longer than a start in another step costs."""
    target = target_of(built.plan.options)
    for c in built.plan.cross_step_transfers:
        operand = next(o for o in built.plan.steps[c.step].operands if o.arg == c.arg)
        level = max(number for number, slots in enumerate(operand.places) if slots.count)
        channel = target.hops[level].inward if c.direction == "in" else target.hops[level].outward
        assert channel.cycles(operand.places[level].bytes, 1, target.contention) > target.prefetch_issue, c


def test_plan_survives_its_file(built: Built, tmp_path: Path) -> None:
    """Crossings are in plan.json, and the plan that is read from it is the same."""
    assert '"cross_step_transfers"' in (built.directory / "plan.json").read_text()
    assert artefact.load(Plan, built.directory / "plan.json", sealed=True) == built.plan


def first_in(plan: Plan) -> CrossStepTransfer:
    """An ingress of an unstaged step that crosses one step."""
    unstaged = [c for c in plan.cross_step_transfers if not plan.steps[c.step].staging]
    return next(c for c in unstaged if c.direction == "in" and c.at == c.step - 1)


def first_out(plan: Plan) -> CrossStepTransfer:
    """An egress that crosses."""
    return next(c for c in plan.cross_step_transfers if c.direction == "out")


def changed(plan: Plan, old: CrossStepTransfer, **fields: object) -> Plan:
    """The plan with another cross-step transfer in place of one."""
    new = replace(old, **fields)  # type: ignore[arg-type]
    return replace(plan, cross_step_transfers=tuple(new if c == old else c for c in plan.cross_step_transfers))


def with_cross_step_transfer(plan: Plan, *more: CrossStepTransfer) -> Plan:
    """The plan with these crossings alone."""
    return replace(plan, cross_step_transfers=more)


def dependence(plan: Plan, far: int = 1) -> tuple[PlanStep, str, PlanStep, str]:
    """A step that stores a tensor and a later one, the first and at least `far` further, that fetches it."""
    for step in plan.steps:
        for o in (o for o in step.operands if o.mode == "out" and o.slots):
            for later in plan.steps[step.index + 1 :]:
                users = [p for p in later.operands if p.storage == o.storage]
                if users and later.graph == step.graph:
                    if later.index - step.index >= far and users[0].mode == "in" and users[0].slots:
                        return step, o.arg, later, users[0].arg
                    break
    raise AssertionError("no such steps")


def over_a_neighbour(plan: Plan) -> Plan:
    """The slots of a first ingress lie where a step that it crosses has slots."""
    transfer = next(
        c for c in plan.cross_step_transfers if c.direction == "in" and any(o.slots for o in plan.steps[c.at].operands)
    )
    taken = next(o.slot_offset for o in plan.steps[transfer.at].operands if o.slots)
    step = plan.steps[transfer.step]
    operands = [replace(o, slot_offset=taken) if o.arg == transfer.arg else o for o in step.operands]
    steps = [replace(s, operands=tuple(operands)) if s is step else s for s in plan.steps]
    return replace(plan, steps=tuple(steps))


def read_too_soon(plan: Plan) -> Plan:
    """A tensor is fetched in the step that computes it."""
    step, _, later, arg = dependence(plan)
    return with_cross_step_transfer(plan, CrossStepTransfer(later.index, arg, "in", step.index))


def stored_too_late(plan: Plan) -> Plan:
    """A tensor is still being stored in the step that fetches it."""
    step, arg, later, _ = dependence(plan)
    return with_cross_step_transfer(plan, CrossStepTransfer(step.index, arg, "out", later.index))


def read_while_stored(plan: Plan) -> Plan:
    """A tensor is fetched in a step at whose end its egress is awaited."""
    step, y, later, x = dependence(plan, 2)
    between = later.index - 1
    return with_cross_step_transfer(
        plan, CrossStepTransfer(step.index, y, "out", between), CrossStepTransfer(later.index, x, "in", between)
    )


def into_another_graph(plan: Plan) -> Plan:
    """The update's first fetch starts in the pass."""
    step = next(s for s in plan.steps if s.graph == "optimizer")
    operand = next(o for o in step.operands if o.slots and o.mode != "out")
    return with_cross_step_transfer(plan, CrossStepTransfer(step.index, operand.arg, "in", step.index - 1))


def resident_moves(plan: Plan) -> Plan:
    """An operand that has no slots is fetched."""
    step, arg = next((s, o.arg) for s in plan.steps[1:] for o in s.operands if not o.slots and o.mode == "in")
    return with_cross_step_transfer(plan, CrossStepTransfer(step.index, arg, "in", step.index - 1))


BROKEN: dict[str, tuple[str, Callable[[Plan], Plan]]] = {
    "another graph": ("transfer", into_another_graph),
    "a resident operand": ("transfer", resident_moves),
    "backwards": ("transfer", lambda p: changed(p, first_in(p), at=first_in(p).step + 1)),
    "an egress backwards": ("transfer", lambda p: changed(p, first_out(p), at=first_out(p).step - 1)),
    "in its own step": ("transfer", lambda p: changed(p, first_in(p), at=first_in(p).step)),
    "no such step": ("transfer", lambda p: changed(p, first_in(p), at=-1)),
    "of no such step": ("transfer", lambda p: changed(p, first_in(p), step=len(p.steps))),
    "no such operand": ("transfer", lambda p: changed(p, first_in(p), arg="absent")),
    "wrong way": ("transfer", lambda p: changed(p, first_out(p), direction="in", at=first_out(p).step - 1)),
    "twice": (
        "transfer",
        lambda p: replace(p, cross_step_transfers=(*p.cross_step_transfers, p.cross_step_transfers[0])),
    ),
    "no room": ("overlap", over_a_neighbour),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_verifier_refuses(fault: str, built: Built) -> None:
    """Each broken plan is refused under its rule; the plan itself is not."""
    rule, change = BROKEN[fault]
    verify_plan(built.plan, built.tiling)
    refused(rule, lambda: verify_plan(change(built.plan), built.tiling))


def test_verifier_knows_the_dataflow(models_root: Path) -> None:
    """No fetch starts before the tensor is at home, and no egress goes on while another step uses it."""
    case = load_case("autoencoder", models_root)
    options = Options("host", "auto", {"L1": L1 // 2}, fuse_update=True)
    tiling, plan = pipeline.plan_case(case, options)
    causes = {read_too_soon: "writes", stored_too_late: "reads", read_while_stored: "still writes"}
    for change, cause in causes.items():
        with pytest.raises(VerifyFailed, match=rf"\[transfer\].* {cause} "):
            verify_plan(change(plan), tiling)


def test_crossings_want_the_option(built: Built) -> None:
    """A plan whose options forbid crossings has none."""
    tiling = forbidding(built.tiling)
    options = tiling.lifetimes.schedule.options
    plan = replace(built.plan, options=options, digest=artefact.digest(tiling))
    refused("transfer", lambda: verify_plan(plan, tiling))


START = r"    const hal_ticket_t {arg}_{step:02d} = [^\n]*\n"


def test_simulator_names_what_comes_too_soon_or_too_late(built: Built, tmp_path: Path) -> None:
    """A first fetch that starts a step sooner or later than planned, or twice, is named in every DMA order."""
    c = first_in(built.plan)
    start, begin = START.format(step=c.step, arg=c.arg), r"    hal_step\({}\);\n"
    moves = {
        "sooner": (rf"({begin.format(c.at - 1)})((?:.|\n)*?)({start})", r"\1\3\2", "outside-buffer"),
        "later": (rf"({start})((?:.|\n)*?)({begin.format(c.step)})", r"\2\3\1", "trace"),
    }
    for name, (pattern, replacement, expected) in moves.items():
        copy = planted(built, tmp_path / name, pattern, replacement)
        for order in ORDERS:
            with pytest.raises(RunFailed, match=expected):
                copy.run("--dma-order", *order)


def test_simulator_names_a_forgotten_wait(built: Built, tmp_path: Path) -> None:
    """The graph waits for each egress that steps leave to it."""
    copy = planted(built, tmp_path / "c", r"hal_dma_wait_all\(tickets \+ 0, 2\)", "hal_dma_wait(tickets[0])")
    for order in ORDERS:
        with pytest.raises(RunFailed, match="forgotten-wait"):
            copy.run("--dma-order", *order)


def test_simulator_names_early_reuse(built: Built, tmp_path: Path) -> None:
    """Slots that an early fetch fills while a kernel still works in them are named, though map and C agree on them."""
    plan = over_a_neighbour(built.plan)
    pipeline.write_case(built.case, built.tiling, plan, tmp_path)
    pipeline.build_case(plan, tmp_path)
    for order in ORDERS:
        with pytest.raises(RunFailed, match=r"forgotten-wait|write-while-read|swapped-slot|trace"):
            replace(built, plan=plan, directory=tmp_path).run("--dma-order", *order)
