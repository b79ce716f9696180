"""Re-entry: edited and foreign files, and command lines that contradict a file, are refused with an error."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from DeployTest.support.building.cases import case_dir
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.support.building.json_edits import resealed

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.fixture(scope="module")
def artefacts(models_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A case and the folder that `train --skipsim` left."""
    case, folder = case_dir("simple_mlp", models_root), tmp_path_factory.mktemp("made") / "c"
    words = ["--l1", "4000", "--singlebuffer", "--no-fusion", "--skipsim"]
    assert deployer("train", "-t", case, "-o", folder, *words) == 0
    return case, folder


@pytest.fixture
def copied(artefacts: tuple[Path, Path], tmp_path: Path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(artefacts[1], tmp_path / "c"))


def edit(path: Path, change: Callable[[Any], object], seal: bool = False) -> None:
    """Change an artefact's body, with a digest that fits where wanted."""
    envelope = json.loads(path.read_text())
    change(envelope["body"])
    path.write_text(resealed(json.dumps(envelope)) if seal else json.dumps(envelope))


def put(*keys: Any, value: Any) -> Callable[[Any], object]:
    """Set what lies under these keys."""

    def change(body: Any) -> None:
        for key in keys[:-1]:
            body = body[key]
        body[keys[-1]] = value

    return change


