"""Messages for impossible requests: place, cause, numbers, a remedy; exit code 2 and no traceback."""

import json
import re
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.core.errors import (
    DeployerError,
    InternalError,
    PlacementInfeasible,
    TilingInfeasible,
    UnsupportedOperator,
)
from deployer.core.plan import Options
from deployer.planning import lifetimes, schedule, tile
from deployer.tilers.strategies.strategy import registry
from DeployTest.support.building.cases import case_dir, load_case
from DeployTest.support.building.command_line import deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.training]

REQUESTS = {
    "unknown target": (["-p", "toaster"], ["no target 'toaster'", "host | host_flat | qemu_riscv | siracusa"]),
    "L1 of 0": (["--l1", "0"], ["--l1", "'0' is not a whole number above 0"]),
    "L1 not a number": (["--l1", "1e3"], ["'1e3' is not a whole number"]),
    "L1 beyond the memory": (["--l1", "262144"], ["262144 B, of which 16384 B", "--l1 between 1 and 245760"]),
    "L1 that holds nothing": (["--l1", "1"], ["TilingInfeasible: node", "free           0 B of 1 B"]),
    "L2 that holds nothing": (
        ["--l1", "2000", "--l2", "64"],
        ["do not fit L2", "available      64 B", "largest", "--l2 "],
    ),
    "L2 too small and L3 allowed": (
        ["--l1", "2000", "--l2", "64", "--defaultMemLevel", "L3"],
        ["does not fit L2", "free           64 B of 64 B", "--l2 "],
    ),
    "an unknown level": (["--defaultMemLevel", "L4"], ["level 'L4'", "--defaultMemLevel L2 or L3"]),
    "too many cores": (["--cores", "9"], ["--cores 9", "1 to 8"]),
    "an opt-out without effect": (["--opt-out", "Gemm"], ["--buffering training_double"]),
    "two bufferings": (["--singlebuffer", "--doublebuffer"], ["not allowed with"]),
    "a tolerance of NaN": (["--tolerance", "nan"], ["'nan' is not a finite number"]),
    "a negative tolerance": (["--tolerance=-1"], ["'-1' is negative"]),
    "an infinite rate": (["--lr", "inf"], ["'inf' is not a finite number"]),
    "nothing generated": (["--skipgen"], ["plan.json does not exist", "without --skipgen"]),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_request(
    request_: tuple[list[str], list[str]], models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options without a meaning are refused with the numbers they run against."""
    flags, words = request_
    message = refused(capsys, "train", "-t", case_dir("simple_mlp", models_root), "-o", tmp_path, *flags)
    for word in words:
        assert word in message


def test_paths(models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files and folders that are missing, or that cannot be made."""
    case = case_dir("simple_mlp", models_root)
    nowhere = tmp_path / "nowhere"
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert f"{nowhere} is not a folder" in refused(capsys, "train", "-t", nowhere)
    assert "holds 0 *_train folders" in refused(capsys, "train", "-t", tmp_path)
    assert "network.onnx does not exist" in refused(capsys, "infer", "-t", nowhere)
    assert "does not exist" in refused(capsys, "train-graph", nowhere, "--loss", "mse", "-o", tmp_path)
    assert "does not exist" in refused(capsys, "emit", "--plan", nowhere, "-o", tmp_path)
    assert "not a JSON artefact" in refused(capsys, "emit", "--plan", blocked, "-o", tmp_path)
    assert str(blocked) in refused(capsys, "train", "-t", case, "-o", blocked / "c")
    dump = blocked / "d.npz"
    assert str(blocked) in refused(capsys, "train", "-t", case, "-o", tmp_path / "c", "--dump", dump)


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command, or with an unknown one, the usage lists all commands."""
    assert "arguments are required" in refused(capsys)
    assert "train-graph" in refused(capsys, "trian")


def test_files_of_another_case(models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--from accepts a tiling of the same case, and no other artefact."""
    mine, other = case_dir("simple_mlp", models_root), case_dir("autoencoder", models_root)
    assert deployer("compile", "-t", mine, "-o", tmp_path, "--l1", "4000") == 0
    tiling = tmp_path / "tiling.json"
    again = ["compile", "-o", tmp_path / "c", "--from"]
    assert "other graphs than" in refused(capsys, *again, tiling, "-t", other)
    assert "made for 1 passes per update" in refused(
        capsys, *again, tiling, "-t", mine, "--accumulate-grad-batches", "2"
    )
    assert deployer(*again, tiling, "-t", mine, "--n-steps", "8") == 0, "how many passes run is no matter of tiles"
    assert "is a Plan" in refused(capsys, *again, tmp_path / "plan.json", "-t", mine)
    assert "not a Plan" in refused(capsys, "emit", "--plan", tiling, "-o", tmp_path / "c")
    assert "other graphs than" in refused(capsys, "train", "-t", other, "-o", tmp_path, "--skipgen")
    assert "8, in the file 4" in refused(capsys, "train", "-t", mine, "-o", tmp_path, "--skipgen", "--n-steps", "8")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        (("steps", 0, "tile", "k"), 65, "breaks a rule"),
        (("steps", 0, "tile", "k"), "8", "does not hold a valid Tiling"),
        (("steps", 0, "colour"), 1, "has no field 'colour'"),
        (("steps", 0, "tile"), {"m": 1}, "breaks a rule"),
        (("table_bytes",), 0, "breaks a rule"),
    ],
)
def test_bad_edit(
    field: tuple[str | int, ...],
    value: object,
    words: str,
    models_root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A wrong edit of a tiling is its editor's error, and says where."""
    case = case_dir("simple_mlp", models_root)
    path = tmp_path / "tiling.json"
    assert deployer("compile", "-t", case, "-o", tmp_path, "--l1", "4000") == 0
    artefact = json.loads(path.read_text())
    place = artefact["body"]
    for key in field[:-1]:
        place = place[key]
    place[field[-1]] = value
    path.write_text(json.dumps(artefact))
    assert words in refused(capsys, "compile", "-t", case, "-o", tmp_path / "c", "--from", path)


def attempt(test: str, strategy: str, budgets: dict[str, int], root: Path) -> DeployerError | None:
    """Plan a case; the error, if any."""
    case = load_case(test, root)
    try:
        pipeline.plan_case(case, Options("host", strategy, budgets))
    except DeployerError as error:
        return error
    return None


def proposed(error: DeployerError | None, flag: str) -> int:
    """The number an error proposes for a flag."""
    assert error is not None
    match = re.match(rf"{flag} (\d+)", error.hint)
    assert match, str(error)
    return int(match[1])


LEAST = [
    *(("simple_mlp", name) for name in ("single", "double", "auto", "training_double")),
    *(("simple_mlp_batch4", name) for name in ("double", "auto")),
    *(pytest.param("autoencoder", name, marks=pytest.mark.slow) for name in ("single", "double")),
]
"""At the least L1 of a large layer tiles hold one element, and planning takes minutes: these layers are small."""


@pytest.mark.parametrize(("test", "strategy"), LEAST)
def test_least_l1(test: str, strategy: str, models_root: Path) -> None:
    """The L1 that the error proposes is the least: it works, and one byte less names step, bytes and what would fit."""
    least = proposed(attempt(test, strategy, {"L1": 4}, models_root), "--l1")
    assert attempt(test, strategy, {"L1": least}, models_root) is None
    for budget in (least - 1, least // 2, least // 3):
        error = attempt(test, strategy, {"L1": budget}, models_root)
        assert isinstance(error, TilingInfeasible)
        assert proposed(error, "--l1") == least
        facts = dict(error.facts)
        needed = re.search(r": (\d+) B, (\w+) buffering", facts["smallest tile"])
        free = re.match(rf"(\d+) B of {budget} B \(argument tables (\d+) B\)", facts["free"])
        assert needed is not None
        assert free is not None
        assert int(needed[1]) + int(free[2]) == least
        assert int(free[1]) == max(budget - int(free[2]), 0)
        assert re.match(r"node '[^']+' \(\w+\) does not fit L1 of target 'host'", error.cause)


def test_strategies_differ(models_root: Path) -> None:
    """Double buffering needs more than single; auto takes what single takes, and the error of double says so."""
    least = {name: proposed(attempt("autoencoder", name, {"L1": 4}, models_root), "--l1") for name in registry()}
    assert least["single"] == least["auto"] < least["double"] == least["training_double"]
    error = attempt("autoencoder", "double", {"L1": least["single"]}, models_root)
    assert error is not None
    assert "single buffering" in error.hint


def test_unpacked_residents(models_root: Path) -> None:
    """If packing withholds more than the slots can spare, nothing is resident, and slots alone always pack."""
    case = load_case("simple_mlp", models_root)
    alive = lifetimes.find_lifetimes(schedule.make_schedule(case.program, Options("host", "auto", {"L1": 1000})))
    tiling = tile.Tiler(alive).tile((900, 0))
    assert tiling.resident == ()
    pipeline.place_tiling(tiling)
    assert tile.Tiler(alive).tile().resident


@pytest.mark.parametrize("test", ["simple_mlp", "autoencoder"])
def test_least_l2(test: str, models_root: Path) -> None:
    """The L2 that the error proposes works, and one byte less does not."""
    least = proposed(attempt(test, "single", {"L1": 2600, "L2": 64}, models_root), "--l2")
    assert attempt(test, "single", {"L1": 2600, "L2": least}, models_root) is None
    error = attempt(test, "single", {"L1": 2600, "L2": least - 1}, models_root)
    assert isinstance(error, PlacementInfeasible)
    assert dict(error.facts)["available"] == f"{least - 1} B"


def test_kinds() -> None:
    """The user's errors end with 2, ours with 70."""

    def below(kind: type) -> list[type]:
        return [kind, *(x for child in kind.__subclasses__() for x in below(child))]

    codes = {kind.__name__: kind.exit_code for kind in below(DeployerError)}
    internal = {kind.__name__ for kind in (DeployerError, *below(InternalError))}
    assert {name for name, code in codes.items() if code == 70} == internal
    assert {code for name, code in codes.items() if name not in internal} == {2}


def test_long_names() -> None:
    """Names of any length leave a message that fits a screen of 40 rows of 120, and its sense; short lines stay."""
    name = "n" * 9000
    facts = [("inputs", f"{name}, x"), ("domain", "default"), ("rule", "r" * 180), ("outputs", name)]
    text = str(UnsupportedOperator(f"node {name!r}: there is no such operator", facts, f"one of {name}"))
    assert sum(1 + len(line) // 120 for line in text.splitlines()) <= 40
    assert all(part in text for part in ("there is no such operator", "  domain         default\n", "r" * 180))
    listing = [f"line {i} {'x' * 150}" for i in range(100)]
    assert all(line in str(UnsupportedOperator("cause", [("lines", "\n".join(listing))])) for line in listing)
