"""Visits: storages at home in the outermost level with copies in the level between; same bits, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deployer.core import artefact
from deployer.core.errors import RunFailed
from deployer.core.level import L_HOME
from deployer.core.plan import Home, Plan
from deployer.loops.moves import ResidencyCopy, copies
from deployer.running.watch import computed
from deployer.verify.plan import verify_plan
from deployer.verify.plan_alone import verify_plan_alone
from DeployTest.support.building.cases import Built, canonical_hash, compile_case, load_case, planned, result_hash
from DeployTest.support.building.planted import planted
from DeployTest.verify.plan_edits import refused

pytestmark = [pytest.mark.host, pytest.mark.training]
MODEL, L1, L2 = "resnet8", 60000, 300000
"""Not all tensors fit L2, and the steps of the forward pass are long enough to store some of them. One strategy
plans in less than half the time of `auto`, and its plan has copies as well."""
ORDERS = (("early",), ("late",), ("random", "--seed", "1"), ("random", "--seed", "2"))


@pytest.fixture(scope="module")
def built(models_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A network from L3 with copies both ways."""
    case = load_case(MODEL, models_root)
    return compile_case(case, tmp_path_factory.mktemp("residencies"), "double", L1, l2=L2, outermost="L3")


@pytest.mark.slow
def test_bits_and_cycles(built: Built, models_root: Path, tmp_path: Path) -> None:
    """Copies change no bit in any order of transfers, and the simulator's clock is the model's."""
    assert {copy.direction for copy in copies(built.plan)} == {"in", "out"}
    expected = canonical_hash(MODEL, models_root, tmp_path)
    for order in ORDERS:
        outcome = built.run("--dma-order", *order, "--core-order", "random")
        assert result_hash(outcome) == expected, order
        for graph, key in (("train", "train_cycles"), ("optimizer", "opt_cycles")):
            assert int(outcome.bench[key]) == built.plan.cycles(graph), order


@pytest.mark.slow
def test_the_option_forbids_them(built: Built) -> None:
    """Without cross-step transfers there are no cached copies, and the plan is slower."""
    options = replace(built.plan.options, cross_step_prefetch=False)
    plan = planned(built.case, options)[1]
    assert not plan.residencies
    assert plan.cycles("train") > built.plan.cycles("train")


def test_plan_survives_its_file(built: Built) -> None:
    """Visits are in plan.json; the plan that is read from it is the same, and sound by itself."""
    assert artefact.load(Plan, built.directory / "plan.json", sealed=True) == built.plan
    verify_plan_alone(built.plan)


def test_no_step_uses_the_home_of_what_visits(built: Built) -> None:
    """Steps use copies of a storage that has any, and never its home in the outermost level."""
    of = {residency.storage for residency in built.plan.residencies}
    assert of
    assert not of & {o.storage for step in built.plan.steps for o in step.operands}


@pytest.mark.slow
def test_values_of_copies_can_be_watched(built: Built, tmp_path: Path) -> None:
    """A step's write to a cached copy is found under the tensor's name, with the bits of a plan without copies."""
    program, names = (
        built.tiling.lifetimes.schedule.program,
        {residency.storage for residency in built.plan.residencies},
    )
    values = computed(program, built.plan, built.directory, 0, sorted(names))
    assert values.keys() == names
    apart = compile_case(built.case, tmp_path, "double", L1, l2=L2, outermost="L3", cross_step_prefetch=False)
    assert not apart.plan.residencies
    expected = computed(program, apart.plan, apart.directory, 0, sorted(names))
    assert {n: x.tobytes() for n, x in values.items()} == {n: x.tobytes() for n, x in expected.items()}


def _first(plan: Plan, direction: str) -> ResidencyCopy:
    return next(copy for copy in copies(plan) if copy.direction == direction)


def _edited(plan: Plan, name: str, **fields: Any) -> Plan:
    """The plan with other steps of a residency, and of the life of its copy."""
    residencies = tuple(replace(v, **fields) if v.name == name else v for v in plan.residencies)
    new = next(v for v in residencies if v not in plan.residencies)

    def home(h: Home) -> Home:
        return replace(h, storage=new.name, first=new.begin, last=new.end) if h.storage == name else h

    return replace(plan, residencies=residencies, homes=tuple(map(home, plan.homes)))


