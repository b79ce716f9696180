"""Output folders keep the user's files: our files are known by digest, and edited ones count as the user's."""

import json
import os
from pathlib import Path

import pytest

from deployer.calibration.calibrate import restored_on_failure
from deployer.core.errors import FileProblem, OptionProblem
from deployer.running import output
from DeployTest.support.building.cases import case_dir
from DeployTest.support.building.command_line import deployer, generated, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
MANIFEST = Path(output.OWN) / output.MANIFEST
SLOW = {
    "foreign": [
        pytest.param(n, marks=pytest.mark.slow) for n in ("plan.json", "output.bin", "report.json", "Harness.o")
    ],
    "edited": [pytest.param(n, marks=pytest.mark.slow) for n in ("tiling.json", "report.json", "SimulationMap.o")],
}
"""Files whose tests belong to the long run."""


@pytest.fixture
def case(models_root: Path) -> Path:
    """The smallest training case."""
    return case_dir("simple_mlp", models_root)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but those of the deployer's own subfolder."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def test_foreign_files_stay(case: Path, tmp_path: Path) -> None:
    """Sources of the user's own are neither removed nor compiled, however often the folder is written."""
    mine = {"mine.c": b"#error mine\n", "mine.h": b"mine", "mine.o": b"mine", "notes.json": b"{}", "data.bin": b"\0"}
    for name, text in mine.items():
        (tmp_path / name).write_bytes(text)
    for flags in (["--l1", "2000"], ["--no-fusion", "--l1", "8000"]):
        assert deployer("train", "-t", case, "-o", tmp_path, *flags) == 0
        assert mine.items() <= contents(tmp_path).items()


