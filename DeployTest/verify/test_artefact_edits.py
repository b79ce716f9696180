"""Edited plans and tilings are refused with a message, or give the very results: never a crash, never other bits."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.codegen import generate
from deployer.commands import reentry
from deployer.core.errors import UserError
from deployer.core.plan import Plan
from DeployTest.support.building.cases import Built, case_dir, compile_case, result_hash
from DeployTest.support.building.json_edits import edits, resealed

pytestmark = [pytest.mark.host, pytest.mark.training]
EDITS = 30
FORMS = {"from L2": (2000, None, 1), "from L3": (2000, 5000, 2)}
"""L1 and L2 in bytes, and passes per update, of a small perceptron with tiles, resident tensors and staged ones."""


def seeds(first: int, *others: int) -> list[object]:
    """One seed for every day, the others for the long run."""
    return [first, *(pytest.param(seed, marks=pytest.mark.slow) for seed in others)]


@dataclass(frozen=True)
class Original:
    """A compiled case with the text of its artefacts, its C and its results."""

    built: Built
    plan: str
    tiling: str
    code: dict[str, str]
    bits: str


@pytest.fixture(scope="module", params=FORMS)
def original(request: pytest.FixtureRequest, models_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Original:
    """The case in each form."""
    l1, l2, accumulate = FORMS[request.param]
    case = pipeline.load_training(case_dir("simple_mlp", models_root), n_accum=accumulate)
    folder = tmp_path_factory.mktemp("edits")
    built = compile_case(case, folder, "double", l1, l2=l2, outermost="L3")
    assert any(s.staging for s in built.plan.steps) == (l2 is not None)
    texts = [(folder / name).read_text() for name in ("plan.json", "tiling.json")]
    return Original(built, *texts, code_of(built.plan), result_hash(built.run()))


def code_of(plan: Plan) -> dict[str, str]:
    """The C of a plan without the plan's digest."""
    return {n: re.sub(r"; plan \w+\. Do not edit", "", text) for n, text in generate.generate_files(plan).items()}


def accepted(plan: Plan | None, original: Original) -> bool:
    """Whether an edit was accepted and gives other C than before."""
    return plan is not None and code_of(plan) != original.code


def plan_of(path: Path) -> Plan | None:
    """A plan as `emit` takes it; None where it is refused. Any other error ends the test."""
    try:
        plan = reentry.plan_from(path)
    except UserError:
        return None
    generate.generate_files(plan)
    return plan


def tiled(path: Path, original: Original) -> Plan | None:
    """The plan of a tiling as `compile --from` takes it; None where it is refused."""
    try:
        tiling = pipeline.tiling_from(path)
        pipeline.check_origin(original.built.case, tiling, path)
        return pipeline.place_edited(tiling, original.built.plan.running)
    except UserError:
        return None


def files(folder: Path, name: str, document: str, seed: int, seal: bool) -> Iterator[tuple[str, Path]]:
    """Edited files, one after the other at one place."""
    for label, text in edits(json.loads(document), seed, EDITS):
        path = folder / name
        path.write_text(resealed(text) if seal else text, errors="surrogatepass")
        yield label, path


def ran(plan: Plan, original: Original, folder: Path) -> str:
    """The hash of the results of a plan."""
    case = original.built.case
    pipeline.write_files(generate.generate_files(plan), folder)
    (folder / "input.bin").write_bytes(pipeline.input_bytes(case, plan))
    pipeline.build_case(plan, folder)
    return result_hash(pipeline.execute(case, plan, folder))


@pytest.mark.parametrize("seed", seeds(0, 1))
def test_edited_plan(seed: int, original: Original, tmp_path: Path) -> None:
    """An edited plan is refused; one that is accepted is the same."""
    for label, path in files(tmp_path, "plan.json", original.plan, seed, seal=False):
        assert not accepted(plan_of(path), original), label


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("seed", seeds(2, 3))
def test_sealed_edit_beside_the_tiling(seed: int, original: Original, tmp_path: Path) -> None:
    """An edited plan with a matching digest, given with its tiling, is refused or gives the same bits."""
    (tmp_path / "tiling.json").write_text(original.tiling)
    others = []
    for label, path in files(tmp_path, "plan.json", original.plan, seed, seal=True):
        plan = plan_of(path)
        if plan is not None and accepted(plan, original):
            others.append((label, plan))
    for label, plan in others[:2]:
        assert ran(plan, original, tmp_path / "c") == original.bits, label


@pytest.mark.parametrize("seed", seeds(4, 5, 6))
def test_sealed_edit_alone(seed: int, original: Original, tmp_path: Path) -> None:
    """An edited plan with a matching digest and no tiling is refused, or generates C and fits memory."""
    plans = [plan_of(path) for _, path in files(tmp_path, "plan.json", original.plan, seed, seal=True)]
    assert None in plans


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("seed", seeds(7, 8))
def test_edited_tiling_beside_the_plan(seed: int, original: Original, tmp_path: Path) -> None:
    """A plan is not that of an edited tiling, whatever became of it."""
    (tmp_path / "plan.json").write_text(original.plan)
    for label, _ in files(tmp_path, "tiling.json", original.tiling, seed, seal=False):
        assert not accepted(plan_of(tmp_path / "plan.json"), original), label


@pytest.mark.parametrize("seed", seeds(9, 10))
def test_edited_tiling(seed: int, original: Original, tmp_path: Path) -> None:
    """An edited tiling is refused, or is another one of the same program: then its results are the same bits."""
    others = []
    for label, path in files(tmp_path, "tiling.json", original.tiling, seed, seal=False):
        plan = tiled(path, original)
        if plan is not None and accepted(plan, original):
            others.append((label, plan))
    for at, (label, plan) in enumerate(others[:3]):
        assert ran(plan, original, tmp_path / f"c{at}") == original.bits, label
