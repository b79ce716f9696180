"""Folders of images: pixels, labels and names; what is none, or of another size, is refused by its name."""

import json
import struct
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deployer.core.errors import DatasetMismatch, FileProblem, ToolMissing
from deployer.core.ir import TensorType
from deployer.fitting.data.sources import read_samples
from deployer.training.tables import Request
from DeployTest.support.building.command_line import deployer

pytestmark = [pytest.mark.host]
GRAY, COLOURS, PALETTE, GRAY_ALPHA = 0, 2, 3, 4
"""Kinds of pixels of the PNG specification."""
HEIGHT, WIDTH = 3, 2
LABELS = TensorType("int32", (2,))
PIXELS = np.arange(HEIGHT * WIDTH * 3, dtype=np.uint8).reshape(HEIGHT, WIDTH, 3) * 14


def types(channels: int) -> dict[str, TensorType]:
    """The data inputs of a model for images."""
    return {"x": TensorType("float32", (2, channels, HEIGHT, WIDTH)), "labels": LABELS}


def png(pixels: np.ndarray, kind: int, depth: int = 8) -> bytes:
    """The bytes of a PNG file, written by the specification: rows without a filter, one compressed chunk."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], depth, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def folder(root: Path, **files: bytes) -> Path:
    """A folder with a class `cat`, of an image in colours, and a class `dog`, of a gray one; and with other files."""
    found = {"dog/b.png": png(PIXELS[..., 0], GRAY), "cat/a.PNG": png(PIXELS, COLOURS), "cat/.hidden": b"", **files}
    for name, content in found.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def test_pixels_labels_and_names(tmp_path: Path) -> None:
    """Classes by name, values from 0 to 1, channels first; gray has three equal channels where three are due."""
    pytest.importorskip("PIL", reason="Pillow is not installed")
    samples = read_samples(folder(tmp_path), types(3))
    assert samples.classes == ("cat", "dog")
    assert samples.arrays["labels"].tolist() == [0, 1]
    x = samples.arrays["x"]
    assert x.dtype == np.float32
    assert (x[0] == PIXELS.transpose(2, 0, 1) / np.float32(255)).all()
    assert (x[1] == PIXELS[..., 0] / np.float32(255)).all()
    gray = read_samples(tmp_path, types(1)).arrays["x"]
    assert (gray[1, 0] == x[1, 0]).all()
    weights = np.array([0.299, 0.587, 0.114])
    assert np.abs(gray[0, 0] - PIXELS @ weights / 255).max() <= 0.5 / 255 + 1e-6, "ITU-R 601, rounded"
    only = read_samples(
        folder(tmp_path / "more", **{"dog/c.png": png(PIXELS, COLOURS)}),
        types(3),
        request=Request(classes=("cat", "dog")),
    )
    assert only.arrays["labels"].tolist() == [0, 1, 1]


def test_photographs(tmp_path: Path) -> None:
    """A JPEG of one gray has that gray; one whose end is missing is refused."""
    images: Any = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    (tmp_path / "only").mkdir()
    path = tmp_path / "only" / "a.jpg"
    images.new("L", (WIDTH, HEIGHT), 128).save(path)
    assert (read_samples(tmp_path, types(1)).arrays["x"] == np.float32(128) / np.float32(255)).all()
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FileProblem, match=r"a\.jpg is damaged or not an image"):
        read_samples(tmp_path, types(1))


FAULTS = {
    "cat/wide.png": (png(PIXELS.transpose(1, 0, 2), COLOURS), "has 3 x 2 pixels, and nothing is scaled"),
    "cat/deep.png": (png(PIXELS.astype(">u2"), COLOURS, 16), "more than 8 bits"),
    "cat/clear.png": (png(PIXELS[..., :2], GRAY_ALPHA), "has transparent pixels"),
    "cat/short.png": (png(PIXELS, COLOURS)[:-30], "is damaged or not an image"),
    "cat/turned.png": (png(PIXELS, COLOURS).replace(b"IDAT", b"IDAX"), "is damaged or not an image"),
    "cat/pale.png": (png(PIXELS[..., 0], PALETTE), "has no palette for its pixels"),
    "cat/text.png": (b"no image", "is damaged or not an image"),
    "cat/photo.jpg": (png(PIXELS, COLOURS), "is damaged or not an image"),
    "cat/notes.txt": (b"", "is not an image"),
    "list.csv": (b"", "is not in a folder of a class"),
    "cat/more/a.png": (b"", "is not an image"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_by_name(name: str, tmp_path: Path) -> None:
    """A file that is no image of the model's size."""
    pytest.importorskip("PIL", reason="Pillow is not installed")
    content, word = FAULTS[name]
    with pytest.raises(FileProblem, match=word) as error:
        read_samples(folder(tmp_path, **{name: content}), types(3))
    assert str(tmp_path / name.replace("/more/a.png", "/more")) in str(error.value)


