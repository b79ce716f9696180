"""The folder of a library: the same bytes each time, names that are refused, files of others, what is told."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from deployer import __version__ as deployer_version
from deployer.core.errors import OptionProblem
from deployer.firmware.bill import check_name
from deployer.firmware.state import fnv1a
from deployer.lr_schedules.lr_schedule import read_schedule
from deployer.training.train_graph import build_train_graph
from DeployTest.firmware import nets
from DeployTest.models.parts import convnet
from DeployTest.support.building.command_line import deployer, options, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training case."""
    return nets.dense_case(tmp_path_factory.mktemp("case"))


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a library by their paths in it."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and ".deployer" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.slow
def test_same_bytes(tmp_path: Path) -> None:
    """Two folders of one case are the same, and the manifest has the digest of each file; nothing tells a place."""
    case = nets.normed_case(tmp_path / "case")
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        assert deployer("package", case, "--name", "normed", "-o", folder) == 0
    files = contents(folders[0])
    assert files == contents(folders[1])
    listed = json.loads(files.pop("manifest.json"))["files"]
    assert listed == {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    assert {"include/normed.h", "src/normed.c", "examples/main.c", "LICENSE", "weights.bin"} < files.keys()
    assert files["LICENSE"] == (ROOT / "LICENSE").read_bytes()
    assert not any(str(tmp_path).encode() in content for content in files.values())
    image = files["weights.bin"]
    assert int.from_bytes(image[-8:], "little") == fnv1a(image[:-8])
    assert int.from_bytes(image[20:24], "little") == len(image)


def test_bill(case: Path, tmp_path: Path) -> None:
    """The bill of materials has each file with its digest, the compiler's licence on its own ones, and no time."""
    folder = tmp_path / "lib"
    assert deployer("package", case, "--name", "net", "-o", folder) == 0
    files = contents(folder)
    bill = json.loads(files.pop("sbom.cdx.json"))
    del files["manifest.json"]
    parts = {part["name"]: part for part in bill["components"] if part["type"] == "file"}
    digests = {name: part["hashes"] for name, part in parts.items()}
    assert digests == {
        name: [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}] for name, content in files.items()
    }
    foreign = {"weights.bin", "src/net_weights.c", "examples/net_samples.h", "README.md"}
    assert {name for name, part in parts.items() if "licenses" not in part} == foreign
    whole = bill["metadata"]["component"]
    assert (whole["name"], whole["version"], whole["licenses"]) == (
        *("net", deployer_version),
        [{"expression": "Apache-2.0"}],
    )
    assert "timestamp" not in bill["metadata"]


def test_digest() -> None:
    """Values that the authors of FNV-1a publish."""
    assert [fnv1a(text) for text in (b"", b"a", b"foobar")] == [
        0xCBF29CE484222325,
        0xAF63DC4C8601EC8C,
        0x85944171F73967E8,
    ]


@pytest.mark.parametrize(
    "name", ["", "Keyword", "1st", "key word", "../up", "a-b", "_a", "a_", "a__b", "int", "main", "x" * 25]
)
def test_names(name: str) -> None:
    """A name that is not in small letters is refused: it would be code or a path."""
    with pytest.raises(OptionProblem, match="is not a valid library name"):
        check_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "math",
        "stdint",
        "atomic",
        "mtx",
        "install",
        "test",
        "edit_cache",
        "preinstall",
        "features",
        "size",
        "m",
        "aux",
        "hal",
    ],
)
def test_taken_names(name: str) -> None:
    """Names of C's headers and functions, and of what build tools call theirs."""
    with pytest.raises(OptionProblem, match="is one of C's, of Windows' or of build tools'"):
        check_name(name)


def test_names_of_samples(tmp_path: Path) -> None:
    """The arrays of the example have different names, whatever the inputs are called."""
    model = nets.normed_model(tmp_path / "net.onnx", "order")
    lr_schedule = read_schedule("cosine")
    case = build_train_graph(model, "cross_entropy", "sgd", 0.01, "", tmp_path, lr_schedule=lr_schedule).train
    assert deployer("package", case, "--name", "net", "-o", tmp_path / "lib") == 0
    names = re.findall(
        r"^static const \w+ (\w+)\[", (tmp_path / "lib/examples/net_samples.h").read_text(), re.MULTILINE
    )
    assert len(names) == 4
    assert len({*names}) == 4, names


def test_refusals(case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A request that cannot be met says what to ask for instead, and leaves no folder."""
    folder = tmp_path / "lib"
    start = ("package", case, "-o", folder, "--name")
    assert "no node of the training graph computes 'nothing'" in refused(capsys, *start, "net", "--predict", "nothing")
    assert "a library works in one" in refused(capsys, *start, "net", "-p", "host")
    assert "has the budgets 5 B and 6 B" in refused(capsys, *start, "net", "--budget", "RAM=5", "--budget", "RAM=6")
    message = refused(capsys, *start, "net", "--budget", "RAM=4000")
    assert "do not fit RAM" in message
    assert not folder.exists()


@pytest.mark.slow
def test_folder_of_others(case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of others stay unless `--force` says so; what a newer library does not have goes; links are no way."""
    folder = tmp_path / "lib"
    words = ("package", case, "--name", "net", "-o", folder)
    (folder / "src").mkdir(parents=True)
    (folder / "src/net.c").write_text("mine")
    (folder / "src/own.c").write_text("mine as well")
    assert "src/net.c" in refused(capsys, *words)
    assert sorted(contents(folder)) == ["src/net.c", "src/own.c"]
    assert deployer(*words, "--force") == 0
    first = contents(folder)
    assert first["src/own.c"] == b"mine as well"
    assert deployer(*words) == 0
    assert contents(folder) == first
    assert deployer("package", case, "--name", "other", "-o", folder) == 0
    assert {"src/net.c", "include/net.h"}.isdisjoint(contents(folder))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/src").symlink_to(tmp_path / "elsewhere")
    assert "linked/src is not a folder" in refused(capsys, *words[:-1], tmp_path / "linked", "--force")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_norms_of_a_batch_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without running statistics predictions take those of their batch, and that is said."""
    net = convnet.ConvNet("small", (1, 1, 4, 4), 0, batch_norm=True)
    net.conv("conv", 2, (3, 3))
    net.node("GlobalAveragePool", "pool", net.x)
    net.classes(2)
    assert deployer("package", net.case(tmp_path, 2, 1), "--name", "small", "-o", tmp_path / "lib") == 0
    message = capsys.readouterr().err
    assert "batch statistics in 1 nodes" in message
    assert "train-graph --running-stats" in message


@pytest.mark.parametrize(("command", "page"), [("package", "firmware"), ("state", "firmware-state")])
def test_page_names_all_options(command: str, page: str) -> None:
    """The table of options in the documentation has each of them, and no others."""
    table = (ROOT / f"docs/{page}.md").read_text().split("| option |")[1].split("\n\n")[0]
    named = {
        word
        for row in table.splitlines()[2:]
        for word in row.split(" | ")[0].replace("`", " ").split()
        if word[0] == "-"
    }
    assert {word.strip(",;") for word in named} == options(command) - {"-h", "--help"}
