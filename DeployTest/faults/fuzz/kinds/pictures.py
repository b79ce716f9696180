"""Folders of images: what is read is what Pillow reads, and what the rules allow is not refused."""

import io
import os
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any
from unittest import mock

import numpy as np

from deployer.core.ir import TensorType
from deployer.fitting.data import images as reader
from deployer.fitting.data.sources import read_samples
from deployer.training.tables import Request
from DeployTest.faults.fuzz.bases import Path
from DeployTest.faults.fuzz.draw import Draw
from DeployTest.faults.fuzz.edits.register import edits_of
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.told import refusing, same_arrays
from DeployTest.faults.fuzz.trial import Finding, Trial

from .graph import damage

WIDTH, HEIGHT = 4, 5
SUFFIXES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
CLASSES = ((), (), ("cat", "dog"), ("dog", "bird", "cat"), ("cat",))


@cache
def _pictures() -> tuple[tuple[str, bytes], ...]:
    """Images of five rows by four columns in several forms; then one of another size, depth or transparency in each."""
    from PIL import Image

    draw, found = Draw("images"), []
    for mode, form in (("RGB", "png"), ("L", "png"), ("RGB", "jpeg"), ("L", "jpeg"), ("P", "png"), ("1", "png")):
        for width in (WIDTH, WIDTH, WIDTH - 1):
            pixels = np.frombuffer(draw.bytes(HEIGHT * width * 3), np.uint8).reshape(HEIGHT, width, 3)
            found.append((form, _saved(Image.fromarray(pixels, "RGB").convert(mode), form)))
    return tuple(found)


def _saved(image: Any, form: str, **more: Any) -> bytes:
    sink = io.BytesIO()
    image.save(sink, form, **more)
    return sink.getvalue()


@cache
def _odd_pictures() -> tuple[tuple[str, bytes], ...]:
    """Images with transparency or without, of 16 bits, with several pictures, of other colours, turned round."""
    from PIL import Image

    draw = Draw("odd images")
    pixels = np.frombuffer(draw.bytes(HEIGHT * WIDTH * 3), np.uint8).reshape(HEIGHT, WIDTH, 3)
    image = Image.fromarray(pixels, "RGB")
    clear, opaque = image.convert("RGBA"), image.convert("RGBA")
    clear.putpixel((3, 4), (1, 2, 3, 254))
    wide = Image.fromarray(np.arange(HEIGHT * WIDTH, dtype=np.uint16).reshape(HEIGHT, WIDTH) * 3000)
    turned = image.transpose(Image.Transpose.ROTATE_90)
    gray = image.convert("LA")
    return (
        ("png", _saved(clear, "png")),
        ("png", _saved(opaque, "png")),
        ("png", _saved(gray, "png")),
        ("png", _saved(wide, "png")),
        ("png", _saved(turned, "png")),
        ("png", _saved(image, "png", save_all=True, append_images=[turned.resize((WIDTH, HEIGHT))])),
        ("png", _saved(image, "png", transparency=tuple(map(int, pixels[0, 0])))),
        ("png", _saved(image, "png", transparency=(0, 0, 0))),
        ("png", _saved(image.convert("P"), "png", transparency=3)),
        ("png", _saved(image.convert("P"), "png", transparency=b"\xff" * 256)),
        ("jpeg", _saved(image.convert("CMYK"), "jpeg")),
        ("jpeg", _saved(image, "jpeg", progressive=True)),
        ("png", _saved(image, "bmp")),
        ("png", _saved(image, "gif")),
        ("png", _saved(image, "jpeg")),
    )


@kind(3)
def images(trial: Trial) -> str:
    """A folder of images: bytes of one, other things in it, and names."""
    draw, root = trial.draw("which"), trial.case / "images"
    for label in ("cat", "dog"):
        (root / label).mkdir(parents=True)
    right = [(form, content) for at, (form, content) in enumerate(_pictures()) if at % 3 < 2]
    for number in range(4):
        form, content = draw.one(right)
        suffix = form.upper() if draw.chance(0.2) else form
        (root / ("cat", "dog")[number % 2] / f"{number}.{suffix}").write_bytes(content)
    path = draw.one(sorted(root.glob("*/*")))
    if draw.chance(0.4):
        path.write_bytes(damage(trial, path.read_bytes()))
    if draw.chance(0.6):
        trial.edit("folder", root, trial.secret)
    kind_ = TensorType("float32", (2, draw.one((1, 3, 3)), HEIGHT, WIDTH))
    classes, shape = draw.one(CLASSES), kind_.shape[1:]
    trial.log += [f"classes {classes}"] if classes else []
    due = _due_images(root, shape, classes)
    limit = 4 * int(np.prod(shape)) * draw.one((3, 4, 5)) - draw.number(0, 1) if draw.chance(0.15) else 0
    if limit:
        trial.log.append(f"at most {limit} B")
        due = None if due is None or due[0].nbytes > limit else due
    limited = mock.patch.object(reader, "ARCHIVE_BYTES", limit) if limit else nullcontext()
    types = {"x": kind_, "labels": TensorType("int32", (2,))}
    with refusing(trial, root, path, *root.rglob("*"), right=due is not None), limited:
        found = read_samples(root, types, request=Request(classes=classes))
    assert due is not None
    same_arrays({"x": found.arrays["x"]}, {"x": due[0]})
    if found.arrays["labels"].reshape(-1).tolist() != due[1] or found.classes != due[2]:
        raise Finding("read otherwise", f"{found.classes}, {found.arrays['labels'].tolist()}, not {due[1:]}")
    taken = found.taken
    if taken is None or (taken.kind, taken.samples) != ("images", len(due[1])):
        raise Finding("read otherwise", f"{taken}")
    _compare_shape(trial, root, due[1])
    return "equal to Pillow's pixels"