def test_what_an_earlier_plan_left_goes(case: Path, tmp_path: Path) -> None:
    """A folder holds the generated files of the last plan alone, with the same content as in a new folder."""
    used, new = tmp_path / "used", tmp_path / "new"
    assert deployer("train", "-t", case, "-o", used, "--no-fusion", "--skipsim") == 0
    before = set(contents(used))
    assert deployer("train", "-t", case, "-o", used, "--skipsim") == 0
    assert deployer("train", "-t", case, "-o", new, "--skipsim") == 0
    assert before - set(contents(used)), "both plans have the same files: the test shows nothing"
    assert generated(used) == generated(new)
    assert set(contents(used)) == set(contents(new))


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("name", ["TrainingNetwork.c", "network", *SLOW["foreign"]])
def test_foreign_files_are_not_overwritten(
    name: str, case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of the user's in the place of one of ours: refused by name, nothing is written; --force takes it."""
    (tmp_path / name).write_text("mine")
    message = refused(capsys, "train", "-t", case, "-o", tmp_path)
    assert name in message
    assert "--force" in message
    assert contents(tmp_path) == {name: b"mine"}
    assert deployer("train", "-t", case, "-o", tmp_path, "--force") == 0
    assert (tmp_path / name).read_bytes() != b"mine"
    assert deployer("train", "-t", case, "-o", tmp_path) == 0


@pytest.mark.parametrize("name", ["Harness.c", *SLOW["edited"]])
def test_edits_are_the_users(name: str, case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of ours that was changed counts as the user's."""
    assert deployer("train", "-t", case, "-o", tmp_path) == 0
    path = tmp_path / name
    path.write_bytes(path.read_bytes() + b" ")
    before = contents(tmp_path)
    assert name in refused(capsys, "train", "-t", case, "-o", tmp_path, "--no-fusion")
    assert contents(tmp_path) == before
    assert deployer("train", "-t", case, "-o", tmp_path, "--no-fusion", "--force") == 0


def test_an_edit_outlives_another_plan(case: Path, tmp_path: Path) -> None:
    """A header that a later plan does not have stays where it was edited."""
    folder, fused = tmp_path / "c", tmp_path / "fused"
    assert deployer("compile", "-t", case, "-o", folder, "--no-fusion") == 0
    assert deployer("compile", "-t", case, "-o", fused) == 0
    dropped = sorted({p.name for p in folder.glob("*.h")} - {p.name for p in fused.glob("*.h")})
    assert dropped
    (folder / dropped[0]).write_text("mine")
    assert deployer("compile", "-t", case, "-o", folder) == 0
    assert (folder / dropped[0]).read_text() == "mine"


def test_headers_that_would_be_taken_for_ours(case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A header of the user's that generated C would include instead of a kernel's or the HAL's is named."""
    names = ("sum_f32.h", "math_f32.h", "labels_f32.h", "share_f32.h")
    for name in names:
        (tmp_path / name).write_text("mine")
    assert f" holds {', '.join(sorted(names))}, which" in refused(capsys, "train", "-t", case, "-o", tmp_path)


def test_links_are_not_followed(case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A link in the folder is somebody's, and what it leads to is never written, by force neither."""
    target = tmp_path / "precious"
    target.write_text("mine")
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "plan.json").symlink_to(target)
    assert "plan.json" in refused(capsys, "train", "-t", case, "-o", folder)
    assert deployer("train", "-t", case, "-o", folder, "--force") == 0
    assert target.read_text() == "mine"


def test_odd_places(case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Output folders that are none, and one behind a link, which is one."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / output.OWN).symlink_to(tmp_path / "real")
    (tmp_path / "taken" / "plan.json").mkdir(parents=True)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "input.bin")
    words = ["compile", "-t", case, "-o"]
    assert "fifo is not a folder" in refused(capsys, *words, tmp_path / "fifo")
    assert "missing, which is not there" in refused(capsys, *words, tmp_path / "nowhere")
    assert f"{output.OWN} is a link" in refused(capsys, *words, tmp_path / "own")
    assert "plan.json is a folder" in refused(capsys, *words, tmp_path / "taken", "--force")
    assert "input.bin" in refused(capsys, *words, tmp_path / "pipe")
    assert list((tmp_path / "real").iterdir()) == []
    assert deployer(*words, tmp_path / "link") == 0
    assert (tmp_path / "real" / "plan.json").is_file()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"files": 1}', '{"files": {"a": 1}}', "[" * 100_000])
def test_damaged_manifest(text: str, tmp_path: Path) -> None:
    """A manifest that cannot be read is an error with a way out, not a reason to overwrite."""
    output.write(tmp_path, {"a.c": "x"})
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(FileProblem, match=r"manifest\.json is damaged"):
        output.write(tmp_path, {"a.c": "y"})
    assert (tmp_path / "a.c").read_text() == "x"


@pytest.mark.parametrize("name", ["../outside", "..", "/outside", "linked/outside", "sub/../../outside", "sub//file"])
def test_hostile_manifest(name: str, tmp_path: Path) -> None:
    """A manifest names files of its own folder, and of folders in it, to which no link leads."""
    folder = tmp_path / "c"
    output.write(folder, {"a.c": "x"})
    (tmp_path / "outside").write_text("x")
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_text("x")
    (folder / "linked").symlink_to(tmp_path)
    digests = json.loads((folder / MANIFEST).read_text())["files"]["a.c"]
    (folder / MANIFEST).write_text(json.dumps({"version": 1, "files": {name: [*digests, ""]}}))
    output.discard(folder, [name])
    assert (tmp_path / "outside").read_text() == "x"
    assert (folder / "sub" / "file").read_text() == "x"


def test_emit(case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`emit` overwrites by force alone, and does not take the plan it reads for an earlier one's rest."""
    assert deployer("compile", "-t", case, "-o", tmp_path / "c") == 0
    plan = tmp_path / "c" / "plan.json"
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "Harness.c").write_text("mine")
    assert "Harness.c" in refused(capsys, "emit", "--plan", plan, "-o", tmp_path / "e")
    assert deployer("emit", "--plan", plan, "-o", tmp_path / "e", "--force") == 0
    assert deployer("emit", "--plan", plan, "-o", tmp_path / "c") == 0
    assert plan.is_file()


def test_train_graph(case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A case is written completely or not at all, and never over foreign files."""
    words = ["train-graph", case.parent / "simple_mlp.onnx", "--loss", "cross_entropy", "-o", tmp_path]
    theirs = tmp_path / "simple_mlp_train" / "inputs.npz"
    theirs.parent.mkdir()
    theirs.write_bytes(b"mine")
    assert "inputs.npz" in refused(capsys, *words)
    assert contents(theirs.parent) == {"inputs.npz": b"mine"}
    assert deployer(*words, "--force") == 0
    assert deployer(*words, "--seed", 1) == 0
    before = contents(theirs.parent)
    assert "diverges" in refused(capsys, *words, "--lr", 1e30, "--any-rate")
    assert contents(theirs.parent) == before, "a case that could not be made replaced one"


@pytest.mark.parametrize("moves", range(6))
def test_ended_between_any_two_writes(moves: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends between two moves leaves each file old or new, and the manifest lists them all."""
    old = {"a": "old a", "b": "old b"}
    new = {"a": "new a", "b": "new b", "c": "new c"}
    output.write(tmp_path, old)
    replace, left = Path.replace, moves

    def counted(self: Path, target: Path) -> Path:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", counted)
    ended = False
    try:
        output.write(tmp_path, new)
    except KeyboardInterrupt:
        ended = True
    monkeypatch.undo()
    assert ended == (moves < 5), "two manifests and three files are moved"
    for name in new:
        path = tmp_path / name
        assert not path.exists() or path.read_text() in (old.get(name), new[name])
    assert output.foreign(tmp_path, new) == []
    output.write(tmp_path, new)
    assert {n: (tmp_path / n).read_text() for n in new} == new


def test_written_as_a_whole_or_refused(tmp_path: Path) -> None:
    """One file that is somebody's keeps all others from being written; one that is the same by chance stays theirs."""
    (tmp_path / "b").write_text("mine")
    with pytest.raises(OptionProblem, match="1 file that would"):
        output.write(tmp_path, {"a": "ours", "b": "ours", "c": "ours"})
    assert contents(tmp_path) == {"b": b"mine"}
    output.write(tmp_path, {"a": "ours", "b": "mine"})
    assert output.listed(tmp_path) == ["a"]


def test_dump_appears_whole_or_not(case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dump that cannot be moved to its name leaves the former one there, and nothing else."""
    dump = tmp_path / "d" / "d"
    assert deployer("train", "-t", case, "-o", tmp_path / "c", "--dump", dump) == 0
    before = dump.read_bytes()
    replace = Path.replace

    def refuse(self: Path, target: Path) -> Path:
        if Path(target) == dump:
            raise PermissionError(13, "Permission denied", str(target))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    assert deployer("train", "-t", case, "-o", tmp_path / "c", "--dump", dump) == 2
    assert contents(dump.parent) == {"d": before}


def test_costs_outlive_a_failed_calibration(tmp_path: Path) -> None:
    """A calibration that fails leaves the file of costs unchanged, or absent."""
    for before in (b"measured", None):
        costs = tmp_path / "costs.toml"
        costs.unlink(missing_ok=True)
        if before is not None:
            costs.write_bytes(before)

        def calibrate(path: Path = costs) -> None:
            with restored_on_failure(path):
                output.replace_file(path, b"half")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            calibrate()
        assert (costs.read_bytes() if costs.exists() else None) == before