def _awaited_too_late(plan: Plan) -> Plan:
    """A copy comes in until the end of the first step that uses it."""
    residency = next(v for v in plan.residencies if v.begin < v.first < v.last)
    later = replace(residency, first=residency.first + 1)
    steps = []
    for step in plan.steps:
        operands = (replace(o, storage=later.name) if o.storage == residency.name else o for o in step.operands)
        steps.append(replace(step, operands=tuple(operands)))
    return replace(_edited(plan, residency.name, first=later.first), steps=tuple(steps))


def _left_out(plan: Plan) -> Plan:
    """A copy is expected to be there without having come."""
    name = _first(plan, "in").name
    residency = next(v for v in plan.residencies if v.name == name)
    return _edited(plan, name, begin=residency.first)


def _longer(plan: Plan) -> Plan:
    """A residency goes on after its copy."""
    residency = plan.residencies[0]
    return replace(plan, residencies=(replace(residency, end=residency.end + 1), *plan.residencies[1:]))


def _elsewhere(plan: Plan) -> Plan:
    """A copy lies over a home that lives in the same steps."""
    name, level = _first(plan, "in").name, plan.levels[L_HOME].name
    copy = plan.home(name)
    other = next(
        h for h in plan.homes if h.level == level and h != copy and h.first <= copy.last and copy.first <= h.last
    )
    homes = (replace(h, offset=other.offset) if h == copy else h for h in plan.homes)
    return replace(plan, homes=tuple(homes))


def _until_it_comes_back(plan: Plan) -> Plan:
    """A copy still goes out when the next residency begins."""
    first = plan.residencies[0]
    second = next(v for v in plan.residencies if v.storage == first.storage and v != first)
    return _edited(plan, first.name, end=second.begin)


BROKEN: dict[str, tuple[str, Callable[[Plan], Plan]]] = {
    "used while it comes": ("residency", _awaited_too_late),
    "never fetched": ("residency", _left_out),
    "longer than its copy": ("residency", _longer),
    "one residency in the other": ("residency", _until_it_comes_back),
    "no room": ("overlap", _elsewhere),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_verifier_refuses(fault: str, built: Built) -> None:
    """Each broken plan is refused under its rule by the judge that sees the plan alone; the plan itself is not."""
    rule, change = BROKEN[fault]
    verify_plan(built.plan, built.tiling)
    refused(rule, lambda: verify_plan_alone(change(built.plan)))


def test_verifier_compares_with_the_tiling(built: Built) -> None:
    """A plan has the visits of its tiling."""
    refused(
        "residency", lambda: verify_plan(replace(built.plan, residencies=built.plan.residencies[:-1]), built.tiling)
    )


@pytest.mark.slow
def test_simulator_names_broken_copies(built: Built, tmp_path: Path) -> None:
    """A copy that is left out, starts after its wait, is too short or is never awaited is named in every order."""
    start = r"    tickets\[\d+\] = hal_dma_{}_1d\(1, [^;]*;\n"
    shorter = r"(tickets\[\d+\] = hal_dma_{}_1d\(1, [^;]*, )(\d+)\);"
    late = "double-wait|trace: the step ends without the copy"
    faults = {
        "absent": (start.format("out"), "", "trace: the step ends without the copy"),
        "absent inwards": (start.format("in"), "", late),
        "short": (shorter.format("out"), r"\g<1>4);", "trace: ticket"),
        "short inwards": (shorter.format("in"), r"\g<1>4);", "trace: ticket"),
        "started after its wait": (
            rf"({start.format('in')})((?:.|\n)*?)(    hal_step\(\d+\);\n)",
            r"\2\3\1",
            late,
        ),
        "never awaited": (r"    hal_dma_wait\(tickets\[\d+\]\);\n", "", "forgotten-wait"),
    }
    for name, (pattern, replacement, expected) in faults.items():
        copy = planted(built, tmp_path / name, pattern, replacement)
        for order in ORDERS:
            with pytest.raises(RunFailed, match=expected):
                copy.run("--dma-order", *order)
