"""Images of states as files: shown, exported to archives and models, imported again; what is damaged or foreign."""

import json
import re
import shutil
import struct
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from DeployTest.support.building.command_line import deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
HEAD, SEAL = 28, 8
WEIGHTS = {"down": (1, 3), "up": (2, 1)}


def digest(content: bytes) -> bytes:
    """FNV-1a as its authors define it."""
    value = 0xCBF29CE484222325
    for byte in content:
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return struct.pack("<Q", value)


def resealed(image: bytes) -> bytes:
    """The image with the digest of its bytes."""
    return image[:-SEAL] + digest(image[:-SEAL])


def in_slot(image: bytes, number: int) -> bytes:
    """A slot of flash with an image, filled up."""
    head = struct.pack("<4sI", b"slot", number)
    return (head + digest(head) + image).ljust(192, b"\xff")


def arrays_of(path: Path) -> dict[str, "np.ndarray"]:
    """The arrays of an archive."""
    with np.load(path) as arrays:
        return dict(arrays)


def shown(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, list[dict[str, object]]]:
    """Return the JSON of `deployer state show`."""
    capsys.readouterr()
    assert deployer("state", "show", *words, "--json") == 0
    result: dict[str, list[dict[str, object]]] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return result


def imported(library: Path, arrays: dict[str, "np.ndarray"], kind: str, folder: Path) -> bytes:
    """The image of a kind with these arrays."""
    np.savez(folder / "given.npz", **arrays)
    words = ("--library", library, "--kind", kind, "-o", folder / "made.bin", "--force")
    assert deployer("state", "import", folder / "given.npz", *words) == 0
    return (folder / "made.bin").read_bytes()


def test_round_trips(adapted: Path, tmp_path: Path) -> None:
    """Export and import give the same bytes, for each kind; arrays have the values of the image."""
    first, archive = (adapted / "weights.bin").read_bytes(), tmp_path / "out.npz"
    assert deployer("state", "export", adapted / "weights.bin", "-o", archive) == 0
    arrays = arrays_of(archive)
    assert imported(adapted, arrays, "state", tmp_path) == first
    arrays = {name: array + 1 for name, array in arrays.items()}
    for kind, held in (("state", 10), ("weights", 2), ("changes", 2)):
        image = imported(adapted, arrays, kind, tmp_path)
        assert resealed(image) == image
        out = tmp_path / f"{kind}.npz"
        assert deployer("state", "export", tmp_path / "made.bin", "--library", adapted, "-o", out) == 0
        found = arrays_of(out)
        assert len(found) == held
        assert all(found[name].tobytes() == arrays[name].tobytes() for name in found)
    one = {"up": arrays["up"]}
    changes = imported(adapted, one, "changes", tmp_path)
    assert changes[HEAD:-SEAL] == struct.pack("<I2f", 1, *one["up"].reshape(-1)), "one tensor of two, with its number"


def test_models(adapter: Path, adapted: Path, tmp_path: Path) -> None:
    """A model gets the weights of an image, and gives them back; frozen weights and the graph stay."""
    model = next(adapter.parent.glob("**/adapted.onnx"))
    weights = {name: np.full(shape, 0.5, np.float32) for name, shape in WEIGHTS.items()}
    image, out = imported(adapted, weights, "changes", tmp_path), tmp_path / "out.onnx"
    words = ("--library", adapted, "-o", out)
    assert deployer("state", "export", tmp_path / "made.bin", "--model", model, *words) == 0
    before, after = onnx.load(model), onnx.load(out)
    assert before.graph.node == after.graph.node
    for old, new in zip(before.graph.initializer, after.graph.initializer, strict=True):
        expected = weights.get(old.name, numpy_helper.to_array(old))
        assert numpy_helper.to_array(new).tobytes() == expected.tobytes()
    again = tmp_path / "again.bin"
    assert deployer("state", "import", out, "--library", adapted, "--kind", "changes", "-o", again) == 0
    assert again.read_bytes() == image


