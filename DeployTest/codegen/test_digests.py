"""Digests of the plan, the C and the reports of cases of every kind, so that no change of them goes unnoticed.

Each case is one file below goldens/digests with a line per file. `make golden` rewrites them; a review then sees which
files of which cases changed, and the goldens beside them show small cases in full.
"""

import hashlib
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.codegen import generate
from deployer.core import artefact
from deployer.core.plan import Options
from deployer.core.safe_text import json_text
from deployer.reports.memory import memory_page
from deployer.running import report
from deployer.running.profile import model_profile, profile_table
from deployer.running.terminal import Terminal
from deployer.tilers.addresses import placement
from deployer.tilers.addresses.branch_and_bound import pack
from deployer.tilers.addresses.placement import lower_bound, place
from deployer.tilers.levels.grid import tile_sizes
from DeployTest.planning.test_placement import random_buffers
from DeployTest.support.building.cases import HERE, case_dir, load_case

pytestmark = [pytest.mark.training]
DIGESTS = HERE / "goldens" / "digests"
L3 = {"outermost": "L3"}
CASES = (
    ("simple_mlp", "host", "auto", {"L1": 2000}, {}),
    ("autoencoder", "siracusa", "auto", {"L1": 32000}, {}),
    ("autoencoder", "host", "double", {"L1": 8000}, {"fuse_update": True}),
    ("autoencoder", "host", "auto", {"L1": 8000, "L2": 40000}, L3),
    ("deep_autoencoder_batch4", "siracusa", "auto", {"L1": 16000}, {}),
    ("dscnn", "siracusa", "double", {"L1": 16000}, {}),
    ("simple_mlp", "qemu_riscv", "single", {"L1": 4000}, {}),
)
LONG_CASES = (
    ("autoencoder_batch4", "host", "auto", {"L1": 16000, "L2": 40000}, L3 | {"accumulate": 2}),
    ("transformer", "host", "training_double", {"L1": 8000}, {"opt_out": ("Gemm", "Softmax"), "allow_rewrites": False}),
    ("dscnn", "host", "auto", {"L1": 64000}, {}),
    ("transformer", "siracusa", "auto", {"L1": 8000}, {}),
    ("transformer", "host", "auto", {"L1": 10000, "L2": 60000}, L3),
    ("resnet8", "host", "double_l3", {"L1": 64000, "L2": 300000}, L3),
    ("resnet8", "siracusa", "auto", {"L1": 64000, "L2": 300000}, L3),
    ("mobilenet_v1", "siracusa", "auto", {"L1": 128000, "L2": 512000}, L3),
)
Case = tuple[str, str, str, dict[str, int], dict[str, object]]


def label(case: Case) -> str:
    """The name of a case, and of its file."""
    test, target, strategy, budgets, more = case
    return "-".join([test, target, strategy, *map(str, budgets.values()), *sorted(more)])


def parameters() -> list[object]:
    """All cases; what takes long is slow."""
    quick = [pytest.param(case, id=label(case)) for case in CASES]
    return quick + [pytest.param(case, id=label(case), marks=pytest.mark.slow) for case in LONG_CASES]


def generated(case: Case, root: Path) -> dict[str, str]:
    """Every text that is made of a case, by name."""
    test, target, strategy, budgets, more = case
    passes = more.get("accumulate")
    loaded = pipeline.load_training(case_dir(test, root), passes, passes) if passes else load_case(test, root)
    tiling, plan = pipeline.plan_case(loaded, Options(target, strategy, budgets, None, **more))
    rows = model_profile(plan)
    console = Terminal(width=140)
    with console.capture() as tables:
        console.print(report.step_table(plan), profile_table(rows))
    return {
        **generate.generate_files(plan),
        "memory.html": memory_page(plan),
        "plan.json": artefact.dumps(plan),
        "profile.json": json_text([vars(row) for row in rows]),
        "tables": tables.get(),
        "tiling.json": artefact.dumps(tiling),
    }


def packings(count: int, steps: int) -> str:
    """Addresses of drawn buffers in little room and in more, and what the search for them alone answers."""
    lines = []
    for seed in range(12):
        items = random_buffers(seed, count, steps, 6)
        bound = lower_bound(items)
        for capacity in (0, bound, bound + bound // 10):
            lines += [f"{place(items, capacity, nodes=300, last=False)}", f"{pack(items, capacity, 4, 300)}"]
    return "\n".join(lines)


def tile_lengths() -> str:
    """The lengths that are tried for dims of many sizes."""
    return "\n".join(f"{size} {limit} {tile_sizes(size, limit)}" for size in range(1, 700) for limit in (2, 5, 12))


@pytest.mark.matrix(keep=3)
@pytest.mark.parametrize("case", parameters())
def test_digests(case: Case, models_root: Path, update_golden: bool) -> None:
    """Byte for byte what a reviewer last agreed to."""
    compare(label(case), generated(case, models_root), update_golden)


@pytest.mark.slow
def test_packings(update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses of drawn buffers are those of the golden, since a packing decides whether a plan fits.

    First fit packs nearly all instances, so they are packed again with a single order of first fit, and with the search
    of all buffers alone.
    """
    sizes = ((9, 8), (30, 20), (60, 50))
    texts = {f"{count} buffers": packings(count, steps) for count, steps in sizes}
    monkeypatch.setattr(placement, "_orders", lambda items: [list(range(len(items)))])
    texts |= {f"{count} buffers, dense steps first": packings(count, steps) for count, steps in sizes}
    monkeypatch.setattr(placement, "DENSE", ())
    texts |= {f"{count} buffers, all at once": packings(count, steps) for count, steps in sizes}
    compare("packings", texts, update_golden)


def test_tile_lengths(update_golden: bool) -> None:
    """The tile lengths that the solver tries for each extent are those of the golden."""
    compare("tile_lengths", {"tile lengths": tile_lengths()}, update_golden)


def compare(name: str, texts: dict[str, str], update_golden: bool) -> None:
    """Fail where a text has another digest than in the golden of that name."""
    digests = {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in sorted(texts.items())}
    golden = DIGESTS / f"{name}.txt"
    if update_golden:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    assert golden.is_file(), f"{golden} is missing; `make golden` writes it"
    agreed = {name: digest for digest, name in (line.split("  ") for line in golden.read_text().splitlines())}
    changed = sorted(name for name in digests.keys() | agreed.keys() if digests.get(name) != agreed.get(name))
    assert not changed, f"{', '.join(changed)} changed; `make golden` accepts that, and a changelog line says why"
