"""Targets as data: every TOML describes a machine, a faulty one is told all its faults at once, budgets are kept."""

import re
import shutil
from pathlib import Path

import pytest

from deployer.core import target as targets
from deployer.core.cost import without_cost
from deployer.core.errors import MOST_FACTS, OptionProblem
from deployer.core.target import TARGETS_DIR, TargetInvalid
from deployer.running import build

pytestmark = [pytest.mark.host]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The data of all targets in a folder that may be spoilt."""
    for path in TARGETS_DIR.rglob("*.toml"):
        copy = tmp_path / path.relative_to(TARGETS_DIR)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return tmp_path


def spoilt(path: Path, *edits: tuple[str, str]) -> list[str]:
    """The faults of a TOML in which each pattern was replaced once."""
    text = path.read_text()
    for pattern, replacement in edits:
        text, count = re.subn(pattern, replacement, text, count=1, flags=re.MULTILINE)
        assert count == 1, pattern
    path.write_text(text)
    with pytest.raises(TargetInvalid) as caught:
        targets.parse(path)
    return [text for _, text in caught.value.facts]


@pytest.mark.parametrize("name", targets.names())
def test_loads(name: str) -> None:
    """Every target: levels from the inside out, a hop between neighbours, a toolchain with folders, or a rack."""
    target = targets.load(name)
    assert target.name == name
    assert target.description
    assert len({level.name for level in target.levels}) == len(target.levels) > 0
    assert len(target.hops) == len(target.levels) - 1
    for level in target.levels:
        assert 0 < level.budget <= level.bytes - level.reserved
    assert list(target.levels) == sorted(target.levels, key=lambda level: level.bytes)
    for hop in target.hops:
        assert hop.inward.cycles(1024, 1) > hop.inward.cycles(4, 1) > 0
        assert hop.outward.cycles(1024, 8) >= hop.outward.cycles(1024, 1)
    assert (target.toolchain is None) == targets.rack_file(name).is_file()
    if target.toolchain is None:
        return
    for source in target.toolchain.sources:
        assert (TARGETS_DIR / source).is_dir()


def test_simulated_machine_is_the_same() -> None:
    """The host inherits the memories and costs of the target that its file names."""
    base = targets.load(re.search(r'inherits = "(\w+)"', (TARGETS_DIR / "host.toml").read_text())[1])  # type: ignore[index]
    host = targets.load("host")
    assert (host.levels, host.hops, host.kernels, host.cores) == (base.levels, base.hops, base.kernels, base.cores)
    assert (host.dispatch, host.step, host.alignment) == (base.dispatch, base.step, base.alignment)
    assert host.toolchain != base.toolchain


def test_all_faults_at_once(folder: Path) -> None:
    """One message names every fault, with its place."""
    faults = spoilt(
        folder / "siracusa.toml",
        (r'^name = "siracusa"', 'name = "rome"\ncolour = "red"'),
        (r"^cores = \d+", "cores = 0"),
        (r"^alignment = \d+", 'alignment = "four"'),
        (r"^budget = \d+", "budget = 262145"),
        (r"^bytes = 2031616\nbudget = ", "size = 2031616\nallowed = "),
        (r'^compiler = \["riscv64-unknown-elf-gcc"\]', 'compiler = "gcc"'),
        (r"^sanitize = .*$", ""),
    )
    messages = (
        "name is 'rome', the file is 'siracusa'",
        "unknown keys ['colour']",
        "cores is not positive",
        "alignment is missing or no int",
        "level L1: budget + reserved exceeds bytes",
        "levels[1] lacks 'bytes'",
        "levels[1] lacks 'budget'",
        "levels[1] has no key 'size'",
        "levels[1] has no key 'allowed'",
        "toolchain.compiler: ",
        "toolchain lacks 'sanitize'",
    )
    for text in messages:
        assert any(text in fault for fault in faults), (text, faults)
    assert len(faults) == len(messages)


def test_many_faults_are_counted(folder: Path) -> None:
    """The message of a table with keys of another one still fits a screen."""
    others = "\n".join(f"other{i} = 0" for i in range(MOST_FACTS + 5))
    faults = spoilt(folder / "siracusa.toml", (r"^\[toolchain\]$", f"[toolchain]\n{others}"))
    assert faults[MOST_FACTS:] == ["5 more"]


@pytest.mark.parametrize(
    ("file", "edit", "word"),
    [
        ("host.toml", (r'^inherits = "\w+"', ""), "0 levels"),
        ("host.toml", (r'^inherits = "\w+"', 'inherits = "atlantis"'), "atlantis"),
        ("host.toml", (r'^inherits = "\w+"', 'inherits = "host"'), "inherits from itself"),
        ("siracusa.toml", (r"^clock = ", 'inherits = "host"\nclock = '), "inherits from itself"),
        ("host.toml", (r'^inherits = "\w+"', "inherits = 1"), "inherits"),
        ("host.toml", (r"^guard_bytes = \d+", "guard_bytes = []"), "guard_bytes is not of type int"),
        ("host.toml", (r"^guard_bytes = \d+", "guard_bytes = -4"), "guard_bytes is negative"),
        ("host.toml", (r"^guard_bytes = ", "most_cores = 7\nguard_bytes = "), "most_cores is 7, below cores"),
        ("host.toml", (r"^guard_bytes = ", 'most_cores = "all"\nguard_bytes = '), "most_cores is not of type int"),
        ("host.toml", (r"^guard_bytes = ", 'whole_sums = ["gemm_f32"]\nguard_bytes = '), "whole_sums is for one level"),
        ("host.toml", (r"^guard_bytes = ", "whole_sums = [1]\nguard_bytes = "), "whole_sums does not list names"),
        ("host.toml", (r"^description = .*", "description = 3"), "description is not of type str"),
        ("host.toml", (r'^name = "host"', 'name = "host'), "line 1"),
        ("host.toml", (r'^name = "host"', 'name = "host"\nlevels = 3\ncost = 4'), "levels is not of type list"),
        ("siracusa.toml", (r'^name = "L2"', 'name = "l1"'), "levels ['l1', 'l1', 'l3'] have one name"),
        ("siracusa/costs.toml", (r'^\[kernels\."?default"?\]', "[kernels.usual]"), "kernels.default is missing"),
        ("siracusa/costs.toml", (r"^tile = \d+", ""), "cost.tile is missing"),
        ("siracusa/costs.toml", (r"^tile = ", "doubled = 3\ntile = "), "cost has no key 'doubled'"),
        ("siracusa/costs.toml", (r"^issue = \d+", ""), "hops[0].issue is missing"),
        ("siracusa/costs.toml", (r"^issue = ", "start = 3\nissue = "), "hops[0] has no key 'start'"),
        ("siracusa/costs.toml", (r"^element_milli = \d+", "element_milli = 99999999999999999999"), "beyond 2147483647"),
        (
            "siracusa/costs.toml",
            (r"^in = { setup = \d+", "in = { setup = -2147483648"),
            "hops[0].in.setup is -2147483648",
        ),
        ("siracusa/costs.toml", (r"^in = \{ setup = \d+, ", "in = { "), "hops[0].in lacks 'setup'"),
    ],
)
def test_fault(file: str, edit: tuple[str, str], word: str, folder: Path) -> None:
    """Faults of what a target inherits, and of what is no TOML, are found on loading it."""
    path = folder / file
    path.write_text(re.sub(*edit, path.read_text(), count=1, flags=re.MULTILINE))
    with pytest.raises(TargetInvalid) as caught:
        targets.parse(folder / "host.toml")
    assert word in str(caught.value)


def test_level_of_the_linker(folder: Path) -> None:
    """Placeholders in the linker's words name existing levels."""
    faults = spoilt(folder / "siracusa.toml", (r'^name = "L2"', 'name = "SRAM"'))
    assert faults == ["toolchain.link has placeholders ['l2_bytes'] of nothing"]