def _compare_shape(trial: Trial, root: Path, labels: Sequence[int]) -> None:
    """Compare the shape that a model gets where it is made for the images."""
    from PIL import Image

    first = next(path for path in sorted(root.glob("*/*")) if "/." not in str(path.relative_to(root.parent)))
    with Image.open(first) as image:
        due = (1 if image.mode in ("1", "L", "LA") else 3), HEIGHT, WIDTH
    with refusing(trial, root, right=True):
        found = reader.image_shape(root)
    if found != due:
        raise Finding("read otherwise", f"the shape is {found}, not {due}, of {len(labels)} images")


Due = tuple[np.ndarray, list[int], tuple[str, ...]]


def _due_images(root: Path, shape: Sequence[int], classes: Sequence[str]) -> Due | None:
    """Pixels, labels and classes of a folder; None where it breaks a rule."""
    folders = _listed(root, root)
    if folders is None or not all(folder.is_dir() for folder in folders):
        return None
    names = tuple(classes) or tuple(folder.name for folder in folders)
    pixels, labels = list[np.ndarray](), list[int]()
    for folder in folders:
        files = _listed(folder, root)
        if folder.name not in names or files is None:
            return None
        for file in files:
            read = _by_pillow(file, shape) if file.is_file() and file.suffix.lower() in SUFFIXES else None
            if read is None:
                return None
            pixels.append(read)
            labels.append(names.index(folder.name))
    return np.stack(pixels), labels, names


def _listed(folder: Path, root: Path) -> list[Path] | None:
    """List a folder by name; None if it is empty or a link leads out of the root."""
    names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    inside = os.path.realpath(root) + os.sep
    ways = [os.path.realpath(folder / name) + os.sep for name in names]
    return [folder / name for name in names] if names and all(way.startswith(inside) for way in ways) else None


def _by_pillow(path: Path, shape: Sequence[int]) -> np.ndarray | None:
    """The pixels of an image; None where it is damaged, of another size or form, or says more than colours."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            warnings.simplefilter("error", RuntimeWarning)
            with Image.open(path) as image:
                right = image.format == SUFFIXES[path.suffix.lower()] and image.size == (WIDTH, HEIGHT)
                modes = image.mode in ("1", "L", "LA", "P", "PA", "RGB", "RGBA")
                frames, depth = getattr(image, "n_frames", 1), path.read_bytes()[24] if image.format == "PNG" else 8
                if not right or not modes or frames > 1 or depth > 8:
                    return None
                image.load()
                full = image.convert("RGBA")
                clear = np.asarray(full)[..., 3].min() < 255
                pixels = np.asarray(full.convert("RGB").convert("RGB" if shape[0] == 3 else "L"), np.float32)
    except Exception:  # Pillow's errors are of many kinds
        return None
    return (
        None
        if clear
        else np.ascontiguousarray((pixels / np.float32(255)).reshape(HEIGHT, WIDTH, -1).transpose(2, 0, 1))
    )


@edits_of("folder")
def entry_added(root: Path, secret: Path, draw: Draw) -> None:
    """A file, folder, link or link to itself, among classes or images."""
    home = draw.one((root, root / "cat", root / "dog"))
    path = home / draw.one(("x.png", "x", "Z.JPG", ".hidden", "x.txt", draw.one(("a\nb.png", "\x1b[31m.png", "é.png"))))
    if path.exists() or path.is_symlink() or not home.is_dir():
        return
    match draw.number(0, 7):
        case 7:
            path.symlink_to(draw.one(sorted(root.glob("*/*")) or [root]))
        case 0:
            path.symlink_to(path.name)
        case 1:
            path.symlink_to(secret)
        case 2:
            path.mkdir()
        case 3:
            path.symlink_to("nowhere")
        case 4:
            path.symlink_to("..")
        case 5:
            path.write_bytes(b"")
        case _:
            path.write_bytes(draw.one(_pictures())[1])


@edits_of("folder")
def entry_removed(root: Path, secret: Path, draw: Draw) -> None:
    """An image less, or one under another name."""
    files = sorted(path for path in root.glob("*/*") if path.is_file())
    if files:
        path = draw.one(files)
        path.rename(path.with_suffix(draw.one((".png", ".jpg", ".JPEG", ".bmp", "")))) if draw.chance(
            0.6
        ) else path.unlink()


@edits_of("folder")
def entry_of_another_form(root: Path, secret: Path, draw: Draw) -> None:
    """An image of another size, form or mode under a name that is there."""
    files = sorted(path for path in root.glob("*/*") if path.is_file())
    if files:
        draw.one(files).write_bytes(draw.one((*_pictures(), *_odd_pictures(), *_odd_pictures()))[1])
