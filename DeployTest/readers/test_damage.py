"""Damaged files of every kind: an error of the user's with place, cause and a way out, never an exception."""

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deployer.core.errors import FileProblem, UserError
from deployer.core.files import reading
from deployer.core.ir import TensorType
from deployer.fitting import checkpoint
from deployer.fitting.checkpoint import CheckpointPlace, checkpoint_bytes, read_checkpoint
from deployer.fitting.data.sources import read_samples
from deployer.fitting.history import EpochRow
from deployer.fitting.safetensors import read_safetensors, safetensors_bytes
from deployer.running import output
from deployer.sizing import boards, cache
from DeployTest.support.building.command_line import deployer, refused

pytestmark = [pytest.mark.host]
TYPES = {"x": TensorType("float32", (2, 4)), "labels": TensorType("int32", (2,))}
LONG = "4" * 140_000
"""Beyond the 131 072 characters of a field that Python's own reader of CSV takes."""
TABLES = {
    "long heading": "a,b,c,d,e,label\n1,2,3,4,0\n",
    "short heading": "a,b,label\n1,2,3,4,0\n",
    "long number": f"a,b,c,d,label\n1,2,3,{LONG},0\n",
    "long quote": f'a,b,c,d,label\n1,2,3,4,"{LONG}\n',
    "long text": f"a,b,c,d,label\n1,2,3,{LONG}x,0\n",
    "nothing": "",
    "nul": "a,b,c,d,label\n1,2,\0,4,0\n",
}
NPY = b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }"
NPY = NPY.ljust(127) + b"\n" + bytes(32)


