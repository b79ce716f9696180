"""Files of a run: arrays with a header, checkpoints with a digest, tables and single arrays as samples."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch, FileProblem, OptionProblem
from deployer.fitting.checkpoint import CheckpointPlace, checkpoint_bytes, read_checkpoint
from deployer.fitting.data.sources import read_source
from deployer.fitting.history import EpochRow, history_csv
from deployer.fitting.safetensors import read_safetensors, safetensors_bytes
from deployer.running import output

pytestmark = [pytest.mark.host]
ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b/c": np.array([-1], np.int32), "s": np.float64(2.5)}


def test_safetensors_as_described(tmp_path: Path) -> None:
    """The bytes are those of the format's description; a file that is put together by hand is read."""
    path = tmp_path / "a.safetensors"
    path.write_bytes(safetensors_bytes(ARRAYS, {"who": "me"}))
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert (8 + length) % 8 == 0
    assert header["__metadata__"] == {"who": "me"}
    assert header["a"] == {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    assert content[8 + length :][:24] == ARRAYS["a"].tobytes()
    arrays, metadata = read_safetensors(path)
    assert metadata == {"who": "me"}
    assert {n: (a.dtype, a.shape, a.tobytes()) for n, a in arrays.items()} == {
        n: (np.asarray(a).dtype, np.shape(a), np.asarray(a).tobytes()) for n, a in ARRAYS.items()
    }
    by_hand = b'{"w":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}'
    path.write_bytes(len(by_hand).to_bytes(8, "little") + by_hand + (7).to_bytes(8, "little"))
    assert read_safetensors(path)[0]["w"].tolist() == [7]


def _file(header: object, body: bytes = b"\0" * 8) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        (1 << 40).to_bytes(8, "little") + b"{}",
        _file(b"[]"),
        _file(b"{"),
        _file({"w": 1}),
        _file({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}),
        _file({"w": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}),
        _file({"w": {"dtype": "F32", "shape": [-2], "data_offsets": [0, -8]}}),
        _file({"w": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}}),
        _file({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}),
        _file({n: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for n in "ab"}),
        _file(b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{}}'),
        _file({"w": {"dtype": "F32", "shape": [1] * 33 + [2], "data_offsets": [0, 8]}}),
    ],
)
def test_damaged_safetensors(content: bytes, tmp_path: Path) -> None:
    """An inconsistent safetensors file is refused by its name."""
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileProblem, match=r"a\.safetensors is truncated or no safetensors file"):
        read_safetensors(path)


ORIGIN = {"model": "1", "data": "2"}
PLACE = CheckpointPlace(
    passes=2,
    losses=np.array([1.5, 0.1], np.float32),
    state={"w": np.ones((2, 2), np.float32), "count": np.array([2], np.int32)},
    rows=(EpochRow(1, 2, 0.8, 0.01, {"loss": 0.7}),),
    best=0.7,
    best_epoch=1,
)


def test_checkpoint_comes_back(tmp_path: Path) -> None:
    """All that a run needs, to the bit; and the same place gives the same bytes."""
    path = tmp_path / "c.safetensors"
    path.write_bytes(checkpoint_bytes(PLACE, ORIGIN))
    read = read_checkpoint(path, ORIGIN, PLACE.state)
    assert checkpoint_bytes(read, ORIGIN) == path.read_bytes()
    assert (read.passes, read.rows, read.best, read.best_epoch) == (2, PLACE.rows, 0.7, 1)


def test_checkpoint_refused(tmp_path: Path) -> None:
    """Each cut, some flipped bytes, other origins, other states and other files, each with its reason."""
    path = tmp_path / "c.safetensors"
    content = checkpoint_bytes(PLACE, ORIGIN)
    for end in range(0, len(content), 7):
        path.write_bytes(content[:end])
        with pytest.raises(FileProblem, match=r"truncated|damaged|not a checkpoint"):
            read_checkpoint(path, ORIGIN)
    header = int.from_bytes(content[:8], "little") + 8
    for at in (*range(0, header, 11), *range(header, len(content))):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises((FileProblem, OptionProblem)):
            read_checkpoint(path, ORIGIN)
    path.write_bytes(content)
    with pytest.raises(OptionProblem, match="belongs to another run: data differs"):
        read_checkpoint(path, {**ORIGIN, "data": "3"})
    with pytest.raises(OptionProblem, match="belongs to another program"):
        read_checkpoint(path, ORIGIN, {"w": np.ones((2, 2), np.float32)})
    path.write_bytes(safetensors_bytes(ARRAYS))
    with pytest.raises(FileProblem, match="is not a checkpoint"):
        read_checkpoint(path, ORIGIN)
    path.write_bytes(checkpoint_bytes(PLACE, {**ORIGIN, "data": "[" * 100000}))
    with pytest.raises(FileProblem, match="is not a checkpoint"):
        read_checkpoint(path, {**ORIGIN, "data": "{}"})
    with pytest.raises(FileProblem, match="does not exist"):
        read_checkpoint(tmp_path / "none", ORIGIN)