def test_edited_plan(copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An edited plan is refused: edits belong into the tiling."""
    plan = copied / "plan.json"
    edit(plan, put("steps", 0, "cycles", value=1))
    message = refused(capsys, "emit", "--plan", plan, "-o", tmp_path / "e")
    assert "was edited or damaged" in message
    assert "deployer compile --from" in message


def test_plan_of_another_tiling(copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An edited plan with a correct digest is refused because it differs from the plan of its tiling.json."""
    rate = put("steps", -1, "args", "lr", value={"_": "Const", "value": 0.5})
    edit(copied / "plan.json", rate, seal=True)
    message = refused(capsys, "emit", "--plan", copied / "plan.json", "-o", tmp_path / "e")
    assert "breaks a rule: [plan] step" in message
    edit(copied / "tiling.json", put("packing_slack", 0, value=4), seal=True)
    assert "is not the plan of" in refused(capsys, "emit", "--plan", copied / "plan.json", "-o", tmp_path / "e")


def argument(step: int, name: str, form: str, **fields: object) -> tuple[Callable[[Any], object], str]:
    """Give a kernel's argument that value, which it cannot have."""
    return put("steps", step, "args", name, value={"_": form, **fields}), f"argument {name} cannot be"


def without(*keys: Any) -> Callable[[Any], object]:
    """Leave out what lies under these keys."""

    def change(body: Any) -> None:
        for key in keys[:-1]:
            body = body[key]
        del body[keys[-1]]

    return change


WINDOW = {"_": "Window", "dim": "k", "stride": 1, "dilation": 1, "pad": 0}
ALONE = {
    "kernel": (put("steps", 0, "kernel", "symbol", value="system"), "[plan] step 0"),
    "operator": (put("steps", 0, "op", value="Rm"), "[plan] step 0"),
    "index": (put("steps", 0, "index", value=1), "stands at position 0"),
    "target": (put("options", "target", value="../host"), "there is no target '../host'"),
    "buffering": (put("options", "strategy", value="*/ x /*"), "there is no buffering"),
    "tolerance": (put("running", "tolerance", value=1e300), "a tolerance of 1e+300"),
    "level": (put("homes", 0, "level", value="L9"), "which the plan does not use"),
    "offset": (put("homes", 0, "offset", value=1 << 30), "[budget]"),
    "alignment": (put("homes", 0, "offset", value=2), "[alignment]"),
    "dead": (put("homes", 0, "last", value=0), "[lifetime]"),
    "extent of nobody": argument(0, "n", "Extent", dim="q"),
    "extent as a rate": argument(-1, "lr", "Extent", dim="n"),
    "start of nobody": argument(0, "n", "Start", dim="q"),
    "start as a rate": argument(-1, "lr", "Start", dim="n"),
    "stride of nobody": argument(0, "a_m", "Stride", arg="q", axis=1),
    "stride of no axis": argument(0, "a_m", "Stride", arg="a", axis=3),
    "stride of an axis below 0": argument(0, "a_m", "Stride", arg="a", axis=-1),
    "stride as a rate": argument(-1, "lr", "Stride", arg="w", axis=0),
    "length of no axis": argument(0, "m", "Length", arg="a", axis=3),
    "length as a rate": argument(-1, "lr", "Length", arg="w", axis=0),
    "offset of no window": argument(0, "m", "Offset", arg="a", axis=1),
    "flag of an update": argument(-1, "n", "Flag"),
    "flag as a rate": argument(0, "alpha", "Flag"),
    "first as a rate": argument(0, "alpha", "First"),
    "half a count": argument(0, "n", "Const", value=0.5),
    "a count below 0": argument(0, "n", "Const", value=-1),
    "a count of 33 bits": argument(0, "n", "Const", value=1 << 32),
    "an argument too few": (without("steps", 0, "args", "n"), "the kernel has"),
    "levels": (put("levels", 0, "name", value="L9"), "are not the target's"),
    "tables": (put("table_bytes", value=-4), "[table]"),
    "steps": (put("steps", value=[]), "[lifetime] the home of"),
    "graph of nobody": (put("steps", 0, "graph", value="q"), "is in graph 'q', out of order"),
    "order of graphs": (put("steps", 0, "graph", value="optimizer"), "out of order"),
    "a storage too few": (without("storage_of", "loss"), "storages are not those of"),
    "home below 0": (put("homes", 0, "offset", value=-4), "[alignment]"),
    "element type": (put("homes", 0, "type", "dtype", value="int9"), "is not made for"),
    "no elements": (put("homes", 0, "type", "shape", value=[0]), "is not made for"),
    "bytes of a home": (put("homes", 0, "bytes", value=4), "is not made for"),
    "life beyond the end": (put("homes", 0, "last", value=1000), "[lifetime]"),
    "costs of tiles": (put("steps", 0, "tile_cycles", value=[]), "0 costs"),
    "costs of uneven parts": (put("steps", 9, "dims", 0, "outer", value=300), "3 tiles, 2 costs"),
    "operand of nobody": (put("steps", 0, "operands", 0, "storage", value="q"), "has no home"),
    "view": (put("steps", 0, "operands", 0, "view", value=[1, 1, 63]), "[cover]"),
    "axes": (put("steps", 0, "operands", 0, "axes", value=[]), "0 axes over"),
    "fresh": (put("steps", 0, "operands", 0, "overwrite_on_first_pass", value=True), "is fresh and not in place"),
    "slots below 0": (put("steps", 0, "operands", 0, "slot_offset", value=-4), "[slots]"),
    "dims twice": (put("steps", 0, "dims", 1, "name", value="batch"), "dims are not distinct"),
    "tile of nothing": (put("steps", 0, "dims", 2, "tile", value=0), "tile n=0"),
    "tile beyond the stage": (put("steps", 0, "dims", 2, "outer", value=4), "tile n=8 of 4"),
    "stage of nobody": (put("steps", 0, "operands", 0, "stage_slots", value=1), "[stage]"),
    "window of nothing": (put("steps", 0, "operands", 0, "axes", 0, value={"_": "At", "dim": "q"}), "is not a dim"),
    "window without elements": (
        put("steps", 0, "operands", 0, "axes", 2, value=WINDOW | {"kernel": 0}),
        "has the window",
    ),
    "padding of 33 bits": (
        put("steps", 0, "operands", 0, "axes", 2, value=WINDOW | {"kernel": 1, "pad": 1 << 32}),
        "has the window",
    ),
    "slot": (put("steps", 0, "operands", 0, "slots", value=9), "[slots]"),
    "tile": (put("steps", 0, "dims", 0, "tile", value=1 << 40), "[plan] step 0"),
    "graphs": (put("graphs", value=["optimizer", "train"]), "no harness for graphs"),
    "outputs": (put("outputs", value=[]), "there are no outputs"),
}


@pytest.mark.parametrize("fault", ALONE)
def test_plan_alone(fault: str, copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plan without its tiling is checked alone, even where its digest is correct."""
    change, words = ALONE[fault]
    (copied / "tiling.json").unlink()
    edit(copied / "plan.json", change, seal=True)
    assert words in refused(capsys, "emit", "--plan", copied / "plan.json", "-o", tmp_path / "e")
    assert not (tmp_path / "e").exists()


BROKEN = {
    "a key twice": ('{"kind": "Plan", "kind": "Plan", "version": 2, "body": {}}', "'kind' is defined twice"),
    "NaN": ('{"kind": "Plan", "version": 2, "body": NaN}', "NaN is not a number of JSON"),
    "a number without end": ('{"kind": "Plan", "version": 2, "body": 1e999}', "1e999 is beyond"),
    "a large number": (f'{{"kind": "Plan", "version": 2, "body": {1 << 60}}}', "is beyond 9007199254740992"),
    "a number of 5000 digits": (f'{{"kind": "Plan", "version": 2, "body": {"9" * 5000}}}', "is beyond"),
    "nesting": ("[" * 100_000, "nested too deeply"),
    "a body of text": ('{"kind": "Plan", "version": 2, "body": "x"}', "expected a Plan"),
    "a list": ("[]", "no artefact of the deployer"),
    "half a character": ('{"kind": "\\ud800", "version": 2, "body": {}}', "is a '\\ud800' 2, not a Plan 2"),
    "a key of half a character": ('{"\\ud800": 1}', "surrogates not allowed"),
    "another kind of thing": ('{"kind": {"a": [1]}, "version": 2, "body": {}}', "not a Plan 2"),
    "bytes that are not text": ("\udcff", "not a JSON artefact"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_no_artefact(fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not exactly JSON, or no artefact, is refused with the fault that it has."""
    text, words = BROKEN[fault]
    (tmp_path / "plan.json").write_bytes(text.encode(errors="surrogateescape"))
    assert words in refused(capsys, "emit", "--plan", tmp_path / "plan.json", "-o", tmp_path / "e")


OTHERWISE = {
    "L1": (["--l1", "4004"], "--l1           4004, in the file 4000"),
    "buffering": (["--doublebuffer"], "--buffering    double, in the file single"),
    "the default's value": (["--buffering", "auto"], "--buffering    auto, in the file single"),
    "target": (["-p", "siracusa"], "-p             siracusa, in the file host"),
    "cores": (["--cores", "2"], "--cores        2, in the file None"),
    "outermost": (["--defaultMemLevel", "L3"], "--defaultMemLevel L3, in the file L2"),
    "fused": (["--fused"], "--fused        True, in the file False"),
    "passes per update": (["--accumulate-grad-batches", "2"], "1 passes per update"),
    "rate": (["--lr", "0.5"], "other graphs than"),
}


@pytest.mark.parametrize("way", ["--skipgen", "--from"])
@pytest.mark.parametrize("option", OTHERWISE)
def test_command_line_is_not_overruled(
    option: str, way: str, artefacts: tuple[Path, Path], copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option of the command line that contradicts the file is refused by name."""
    words, text = OTHERWISE[option]
    command = ["train", "--skipgen"] if way == "--skipgen" else ["compile", "--from", copied / "tiling.json"]
    assert text in refused(capsys, *command, "-t", artefacts[0], "-o", copied, *words)


RUNNING = {
    "tolerance": (["--tolerance", "1e-3"], "--tolerance    0.001, in the file 1e-05"),
    "passes": (["--n-steps", "8"], "passes         8, in the file 4"),
}


@pytest.mark.parametrize("option", RUNNING)
def test_running_is_apart(
    option: str, artefacts: tuple[Path, Path], copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options of the harness: --skipgen refuses a change, --from takes them from the command line."""
    words, text = RUNNING[option]
    assert text in refused(capsys, "train", "--skipgen", "-t", artefacts[0], "-o", copied, *words)
    before = (copied / "plan.json").read_text(), (copied / "tiling.json").read_text(), c_files(copied)
    command = ["compile", "--from", copied / "tiling.json", "-t", artefacts[0], "-o", copied, "--force"]
    assert deployer(*command) == 0
    assert ((copied / "plan.json").read_text(), (copied / "tiling.json").read_text(), c_files(copied)) == before
    assert deployer(*command, *words) == 0
    assert (copied / "plan.json").read_text() != before[0]
    assert (copied / "tiling.json").read_text() == before[1]
    changed = {name for name, content in c_files(copied).items() if content != before[2][name]}
    assert changed == {"Harness.c", *(["SimulationMap.c"] if option == "passes" else [])}


def c_files(folder: Path) -> dict[str, str]:
    """Generated C by name."""
    return {path.name: path.read_text() for path in sorted(folder.glob("*.[ch]"))}


@pytest.mark.parametrize("field", ["accumulate", "target"])
def test_options_in_an_edited_tiling(
    field: str, artefacts: tuple[Path, Path], copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options that are invalid are refused in a file as on the command line."""
    value = {"accumulate": 2, "target": "nowhere"}[field]
    edit(copied / "tiling.json", put("lifetimes", "schedule", "options", field, value=value))
    text = {"target": "there is no target"}.get(field, "was made for")
    path = copied / "tiling.json"
    assert text in refused(capsys, "compile", "--from", path, "-t", artefacts[0], "-o", copied / "again")


def test_skipgen_wants_its_own_files(
    artefacts: tuple[Path, Path], copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words that agree are accepted; an edited plan, an edited tiling or other input data are not."""
    words = ["train", "-t", artefacts[0], "-o", copied, "--skipgen", "--l1", "4000", "--singlebuffer", "--no-fusion"]
    assert deployer(*words) == 0
    data = (copied / "input.bin").read_bytes()
    (copied / "input.bin").write_bytes(data[:-4] + np.float32(3).tobytes())
    assert "input.bin holds other numbers" in refused(capsys, *words)
    (copied / "input.bin").unlink()
    assert "input.bin does not exist" in refused(capsys, *words)
    (copied / "input.bin").write_bytes(data)
    for name in ("tiling.json", "plan.json"):
        text = (copied / name).read_text()
        edit(copied / name, lambda body: body.update(table_bytes=body["table_bytes"] + 4))
        assert f"{name} was edited or damaged" in refused(capsys, *words)
        (copied / name).write_text(text)
    assert deployer(*words) == 0


def test_other_initial_weights(artefacts: tuple[Path, Path], copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--skipgen refuses a case whose numbers changed since."""
    other = Path(shutil.copytree(artefacts[0].parent, copied / "case")) / artefacts[0].name
    with np.load(other / "inputs.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["arr_0000"] = arrays["arr_0000"] + np.float32(1)
    np.savez(other / "inputs.npz", **arrays)
    assert "input.bin holds other numbers" in refused(capsys, "train", "-t", other, "-o", copied, "--skipgen")