def test_flags_know_the_cores(folder: Path) -> None:
    """Flags may have the plan's cores in them, and nothing else."""
    faults = spoilt(folder / "host_flat.toml", (r"{cores}", "{kernels}"))
    assert faults == ["toolchain.flags has placeholders ['kernels'] of nothing"]
    target = targets.load("host_flat")
    assert "-DHAL_CORES=5" in build.toolchain(target.with_options({}, 5)).flags


def test_unknown() -> None:
    """A target that does not exist is answered with those that do."""
    with pytest.raises(OptionProblem) as caught:
        targets.load("toaster")
    for name in targets.names():
        assert name in caught.value.hint


def test_budgets() -> None:
    """A budget is at most the unreserved bytes of its level, cores at most those of the target."""
    target = targets.load("host")
    for level, flag in zip(target.levels, ("--l1", "--l2", "--budget L3"), strict=True):
        most = level.bytes - level.reserved
        assert target.with_options({level.name: most}, None).level(level.name).budget == most
        for wrong in (0, -1, most + 1):
            with pytest.raises(OptionProblem, match=f"{re.escape(flag)}[ =]{wrong} is not within target 'host'"):
                target.with_options({level.name: wrong}, None)
    with pytest.raises(OptionProblem, match="no level 'L4'"):
        target.with_options({"L4": 1}, None)
    assert target.with_options({}, None) == target
    assert target.with_options({}, 1).cores == 1
    for wrong in (0, target.cores + 1):
        with pytest.raises(OptionProblem, match=f"--cores {wrong}"):
            target.with_options({}, wrong)
    with pytest.raises(OptionProblem, match="no level 'L9'"):
        target.level("L9")


@pytest.mark.parametrize("name", sorted(path.parent.name for path in TARGETS_DIR.glob("*/costs.toml")))
def test_kernels_without_costs_are_named(name: str) -> None:
    """A kernel that was never measured is named, as the report and the page of targets do; a measured one is not."""
    target = targets.load(name)
    measured = {key.partition(".")[0] for key in target.kernels}
    assert without_cost(target, measured) == ()
    new = [f"new{i:02}_f32" for i in range(20)]
    assert without_cost(target, {*measured, *new}) == tuple(new)
