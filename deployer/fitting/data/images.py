"""Samples from a folder of images: a folder for each class, whose name is that of the label."""

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from deployer.core.errors import DatasetMismatch, FileProblem, ToolMissing
from deployer.core.files.reading import cause_of, content_of, damage, real_path
from deployer.core.ir import TensorType
from deployer.core.limits import ARCHIVE_BYTES
from deployer.core.operator import Array

MODES = {1: "L", 3: "RGB"}
"""What the pixels of an image become, by the channels of the model's input."""
READ_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA")
"""Pixels of at most 8 bits, which have a meaning as gray or red, green and blue."""
GRAY = ("1", "L", "LA")
FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
FILE_BYTES = 1 << 26
"""The largest file of an image, in bytes: it is in memory as a whole."""
OPAQUE = (255, 255)
SUSPICIONS = (UserWarning, RuntimeWarning)
"""Kinds of Pillow's warnings that say something against the file: of what it reads over, and of huge sizes."""
PNG_DEPTH = 24
"""Where a PNG file has the bits of a channel (PNG specification, 11.2.2 IHDR): a reader may drop some in silence."""


def read_images(
    folder: Path, types: Mapping[str, TensorType], classes: Sequence[str] = ()
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """Pixels and labels of a folder by the names of the data inputs, target last in `types`; and the classes' names.

    `folder` has a folder for each class and in it its images, PNG or JPEG; names that begin with a dot are left out.
    Classes count in the order of their names, or are `classes`, of which some may be missing. Pixels are float32 from 0
    to 1, [images, channels, height, width], as they are stored: gray (ITU-R 601) or red, green, blue by the channels of
    the model's input. Nothing is scaled: another size than the input's is refused. Labels are int64 [images].
    Raises ToolMissing without Pillow, DatasetMismatch where the model takes no images, FileProblem for everything
    that is no image of the right size, is transparent or outside of the folder, with its name.
    """
    names, kind = list(types), next(iter(types.values()))
    if len(names) != 2 or kind.dtype != "float32" or len(kind.shape) != 4 or kind.shape[1] not in MODES:
        found = [("found", ", ".join(f"{name} {each}" for name, each in types.items()))]
        facts = [("needed", "float32[batch, 1 or 3 channels, height, width], and labels"), *found]
        raise DatasetMismatch(f"{folder}: the model takes no images", facts, "an .npz with an array per input")
    library = _library()
    classes = classes or tuple(path.name for path in _inside(folder, folder))
    files = list(_files(folder, classes))
    shape = kind.shape[1:]
    if 4 * len(files) * int(np.prod(shape)) > ARCHIVE_BYTES:
        facts = [("images", str(len(files))), ("at most", f"{ARCHIVE_BYTES} B of pixels as float32")]
        raise FileProblem(f"{folder} exceeds the memory limit of samples", facts, "fewer images")
    pixels = np.empty((len(files), *shape), np.float32)
    for at, (_, path) in enumerate(files):
        pixels[at] = _pixels(library, path, shape)
    return {names[0]: pixels, names[1]: np.array([label for label, _ in files], np.int64)}, tuple(classes)


def image_shape(folder: Path) -> tuple[int, int, int]:
    """Channels, height and width of the first image of a folder: one channel if it is gray, else three.

    ToolMissing without Pillow, FileProblem where what comes first is no image of a class, or is damaged.
    """
    library = _library()
    _, path = next(_files(folder, [path.name for path in _inside(folder, folder)]))
    content = _content(path)
    with _damage(library, path, "ignore"), _opened(library, path, content) as image:
        return (1 if image.mode in GRAY else 3), image.size[1], image.size[0]


def _opened(library: Any, path: Path, content: bytes) -> Any:
    """Pillow's image, which reads its pixels when they are asked for."""
    return library.open(io.BytesIO(content), formats=(FORMATS[path.suffix.lower()],))


def _content(path: Path) -> bytes:
    """The bytes of an image; FileProblem where it is missing, no file, or too large."""
    return content_of(path, FILE_BYTES, "an image, or leave it out", "an image of fewer pixels")


@contextmanager
def _damage(library: Any, path: Path, suspicions: Literal["error", "ignore"] = "error") -> Iterator[None]:
    """Within this context, of calls of Pillow alone, its errors and suspicions become a FileProblem of the image."""
    cause, hint = f"{path} is damaged or not an image", "write it again, or leave it out"
    try:
        with damage(cause, hint), warnings.catch_warnings():
            for kind in SUSPICIONS:
                warnings.simplefilter(suspicions, kind)
            yield
    except (*SUSPICIONS, library.DecompressionBombError) as error:
        raise FileProblem(cause, [("cause", cause_of(error))], hint) from None


def _library() -> Any:
    """Pillow's module of images."""
    try:
        from PIL import Image
    except ImportError:
        raise ToolMissing("images are read by Pillow, which is not installed", hint="pip install pillow") from None
    return Image


def _inside(folder: Path, root: Path) -> list[Path]:
    """List a folder by name; raise FileProblem if it is empty or a link leads out of the root."""
    found = sorted((path for path in folder.iterdir() if not path.name.startswith(".")), key=lambda path: path.name)
    for path in found:
        if not real_path(path).is_relative_to(real_path(root)):
            raise FileProblem(f"{path} is outside of {root}", hint="a copy inside of it")
    if not found:
        hint = "a folder for each class, with its images" if folder == root else "images, or no such folder"
        raise FileProblem(f"{folder} is empty", hint=hint)
    return found


def _files(folder: Path, classes: Sequence[str]) -> Iterator[tuple[int, Path]]:
    """The label and the path of each image."""
    for subfolder in _inside(folder, folder):
        if not subfolder.is_dir():
            raise FileProblem(
                f"{subfolder} is not in a folder of a class", hint="a folder for each class, with its images"
            )
        if subfolder.name not in classes:
            facts = [("classes", ", ".join(classes))]
            raise FileProblem(
                f"{subfolder} is not a class of the samples that are trained", facts, "folders of these names"
            )
        for path in _inside(subfolder, folder):
            if not path.is_file() or path.suffix.lower() not in FORMATS:
                raise FileProblem(f"{path} is not an image", hint=f"only files that end with {', '.join(FORMATS)}")
            yield classes.index(subfolder.name), path


def _pixels(library: Any, path: Path, shape: Sequence[int]) -> Array:
    """The pixels of an image, float32 [channels, height, width]; FileProblem where it is none of that size."""
    channels, height, width = shape
    content = _content(path)
    with _damage(library, path):
        image = _opened(library, path, content)
        pictures = getattr(image, "n_frames", 1)
    reason, pixels = _reason(image, content, (width, height), pictures), None
    if not reason:
        with _damage(library, path):
            image = image.convert("RGBA") if image.has_transparency_data else image
            opaque = image.mode != "RGBA" or image.getextrema()[3] == OPAQUE
            pixels = np.asarray(image.convert("RGB").convert(MODES[channels]), np.float32) if opaque else None
        reason = "has transparent pixels, whose colour is not said"
    if pixels is None:
        raise FileProblem(f"{path} {reason}", [("expected", f"{width} x {height} pixels of 8 bits")], "convert it")
    return (pixels / np.float32(255)).reshape(height, width, channels).transpose(2, 0, 1)


def _reason(image: Any, content: bytes, size: tuple[int, int], pictures: int) -> str:
    """Return why an image is rejected before its pixels are read; empty if it is accepted."""
    if image.size != size:
        return f"has {image.size[0]} x {image.size[1]} pixels, and nothing is scaled"
    if image.mode not in READ_MODES or (image.format == "PNG" and content[PNG_DEPTH] > 8):
        return f"has pixels of more than 8 bits, or of other colours ({image.mode})"
    if image.mode in ("P", "PA") and image.palette is None:
        return "has no palette for its pixels"
    return "holds several pictures" if pictures > 1 else ""