def model(path: Path, shape: tuple[int, ...] = (2, 4)) -> Path:
    """A dense layer with three classes."""
    size = int(np.prod(shape[1:]))
    nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("Gemm", ["f", "w"], ["y"], "n", transB=1)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3))],
        [numpy_helper.from_array(np.ones((3, size), np.float32), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def told(path: Path, read: Callable[[Path], object], kind: type[UserError] = FileProblem) -> str:
    """Return the reader's message about a file."""
    with pytest.raises(kind) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n  try " in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str, tmp_path: Path) -> None:
    """Rows of another width than the headings, and cells of any length."""
    path = tmp_path / "t.csv"
    path.write_text(TABLES[name])
    assert len(told(path, lambda p: read_samples(p, TYPES))) < 4000


def test_long_names_of_classes(tmp_path: Path) -> None:
    """A class may have a name of any length."""
    path = tmp_path / "t.csv"
    path.write_text(f"a,b,c,d,label\n1,2,3,4,{LONG}x\n1,2,3,4,b\n")
    assert read_samples(path, TYPES).classes == (f"{LONG}x", "b")


def _zip(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, x=np.zeros((2, 4), np.float32))


ARRAYS: dict[str, bytes] = {
    "nothing": b"",
    "text": b"hello",
    "magic alone": NPY[:6],
    "cut in the header": NPY[:20],
    "cut in the array": NPY[:-1],
    "longer": NPY + b"x",
    "open bracket": NPY.replace(b"(2, 4)", b"((((((", 1),
    "open string": NPY.replace(b"(2, 4)", b"(2, '4", 1),
    "name": NPY.replace(b"(2, 4)", b"(2, x)", 1),
    "other key": NPY.replace(b"descr", b"dosCr", 1),
    "other version": NPY.replace(b"\x01\x00v", b"\x09\x00v", 1),
    "objects": NPY.replace(b"'<f4'", b"'|O' ", 1),
    "negative": NPY.replace(b"(2, 4)", b"(-2,4)", 1),
    "terabytes": NPY.replace(b"(2, 4)", b"(2<<40,)"[:6], 1),
    "many axes": NPY[:8] + NPY[8:].replace(b"(2, 4)", b"(1,)*9", 1),
    "deep minus": b"\x93NUMPY\x01\x00\x28\x23" + b"-" * 8999 + b"1\n" + bytes(32),
    "deep": NPY[:10] + b"(" * 117 + b"\n" + bytes(32),
    "no text": NPY[:10] + b"\xff" * 117 + b"\n" + bytes(32),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(name: str, tmp_path: Path) -> None:
    """An npy file with a broken header, or of another length."""
    path, target = tmp_path / "x.npy", tmp_path / "labels.npy"
    path.write_bytes(ARRAYS[name])
    np.save(target, np.zeros(2, np.int64))
    assert "no .npy array" in told(path, lambda p: read_samples(p, TYPES, target=target))


def test_archive_called_array(tmp_path: Path) -> None:
    """An npz archive under the name of a single array, and the other way round."""
    path, target = tmp_path / "x.npy", tmp_path / "labels.npy"
    np.save(target, np.zeros(2, np.int64))
    _zip(path)
    assert "is an archive" in told(path, lambda p: read_samples(p, TYPES, target=target))
    path.write_bytes(NPY)
    assert read_samples(path, TYPES, target=target).count == 2
    other = tmp_path / "x.npz"
    other.write_bytes(NPY)
    assert "not an npz archive" in told(other, lambda p: read_samples(p, TYPES))


def test_members_of_one_name(tmp_path: Path) -> None:
    """Members that numpy gives one name, with and without the suffix: none of the two is lost in silence."""
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("x.npy", "x", "labels.npy"):
            archive.writestr(name, NPY)
    assert "holds 'x' 2 times" in told(path, lambda p: read_samples(p, TYPES))


@pytest.mark.parametrize("shape", ['""', "{}"])
def test_shapes_that_are_no_lists(shape: str, tmp_path: Path) -> None:
    """A shape that is an empty text or table is no scalar's."""
    header = f'{{"x":{{"dtype":"F32","shape":{shape},"data_offsets":[0,4]}}}}'.encode()
    path = tmp_path / "s.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    assert "are not counts" in told(path, read_safetensors)


@pytest.mark.parametrize("target", ['"nobody"', "[]", "7", "{}"])
def test_board_of_no_target(target: str, tmp_path: Path) -> None:
    """A board whose target is none: its file and the targets that there are."""
    path = tmp_path / "b.toml"
    path.write_text(f'name = "b"\nsource = "s"\ntarget = {target}\n')
    message = told(path, boards.read_board, boards.BoardInvalid)
    assert "there is no target" in message
    assert "siracusa" in message


def test_file_in_the_place_of_a_folder(tmp_path: Path) -> None:
    """Files of ours whose folder a file of the user's has replaced are gone: nothing is left to remove."""
    output.write(tmp_path, {"sub/a.c": "x", "b.c": "y"})
    shutil.rmtree(tmp_path / "sub")
    (tmp_path / "sub").write_text("mine")
    output.discard(tmp_path, ["sub/a.c", "b.c"])
    assert (tmp_path / "sub").read_text() == "mine"
    assert not (tmp_path / "b.c").exists()
    assert output.listed(tmp_path) == []


class _Ends:
    """Stands for a reader in whose midst memory ends."""

    def __call__(self, *_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 9 GiB")


@pytest.mark.parametrize("words", ["Unable to allocate 9 GiB", ""])
def test_memory_that_ends_is_no_damage(words: str) -> None:
    """Within `damage` the end of memory stays what it is, and names the file."""
    with pytest.raises(MemoryError) as caught, reading.damage("/x/y.json is not JSON", "write it again"):
        raise MemoryError(words)
    assert str(caught.value).startswith(words)
    assert "it is not known whether /x/y.json is not JSON" in str(caught.value)


@pytest.mark.parametrize("module", ["numpy.load", "deployer.core.files.reading.json.loads"])
def test_command_without_memory(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command says that memory ended, with exit code 2 and the file, and does not call the file damaged."""
    data = tmp_path / ("data.npz" if module == "numpy.load" else "data.safetensors")
    arrays = {"x": np.zeros((2, 4), np.float32), "labels": np.zeros(2, np.int64)}
    if data.suffix == ".npz":
        np.savez(data, allow_pickle=False, **arrays)
    else:
        data.write_bytes(safetensors_bytes(arrays))
    words = ("fit", model(tmp_path / "m.onnx"), "--data", data, "--loss", "cross_entropy", "-o", tmp_path / "out")
    monkeypatch.setattr(module, _Ends())
    message = refused(capsys, *words, "--epochs", "1")
    assert message.startswith("ToolFailed: memory is exhausted: Unable to allocate 9 GiB; it is not known whether")
    assert str(data) in message
    assert "free memory" in message


ROW = EpochRow(1, 2, 0.5, 0.1, {"loss": float("nan")})
PLACE = CheckpointPlace(2, np.zeros(2, np.float32), {"w": np.ones(3, np.float32)}, (ROW,), 0.5, 1)
ORIGIN = {"model": "abc", "options": '{"a":1}'}
RECORDS: dict[str, tuple[str, str]] = {
    "origin is a list": ("origin", "[]"),
    "origin is a text": ("origin", '"x"'),
    "origin is null": ("origin", "null"),
    "origin holds numbers": ("origin", '{"model":1}'),
    "origin is deep": ("origin", "[" * 100_000),
    "place is a list": ("place", "[]"),
    "place is a number": ("place", "1"),
    "place is a text": ("place", '"rows"'),
    "place is empty": ("place", "{}"),
    "rows is a number": ("place", '{"rows":1}'),
    "rows is null": ("place", '{"rows":null}'),
    "rows hold numbers": ("place", '{"rows":[1]}'),
    "row without fields": ("place", '{"rows":[{}]}'),
    "row of texts": ("place", '{"rows":[{"epoch":"1","passes":"2","loss":"x","rate":"y","metrics":{}}]}'),
    "row with a list": ("place", '{"rows":[{"epoch":1,"passes":2,"loss":[],"rate":0.1,"metrics":{}}]}'),
    "metrics is a list": ("place", '{"rows":[{"epoch":1,"passes":2,"loss":1,"rate":0.1,"metrics":[1]}]}'),
    "passes is a text": ("place", '{"rows":[],"passes":"2"}'),
    "passes is huge": ("place", '{"rows":[],"passes":99999999999999999999}'),
    "other field": ("place", '{"rows":[],"passes":2,"other":2}'),
    "state": ("place", '{"rows":[],"passes":2,"state":{}}'),
    "ended is a number": ("place", '{"rows":[],"passes":2,"ended":1}'),
    "no JSON": ("place", "{"),
}


def _sealed(path: Path, key: str, text: str) -> None:
    """A checkpoint with another text in its metadata, and a digest that is right."""
    path.write_bytes(checkpoint_bytes(PLACE, ORIGIN))
    arrays, metadata = read_safetensors(path)
    changed = {name: value for name, value in metadata.items() if name != "digest"} | {key: text}
    path.write_bytes(safetensors_bytes(arrays, changed | {"digest": checkpoint._digest(arrays, changed)}))


@pytest.mark.parametrize("name", RECORDS)
def test_checkpoints(name: str, tmp_path: Path) -> None:
    """Place and origin are objects whose values have the types that they are used with."""
    path = tmp_path / "checkpoint.safetensors"
    _sealed(path, *RECORDS[name])
    told(path, lambda p: read_checkpoint(p, ORIGIN))


def test_checkpoint_of_texts(tmp_path: Path) -> None:
    """A checkpoint written by a run can be read, including NaN and infinities."""
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(checkpoint_bytes(PLACE, ORIGIN))
    place = read_checkpoint(path, ORIGIN)
    assert (place.passes, place.best, place.rows[0].epoch) == (2, 0.5, 1)
    assert np.isnan(place.rows[0].metrics["loss"])


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    """A link to itself."""
    path = tmp_path / "loop"
    path.symlink_to(path.name)
    return path


COMMANDS: dict[str, tuple[object, ...]] = {
    "fit": ("fit", "MODEL", "--data", "DATA", "--loss", "cross_entropy", "--epochs", "1", "-o", "LOOP"),
    "fit below": ("fit", "MODEL", "--data", "DATA", "--loss", "cross_entropy", "--epochs", "1", "-o", "LOOP/x"),
    "fit from": ("fit", "LOOP", "--data", "DATA", "--loss", "cross_entropy", "--epochs", "1", "-o", "OUT"),
    "fit with": ("fit", "MODEL", "--data", "LOOP.npz", "--loss", "cross_entropy", "--epochs", "1", "-o", "OUT"),
    "train-graph": ("train-graph", "MODEL", "--loss", "cross_entropy", "-o", "LOOP"),
    "train": ("train", "-t", "LOOP", "-o", "OUT"),
    "export": ("export", "MODEL", "--weights", "WEIGHTS", "-o", "LOOP"),
    "export from": ("export", "MODEL", "--weights", "LOOP", "-o", "OUT"),
    "emit": ("emit", "--plan", "LOOP", "-o", "OUT"),
    "state": ("state", "show", "LOOP"),
    "config": ("fit", "--config", "LOOP"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_links_to_themselves(name: str, loop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A link to itself as what is read or written is refused by its name."""
    np.savez(tmp_path / "data.npz", allow_pickle=False, x=np.zeros((2, 4), np.float32), labels=np.zeros(2, np.int64))
    np.savez(tmp_path / "weights.npz", allow_pickle=False, w=np.zeros((3, 4), np.float32))
    (tmp_path / "loop.npz").symlink_to("loop.npz")
    names = {"MODEL": model(tmp_path / "m.onnx"), "DATA": tmp_path / "data.npz", "WEIGHTS": tmp_path / "weights.npz"}
    names |= {"LOOP": loop, "LOOP.npz": tmp_path / "loop.npz", "OUT": tmp_path / "out", "LOOP/x": loop / "x"}
    message = refused(capsys, *(names.get(str(word), word) for word in COMMANDS[name]))
    assert str(loop) in message


def test_link_to_itself_in_a_folder_of_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As an image and as a class."""
    pytest.importorskip("PIL", reason="Pillow is not installed")
    for place in ("inside/a/x.png", "class/a"):
        link = tmp_path / place
        link.parent.mkdir(parents=True)
        link.symlink_to(link.name)
        path = model(tmp_path / "i.onnx", (2, 3, 4, 4))
        folder = tmp_path / place.partition("/")[0]
        words = ("fit", path, "--data", folder, "--loss", "cross_entropy", "--epochs", "1", "-o", tmp_path / "out")
        assert str(link) in refused(capsys, *words)


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    """Folders, pipes, names with a zero, what is not there, and files that may not be read."""
    os.mkfifo(tmp_path / "pipe")
    for name, said in (
        ("", "is a folder"),
        ("pipe", "is not a file"),
        ("a\0b", "cannot be read"),
        ("no/x", "not exist"),
    ):
        with pytest.raises(FileProblem, match=said):
            reading.content_of(tmp_path / name if name else tmp_path, 100, "another file")
    (tmp_path / "large").write_bytes(bytes(101))
    with pytest.raises(FileProblem, match="too large"):
        reading.content_of(tmp_path / "large", 100, "another file")
    assert reading.content_of(tmp_path / "large", 101, "another file") == bytes(101)


@pytest.mark.parametrize(
    "text", ['{"a":1,"a":2}', "NaN", "1e999", "99999999999999999999", "[" * 100_000, "\xff", "", "1 1"]
)
def test_json(text: str, tmp_path: Path) -> None:
    """One rule for all that is read as JSON."""
    path = tmp_path / "x.json"
    path.write_text(text, encoding="latin-1")
    told(path, lambda p: reading.read_json(p, "no JSON", "another file"))


@pytest.mark.parametrize("text", ["a", "a = [" + "[" * 100_000, "a = 1\na = 2", "\xff = 1", "[a", f"a = {'9' * 5000}"])
def test_toml(text: str, tmp_path: Path) -> None:
    """One rule for all that is read as TOML."""
    path = tmp_path / "x.toml"
    path.write_text(text, encoding="latin-1")
    told(path, lambda p: reading.read_toml(p, "another file"))


def test_a_damaged_cache_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies in the cache's file, the value is right afterwards."""
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    path, value = tmp_path / "k.json", {"instructions": [1, 2, 3]}
    assert cache.remembered("k", lambda: value) == value
    whole = path.read_text()
    assert cache.remembered("k", lambda: {}) == value
    for text in ("", "{}", "[]", '{"instructions":[]}', whole.replace("2", "4"), "\xff", "[" * 100_000):
        path.write_text(text, encoding="latin-1")
        assert cache.remembered("k", lambda: value) == value
        assert path.read_text() == whole


def test_damaged_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The record of what an output folder holds."""
    path = model(tmp_path / "m.onnx")
    words = ("train-graph", path, "--loss", "cross_entropy", "-o", tmp_path / "case")
    assert deployer(*words) == 0
    [record] = (tmp_path / "case").glob("*_train/.deployer/manifest.json")
    for text in ("[]", '{"files":1}', '{"files":{"a":1}}', "{", json.dumps({"files": {"a": [1, None]}})):
        record.write_text(text)
        capsys.readouterr()
        code = deployer(*words)
        assert code in (0, 2)
        assert "Traceback" not in capsys.readouterr().err
    shutil.rmtree(record.parent)