def test_history() -> None:
    """A row per epoch; a metric that an epoch lacks is empty."""
    text = history_csv([*PLACE.rows, EpochRow(2, 4, 0.5, 0.01)])
    assert text.splitlines() == ["epoch,passes,loss,learning_rate,validation_loss", "1,2,0.8,0.01,0.7", "2,4,0.5,0.01,"]


def test_sources(tmp_path: Path) -> None:
    """The same samples from an archive, two arrays, memory, and an iterable; tables have tests of their own."""
    x, y = np.arange(6, dtype=np.float64).reshape(3, 2), np.array([1, 0, 2])
    np.savez(tmp_path / "d.npz", x=x, labels=y)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    (tmp_path / "d.safetensors").write_bytes(safetensors_bytes({"x": x, "labels": y}))
    batches = [(x[:2], y[:2]), (x[2:], y[2:])]
    for source, target in (
        (tmp_path / "d.npz", None),
        (str(tmp_path / "d.npz"), None),
        (tmp_path / "x.npy", tmp_path / "y.npy"),
        (tmp_path / "d.safetensors", None),
        ({"x": x, "labels": y}, None),
        ((x, y), None),
        (iter(batches), None),
        ([{"x": a, "labels": b} for a, b in batches], None),
    ):
        arrays = read_source(source, ("x", "labels"), target=target)
        assert np.array_equal(arrays["x"], x), source
        assert np.array_equal(arrays["labels"], y), source
        assert arrays["labels"].dtype.kind == "i", source


def test_bad_sources(tmp_path: Path) -> None:
    """Other kinds of files, and batches that do not fit are refused by place."""
    for name, text, word in (
        ("d.txt", "1", "not a file of samples"),
        ("d.npy", "x", "no .npy array"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(FileProblem, match=word):
            read_source(tmp_path / name, ("x", "labels"))
    with pytest.raises(DatasetMismatch, match="batch 0 of data has other arrays"):
        read_source(iter([(np.ones(2),)]), ("x", "labels"))
    with pytest.raises(DatasetMismatch, match="another number of arrays"):
        read_source((np.ones(2),), ("x", "labels"))
    with pytest.raises(DatasetMismatch, match="gives no samples"):
        read_source(iter([]), ("x", "labels"))


@pytest.mark.parametrize("kind", ["npz", "mapping", "batches"])
def test_arrays_that_nothing_reads(kind: str, tmp_path: Path) -> None:
    """They are named in a warning, wherever they come from; the others are read."""
    arrays = {"x": np.ones((2, 3), np.float32), "labels": np.arange(2), "weigths": np.ones(2), "id": np.arange(2)}
    np.savez(tmp_path / "data.npz", **arrays)
    source = {"npz": tmp_path / "data.npz", "mapping": arrays, "batches": iter([arrays, arrays])}[kind]
    told: list[str] = []
    columns = read_source(source, ("x", "labels"), warn=lambda warning: told.append(str(warning)))
    assert len(columns["x"]) == (4 if kind == "batches" else 2)
    assert len(told) == 1
    assert "'weigths', 'id'" in told[0]


def test_checkpoints_outlast_the_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lasting file is synced to disk, complete, before it replaces the one before it; other files are not."""
    synced: list[bytes] = []

    def sync(handle: int) -> None:
        assert (tmp_path / "c").read_bytes() == b"old"
        synced.append(os.pread(handle, 100, 0))

    output.write(tmp_path, {"c": b"old"})
    monkeypatch.setattr(os, "fsync", sync)
    output.write(tmp_path, {"c": b"new"}, lasting=True)
    assert (synced, (tmp_path / "c").read_bytes()) == ([b"new"], b"new")
    output.write(tmp_path, {"c": b"newer"})
    assert synced == [b"new"]