def test_dumps_of_flash(adapted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest whole image of the library's model is taken, also where numbers begin again; all are shown."""
    images = [
        imported(adapted, {"up": np.full((2, 1), value, np.float32)}, "weights", tmp_path) for value in (1.0, 2.0)
    ]
    path = tmp_path / "dump.bin"
    for first, second, newest in ((7, 8, 1), (8, 7, 0), (2**32 - 1, 0, 1)):
        path.write_bytes(b"slot" + bytes(60) + in_slot(images[0], first) + in_slot(images[1], second))
        result = shown(capsys, path, "--library", adapted)
        assert [image["save"] for image in result["images"]] == [first, second]
        assert [image["at"] for image in result["images"]] == [80, 272]
        assert result["tensors"][1]["least"] == newest + 1.0
        assert result["tensors"][1]["changed"] == 2
    foreign = resealed(images[0][:12] + bytes(8) + images[0][20:])
    (tmp_path / "both.bin").write_bytes(in_slot(foreign, 58) + in_slot(images[1], 1))
    result = shown(capsys, tmp_path / "both.bin", "--library", adapted)
    assert [image["save"] for image in result["images"]] == [58, 1]
    assert result["tensors"][1]["least"] == 2.0, "a firmware passes over what another model saved"
    damaged = bytearray(path.read_bytes())
    damaged[272 + 30] ^= 1
    path.write_bytes(damaged)
    result = shown(capsys, path, "--library", adapted)
    assert [image["whole"] for image in result["images"]] == [True, False]
    assert result["tensors"][1]["least"] == 1.0
    path.write_bytes(20 * in_slot(images[0][:-1] + b"!", 1))
    assert "too many images" in refused(capsys, "state", "show", path)


@pytest.mark.parametrize("shape", [[], [1]])
def test_tensor_called_as_passes(
    shape: list[int], adapted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tensor with the name that the count of passes has in an archive is not taken for it, whatever its shape."""
    library, row = tmp_path / "library", {"name": "image.passes", "type": "int32", "shape": shape, "weight": False}
    shutil.copytree(adapted, library)
    manifest = json.loads((library / "manifest.json").read_text())
    manifest["state"] = [row if tensor["name"] == "step" else tensor for tensor in manifest["state"]]
    (library / "manifest.json").write_text(json.dumps(manifest))
    message = refused(capsys, "state", "export", library / "weights.bin", "-o", tmp_path / "out.npz")
    assert "a tensor of the model is called 'image.passes'" in message


def test_no_number(adapted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """NaN and infinities are null in JSON, and so is their mean."""
    imported(adapted, {"up": np.array([[np.nan], [np.inf]], np.float32)}, "weights", tmp_path)
    row = shown(capsys, tmp_path / "made.bin", "--library", adapted)["tensors"][1]
    assert [row[key] for key in ("least", "most", "mean")] == [None, None, None]
    assert shown(capsys, tmp_path / "made.bin")["tensors"] == []


def test_damaged_images(adapted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A damaged image is refused with its fault and the numbers; so is a sealed one that does not fit."""
    path, words = tmp_path / "image.bin", ("--library", adapted)
    good = imported(adapted, {"up": np.ones((2, 1), np.float32)}, "changes", tmp_path)

    def told(content: bytes) -> str:
        path.write_bytes(content)
        return refused(capsys, "state", "show", path, *words)

    assert "does not exist" in refused(capsys, "state", "show", tmp_path / "nothing", *words)
    assert "holds no image" in told(b"")
    assert "too few for a header" in told(good[:30])
    assert f"its header gives {len(good)} B, and {len(good) - 1} B are left in the file" in told(good[:-1])
    assert "its digest is" in told(good[:-1] + b"?")
    assert "its format is 9" in told(resealed(good[:4] + struct.pack("<I", 9) + good[8:]))
    assert "there is no kind 3" in told(resealed(good[:8] + struct.pack("<I", 3) + good[12:]))
    assert "is of another model" in told(resealed(good[:12] + bytes(8) + good[20:]))
    for number in (2, 9, 2**31):
        assert "not a later weight" in told(resealed(good[:HEAD] + struct.pack("<I", number) + good[HEAD + 4 :]))
    short = good[:20] + struct.pack("<I", len(good) - 4) + good[24 : -SEAL - 4] + bytes(SEAL)
    assert "weight 1 has 4 B instead of 8 B" in told(resealed(short))
    with path.open("wb") as file:
        file.truncate((1 << 24) + 1)
    assert "too large" in refused(capsys, "state", "show", path, *words)


def test_refusals(adapted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Requests without a meaning, files that are there, arrays that do not fit, folders that are no library's."""
    image, out = adapted / "weights.bin", tmp_path / "out.npz"
    assert "takes no --kind" in refused(capsys, "state", "show", image, "--kind", "state")
    assert "writes a file" in refused(capsys, "state", "export", image)
    assert "is not an .npz or .onnx" in refused(capsys, "state", "export", image, "-o", tmp_path / "out.txt")
    assert "--model" in refused(capsys, "state", "export", image, "-o", tmp_path / "out.onnx")
    assert deployer("state", "export", image, "-o", out) == 0
    assert "exists" in refused(capsys, "state", "export", image, "-o", out)
    start = ("state", "import", tmp_path / "given.npz", "-o", tmp_path / "made.bin", "--library", adapted)
    for array, message in ((np.zeros((1, 2)), "another shape"), (np.zeros((2, 1), np.complex64), "not an npz archive")):
        np.savez(tmp_path / "given.npz", up=array)
        assert message in refused(capsys, *start)
    np.savez(tmp_path / "given.npz", up=np.zeros((2, 1), np.int32))
    assert deployer(*start) == 0, "integers are floats, too"
    np.savez(tmp_path / "given.npz", step=np.array([2.5]))
    assert "another type" in refused(capsys, *start, "--kind", "state", "--force")
    np.savez(tmp_path / "given.npz", step=np.array([2**40]))
    assert "holds a number that int32 does not" in refused(capsys, *start, "--kind", "state", "--force")
    np.savez(tmp_path / "given.npz", **{"step": np.array([1]), "image.passes": np.array(3)})
    message = refused(capsys, *start, "--kind", "state", "--force")
    assert re.search(r"image.passes is not a count of passes\n +in the file +3\n +passes per update +2\n", message)
    np.savez(tmp_path / "given.npz", other=np.zeros(1))
    assert "has no tensor of the library" in refused(capsys, *start, "--force")
    assert "manifest.json does not exist" in refused(capsys, *start[:-1], tmp_path, "--force")
    shutil.copytree(adapted, tmp_path / "other")
    manifest = json.loads((adapted / "manifest.json").read_text())
    for key, value in (("state", [1]), ("identities", ["0"]), ("accumulate", True), ("state", manifest["state"] * 2)):
        (tmp_path / "other/manifest.json").write_text(json.dumps({**manifest, key: value}))
        assert "is not a manifest of a library" in refused(capsys, *start[:-1], tmp_path / "other", "--force")
