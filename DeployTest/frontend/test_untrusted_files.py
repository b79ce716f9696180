"""Untrusted files: the reader opens nothing outside of the model's folder, and checks sizes before it allocates."""

import hashlib
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from deployer.core import limits
from deployer.core.files import arrays
from deployer.frontend import check, parse
from DeployTest.support.building.command_line import refused
from DeployTest.support.graphs.small_graphs import INT64, TRAIN, Case, Model, chain, constant, node, value

pytestmark = [pytest.mark.host, pytest.mark.training]

MODERATE = 1 << 24
"""Bytes that refusing may take; a test's files claim 64 times as much and more."""


def refused_cheaply(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Run a command that must be refused with a peak memory below MODERATE; return its message."""
    tracemalloc.start()
    try:
        message = refused(capsys, *words)
        assert tracemalloc.get_traced_memory()[1] < MODERATE
    finally:
        tracemalloc.stop()
    return message


def external(location: str, dims: tuple[int, ...] = (2, 3), **entries: object) -> TensorProto:
    """A float tensor `c` whose data lies elsewhere."""
    tensor = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, entry in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(entry))
    return tensor


def product(tensor: TensorProto) -> Model:
    """Y = X * c, of that constant."""
    return chain(node("Mul", ("x", "c"), ("y",)), initializers=(tensor,))


def in_node(tensor: TensorProto) -> Model:
    """The same with the constant in a node."""
    return chain(node("Constant", (), ("c",), value=tensor), node("Mul", ("x", "c"), ("y",)))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside of the model's folder, as long as the tensor; the model goes to `tmp_path / "model"`."""
    (tmp_path / "model" / "part").mkdir(parents=True)
    path = tmp_path / "secret.bin"
    path.write_bytes(np.arange(6, dtype=np.float32).tobytes())
    return path


@pytest.mark.parametrize("form", [product, in_node])
def test_external_data_is_read(form: Callable[[TensorProto], Model], secret: Path) -> None:
    """From the folder and below it, at an offset, through a link that stays inside."""
    folder = secret.parent / "model"
    (folder / "part" / "w.bin").write_bytes(b"\0" * 5 + secret.read_bytes())
    (folder / "link.bin").symlink_to(folder / "part" / "w.bin")
    for location in ("part/w.bin", "link.bin", "part/../link.bin"):
        file = form(external(location, offset=5, length=24)).save(folder / "network.onnx")
        array = check.check_program(parse.read_graphs(file, None)).tensors["c"].array
        np.testing.assert_array_equal(array, np.arange(6, dtype=np.float32).reshape(2, 3))


ELSEWHERE = "outside of the model's folder"
SHORT = "or of another length"
LOCATIONS = {
    "above": ("../secret.bin", ELSEWHERE),
    "up and down": ("part/../../secret.bin", ELSEWHERE),
    "absolute": ("/etc/passwd", ELSEWHERE),
    "empty": ("", ELSEWHERE),
    "NUL": ("w\0.bin", ELSEWHERE),
    "linked file": ("link.bin", ELSEWHERE),
    "linked folder": ("linked/secret.bin", ELSEWHERE),
    "fifo": ("fifo", "which is not a file there"),
    "folder": ("part", "which is not a file there"),
    "missing": ("nothing.bin", "which is not a file there"),
    "linked device": ("zero", ELSEWHERE),
}


@pytest.mark.parametrize("form", [product, in_node])
@pytest.mark.parametrize(("location", "words"), LOCATIONS.values(), ids=LOCATIONS)
def test_data_from_elsewhere(
    location: str, words: str, form: Callable[[TensorProto], Model], secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path or a link that leads out, and what is no regular file, is refused before it is opened."""
    folder = secret.parent / "model"
    os.mkfifo(folder / "fifo")
    (folder / "link.bin").symlink_to(secret)
    (folder / "linked").symlink_to(secret.parent)
    (folder / "zero").symlink_to("/dev/zero")
    form(external(location)).save(folder / "network.onnx")
    assert words in refused_cheaply(capsys, "infer", "-t", folder)


LENGTHS = {
    "beyond": ({"offset": 1}, (2, 3), SHORT),
    "far": ({"offset": 1 << 62}, (2, 3), SHORT),
    "negative": ({"offset": -4}, (2, 3), SHORT),
    "no number": ({"offset": "x"}, (2, 3), SHORT),
    "long": ({"length": 1 << 40}, (2, 3), SHORT),
    "short": ({"length": 4}, (2, 3), SHORT),
    "more dims": ({}, (2, 3, 2), SHORT),
    "huge dims": ({}, (1 << 20, 1 << 20), "dims that no file can fill"),
    "negative dims": ({}, (-1,), "dims that no file can fill"),
}


@pytest.mark.parametrize(("entries", "dims", "words"), LENGTHS.values(), ids=LENGTHS)
def test_parts_of_other_files(
    entries: dict[str, object],
    dims: tuple[int, ...],
    words: str,
    secret: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Offset, length and dims describe one part that the file has."""
    folder = secret.parent / "model"
    (folder / "w.bin").write_bytes(secret.read_bytes())
    product(external("w.bin", dims, **entries)).save(folder / "network.onnx")
    assert words in refused_cheaply(capsys, "infer", "-t", folder)


def test_keys_of_external_data(secret: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that ONNX does not know is refused, one twice as well; a checksum is that of the file."""
    folder = secret.parent / "model"
    (folder / "w.bin").write_bytes(secret.read_bytes())
    digest = hashlib.sha1(secret.read_bytes(), usedforsecurity=False).hexdigest()
    product(external("w.bin", checksum=digest.upper())).save(folder / "network.onnx")
    parse.read_graphs(folder / "network.onnx", None)
    product(external("w.bin", checksum="0" * 40)).save(folder / "network.onnx")
    assert "is not the file that was saved with the model" in refused_cheaply(capsys, "infer", "-t", folder)
    product(external("w.bin", evil=3)).save(folder / "network.onnx")
    assert "has the key 'evil' which ONNX does not know" in refused_cheaply(capsys, "infer", "-t", folder)
    tensor = external("w.bin", offset=0)
    tensor.external_data.add(key="offset", value="0")
    product(tensor).save(folder / "network.onnx")
    assert "has the key 'offset' twice" in refused_cheaply(capsys, "infer", "-t", folder)


def test_sparse_external_data(secret: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of terabytes that takes no place on the disk is not read."""
    folder = secret.parent / "model"
    with (folder / "w.bin").open("wb") as file:
        file.truncate(1 << 40)
    product(external("w.bin", (1 << 38,))).save(folder / "network.onnx")
    assert "dims that no file can fill" in refused_cheaply(capsys, "infer", "-t", folder)
    file = product(external("w.bin", (limits.TENSOR_BYTES // 4,))).save(folder / "network.onnx")
    model = onnx.load(str(file), load_external_data=False)
    model.graph.initializer.add().CopyFrom(model.graph.initializer[0])
    file.write_bytes(model.SerializeToString())
    assert "keeps too much data in other files" in refused_cheaply(capsys, "infer", "-t", folder)


SHAPES = {
    "input": (replace(chain(node("Relu", ("x",), ("y",))), inputs=(value("x", (1 << 40, 1 << 40)),)), "'x' is larger"),
    "axes": (replace(chain(node("Relu", ("x",), ("y",))), inputs=(value("x", (1,) * 99),)), "'x' has 99 axes"),
    "ConstantOfShape": (
        chain(
            node("Constant", (), ("s",), value_ints=[1 << 30, 1 << 30]),
            node("ConstantOfShape", ("s",), ("c",)),
            node("Mul", ("x", "c"), ("y",)),
        ),
        "'c' of node 'ConstantOfShape_c' (ConstantOfShape) is larger",
    ),
    "Expand": (
        chain(
            node("Constant", (), ("s",), value_ints=[1 << 30, 1 << 30, 1, 1]),
            node("Expand", ("x", "s"), ("y",)),
        ),
        "(Expand) is larger",
    ),
    "Expand of a constant": (
        chain(
            node("Constant", (), ("s",), value_ints=[1 << 30]),
            node("Constant", (), ("one",), value_float=1.0),
            node("Expand", ("one", "s"), ("c",)),
            node("Add", ("c", "x"), ("y",)),
        ),
        "(Expand) is larger",
    ),
    "Pad": (
        chain(
            node("Constant", (), ("p",), value_ints=[0, 0, 1 << 31, 1 << 31]),
            node("Pad", ("x", "p"), ("y",)),
        ),
        "(Pad) is larger",
    ),
    "pads of Conv": (
        chain(
            node("Constant", (), ("w",), value=constant("w", np.ones((1, 1, 1), np.float32))),
            node("Conv", ("x", "w"), ("y",), pads=[1 << 40, 1 << 40], strides=[1 << 41]),
            x=(1, 1, 3),
        ),
        "X and its padding take",
    ),
    "pads of MaxPool": (
        chain(
            node("MaxPool", ("x",), ("y",), kernel_shape=[(1 << 40) + 1], pads=[1 << 40, 1 << 40], strides=[1 << 41]),
            x=(1, 1, 3),
        ),
        "X and its padding take",
    ),
    "windows of AveragePool": (
        chain(node("AveragePool", ("x",), ("y",), kernel_shape=[1000, 1000]), x=(1, 1, 2000, 2000)),
        "all its windows take",
    ),
    "outer product": (
        Model(
            (node("MatMul", ("x", "t"), ("y",)),),
            (value("x", (1 << 20, 1)), value("t", (1, 1 << 20))),
            (value("y", None),),
        ),
        "(MatMul) is larger",
    ),
    "many": (
        Model(
            tuple(node("Exp", (f"v{i}",), (f"v{i + 1}",)) for i in range(9)),
            (value("v0", (1 << 25,)),),
            (value("v9", None),),
        ),
        "the infer graph is larger",
    ),
    "nodes": (
        chain(*(node("Relu", ("x",), (f"v{i}",)) for i in range(limits.NODES)), node("Relu", ("x",), ("y",))),
        "too many nodes",
    ),
}


@pytest.mark.parametrize(("model", "words"), SHAPES.values(), ids=SHAPES)
def test_claimed_shapes(model: Model, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Shapes that no target could hold are refused by their numbers alone."""
    model.save(tmp_path / "network.onnx")
    if words == "too many nodes":
        assert words in refused(capsys, "infer", "-t", tmp_path)
    else:
        assert words in refused_cheaply(capsys, "infer", "-t", tmp_path)


DIMS = {
    "more": ([1 << 20, 1 << 20], b"\0" * 24),
    "fewer": ([2], b"\0" * 24),
    "ragged": ([2, 3], b"\0" * 23),
    "negative": ([-1, 3], b"\0" * 24),
    "none": ([2, 3], b""),
    "product of 2^64": ([1 << 32, 1 << 32], b""),
}


@pytest.mark.parametrize(("dims", "data"), DIMS.values(), ids=DIMS)
def test_constants_of_another_length(
    dims: list[int], data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A constant has as many bytes as its dims say."""
    tensor = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=dims, raw_data=data)
    for form in (product, in_node):
        form(tensor).save(tmp_path / "network.onnx")
        assert "does not hold the numbers it declares" in refused_cheaply(capsys, "infer", "-t", tmp_path)


@pytest.mark.parametrize("data", [b"\1\2\0\1\1\1", b"\xc0", b"\0\0\0\0\0\xff"])
def test_bytes_of_bools(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A byte of a bool beyond 0 and 1 comes from elsewhere, and kernels would each make something else of it."""
    tensor = TensorProto(name="c", data_type=TensorProto.BOOL, dims=[2, 3] if len(data) > 1 else [], raw_data=data)
    chain(node("Where", ("c", "x", "x"), ("y",)), initializers=(tensor,)).save(tmp_path / "network.onnx")
    assert "does not hold the numbers it declares" in refused_cheaply(capsys, "infer", "-t", tmp_path)


def test_large_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Models and archives are not opened where the file alone is beyond the limit."""
    with (tmp_path / "network.onnx").open("wb") as file:
        file.truncate(limits.MODEL_BYTES + 1)
    assert "network.onnx is too large" in refused_cheaply(capsys, "infer", "-t", tmp_path)
    case = Case()
    case.program(tmp_path)
    folder = case.dataset(tmp_path)
    monkeypatch.setattr(arrays, "ARCHIVE_BYTES", (folder / "inputs.npz").stat().st_size // 2)
    assert "inputs.npz is too large" in refused_cheaply(capsys, "compile", "-t", folder, "-o", tmp_path / "c")


def test_nested_subgraphs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Graphs within graphs end at the depth that protobuf reads, and those it reads are no attributes here."""
    for depth in (2, 20, 400):
        body = b""
        for _ in range(depth):
            attribute = b"\x32" + _varint(len(body)) + body + b"\xa0\x01\x05"
            field = b"\x2a" + _varint(len(attribute)) + attribute
            body = b"\x0a" + _varint(len(field)) + field
        model = helper.make_model(
            helper.make_graph([], "g", [value("x", (1,))], [value("y", (1,))])
        ).SerializeToString()
        (tmp_path / "network.onnx").write_bytes(model + b"\x3a" + _varint(len(body)) + body)
        refused(capsys, "infer", "-t", tmp_path)


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes((*digits, number))


def header(shape: str, dtype: str = "<f4") -> bytes:
    """The head of an npy file."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


MEMBERS = {
    "terabytes": (header("(1000000000000,)"), "not as long as its header says"),
    "short": (header("(2, 3)") + bytes(20), "not as long as its header says"),
    "long": (header("(2, 3)") + bytes(28), "not as long as its header says"),
    "wide": (header("(1,)", "<U1000"), "not numbers"),
    "objects": (header("(2, 3)", "|O"), "not numbers"),
    "negative": (header("(-1, 6)") + bytes(24), "not numbers"),
    "text": (b"hello", "not an npz archive of numbers"),
    "nothing": (b"", "not an npz archive of numbers"),
    "header": (b"\x93NUMPY\x02\x00" + b"\xff" * 4, "the header of"),
    "brackets": (header("(" * 60), "not an npz archive of numbers"),
}


@pytest.mark.parametrize(("content", "words"), MEMBERS.values(), ids=MEMBERS)
def test_members(content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An array of an npz has as many bytes as its header says, and holds numbers."""
    case = Case(drop=("mb1_arr_0000",))
    case.program(tmp_path)
    folder = case.dataset(tmp_path)
    with zipfile.ZipFile(folder / "inputs.npz", "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("mb1_arr_0000.npy", content)
    assert words in refused_cheaply(capsys, "compile", "-t", folder, "-o", tmp_path / "c")


def test_zip_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An archive above the size limit is refused before it is unpacked, and so are two arrays of one name."""
    case = Case(drop=("mb1_arr_0000",))
    case.program(tmp_path)
    folder = case.dataset(tmp_path)
    plain = (folder / "inputs.npz").read_bytes()
    bomb = header(f"({4 * MODERATE // 4},)") + bytes(4 * MODERATE)
    with zipfile.ZipFile(folder / "inputs.npz", "a", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("mb1_arr_0000.npy", bomb)
    assert (folder / "inputs.npz").stat().st_size < MODERATE
    monkeypatch.setattr(arrays, "ARCHIVE_BYTES", 2 * MODERATE)
    assert "inputs.npz is too large" in refused_cheaply(capsys, "compile", "-t", folder, "-o", tmp_path / "c")
    (folder / "inputs.npz").write_bytes(plain)
    with zipfile.ZipFile(folder / "inputs.npz", "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("arr_0000.npy", header("(2, 3)") + bytes(24))
    assert "'arr_0000' 2 times" in refused(capsys, "compile", "-t", folder, "-o", tmp_path / "c")


def test_names_that_are_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is not UTF-8 is shown as bytes and refused, wherever in the file it stands."""
    marks = ("NODE", "INPT", "WGHT", "ATTR", "TEXT", "INFO")
    model = replace(
        TRAIN,
        nodes=(*TRAIN.nodes, node("Relu", ("x",), ("INFO",), "NODE", ATTR="TEXT")),
        inputs=(*TRAIN.inputs, value("INPT", (1,), INT64)),
        initializers=(constant("WGHT", np.ones(3, np.float32)),),
    )
    content = model.save(tmp_path / "m_train" / "network.onnx").read_bytes()
    case = Case()
    case.optimizer.save(tmp_path / "m_optimizer" / "network.onnx")
    folder = case.dataset(tmp_path)
    for mark in marks:
        if mark == "TEXT":  # the value of an attribute is bytes, not a name
            continue
        (folder / "network.onnx").write_bytes(content.replace(mark.encode(), b"A\xff\xfeB"))
        message = refused(capsys, "compile", "-t", folder, "-o", tmp_path / "c")
        assert "not UTF-8 text" in message
        assert r"b'A\xff\xfeB'" in message