def test_whose_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later Pillow's deprecation is no damage, and an error of the reader itself is not the file's."""
    images: Any = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    opened = images.open

    def aging(*words: Any, **options: Any) -> Any:
        warnings.warn("this goes away", DeprecationWarning, stacklevel=2)
        return opened(*words, **options)

    monkeypatch.setattr(images, "open", aging)
    with pytest.warns(DeprecationWarning, match="this goes away"):
        assert read_samples(folder(tmp_path), types(3)).count == 2
    monkeypatch.undo()
    monkeypatch.setattr("deployer.fitting.data.images.READ_MODES", None)
    with pytest.raises(TypeError, match="NoneType"):
        read_samples(tmp_path, types(3))


def test_faults_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links out of the folder, classes without images or that nothing trains, models without images, no Pillow."""
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "PIL", None)
        with pytest.raises(ToolMissing, match="Pillow, which is not installed"):
            read_samples(folder(tmp_path / "a"), types(3))
    pytest.importorskip("PIL", reason="Pillow is not installed")
    (tmp_path / "a/cat/link.png").symlink_to(folder(tmp_path / "b") / "dog/b.png")
    with pytest.raises(FileProblem, match=r"link\.png is outside of"):
        read_samples(tmp_path / "a", types(3))
    with pytest.raises(FileProblem, match="dog is not a class of the samples that are trained"):
        read_samples(tmp_path / "b", types(3), request=Request(classes=("cat", "mouse")))
    with pytest.raises(DatasetMismatch, match="the model takes no images"):
        read_samples(tmp_path / "b", {"x": TensorType("float32", (2, 4)), "labels": LABELS})
    (tmp_path / "c/cat").mkdir(parents=True)
    for place in ("c/cat", "c"):
        with pytest.raises(FileProblem, match=f"{place} is empty"):
            read_samples(tmp_path / "c", types(3))
        (tmp_path / "c/cat").rmdir() if place == "c/cat" else None


@pytest.mark.slow
def test_command(tmp_path: Path) -> None:
    """A model trains on a folder, is validated on another, and the report has the names."""
    pytest.importorskip("PIL", reason="Pillow is not installed")
    weight = numpy_helper.from_array(np.ones((2, HEIGHT * WIDTH * 3), np.float32), "weight")
    nodes = [
        helper.make_node("Flatten", ("x",), ("f",), "flat"),
        helper.make_node("Gemm", ("f", "weight"), ("y",), "fc", transB=1),
    ]
    shapes = {"x": (2, 3, HEIGHT, WIDTH), "y": (2, 2)}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    data = folder(tmp_path / "data")
    words = ["fit", tmp_path / "m.onnx", "--data", data, "--validation", data, "--loss", "cross_entropy", "--quiet"]
    assert deployer(*words, "--epochs", 2, "-o", tmp_path / "run") == 0
    assert json.loads((tmp_path / "run/report.json").read_text())["classes"] == ["cat", "dog"]
