"""Tensors of images, as described by a library's manifest and its initial state."""

import itertools
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deployer.core.errors import DatasetMismatch, FileProblem
from deployer.core.files.reading import content_of, damage, parse_json
from deployer.core.ir import DTYPES, TensorType
from deployer.core.limits import IMAGE_BYTES, RANK
from deployer.core.operator import Array
from deployer.core.safe_text import member_name
from deployer.firmware.images import Image, find_images, newest_image
from deployer.firmware.state import CHANGES, KINDS, STATE, WORD, sealed_image

MANIFEST, FIRST = "manifest.json", "weights.bin"
TRAINS = "--library FOLDER of a library that trains"
PASSES = "image.passes"
"""The array of an archive that says how many passes wait for their update."""
_INDEX = struct.Struct("<I")


@dataclass(frozen=True)
class Saved:
    """A tensor of a model's state, by its name in the training graph."""

    name: str
    type: TensorType
    is_weight: bool


@dataclass(frozen=True, eq=False)
class LibraryManifest:
    """Manifest of a library's images: tensors in order, an identity per kind of image, and initial contents.

    `accumulate` is how many passes may wait for an update.
    """

    tensors: tuple[Saved, ...]
    identities: tuple[int, ...]
    accumulate: int
    first: Mapping[str, Array]


def read_library(folder: Path) -> LibraryManifest:
    """The description in a library's folder; FileProblem where it is missing, damaged, or of another library."""
    path, first = folder / MANIFEST, folder / FIRST
    content = content_of(
        path, IMAGE_BYTES, "--library FOLDER, which `deployer package` made", "the folder of a library"
    )
    with damage(f"{path} is not a manifest of a library", "package the case again"):
        read = parse_json(content)
        if "plan" in read and "state" not in read:
            raise FileProblem(f"{folder} is a library that only predicts, and has no state", hint=TRAINS)
        library = _described(read)
    image = newest_image(find_images(first), first, library.identities)
    if image.kind != STATE:
        raise FileProblem(f"{first} holds {image.kind_name}, not a state", hint="package the case again")
    return replace(library, first=image_arrays(image, library, first))


def _described(read: Any) -> LibraryManifest:
    """Parse a manifest without initial contents; raise ValueError, TypeError or KeyError if it is malformed."""
    identities = tuple(int(text, 16) for text in read["identities"])
    if len(identities) != len(KINDS) or not all(0 <= number < 1 << 64 for number in identities):
        raise ValueError("identities: one number of 64 bits for each kind of image")
    tensors = tuple(_saved(row) for row in read["state"])
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise ValueError("state: a name is used twice")
    if sum(tensor.type.bytes for tensor in tensors) > IMAGE_BYTES:
        raise ValueError(f"state: more than {IMAGE_BYTES} B")
    if type(read["accumulate"]) is not int or not 0 < read["accumulate"] < 1 << 32:
        raise ValueError("accumulate: not a count of passes")
    return LibraryManifest(tensors, identities, read["accumulate"], {})


def _saved(row: Any) -> Saved:
    name, dtype, shape, weight = row["name"], row["type"], row["shape"], row["weight"]
    lengths = isinstance(shape, list) and len(shape) <= RANK and all(type(n) is int and n >= 0 for n in shape)
    if not isinstance(name, str) or dtype not in DTYPES or not lengths or not isinstance(weight, bool):
        raise ValueError(f"state: {str(row)[:80]} is not a tensor")
    return Saved(name, TensorType(dtype, tuple(shape)), weight)


def image_arrays(image: Image, library: LibraryManifest, origin: Path) -> dict[str, Array]:
    """The tensors of an image by name, of changes all weights; DatasetMismatch where it is of another model."""
    if image.identity != library.identities[image.kind]:
        facts = [("the image's model", f"{image.identity:016x}"), ("library", f"{library.identities[image.kind]:016x}")]
        facts.append(("compared", "names, types, frozen weights" + ", first weights" * (image.kind == CHANGES)))
        raise DatasetMismatch(f"{origin} is of another model", facts, "--library FOLDER of the model that saved it")
    if image.kind == CHANGES:
        return _changed(image.body, library, origin)
    held = [tensor for tensor in library.tensors if image.kind == STATE or tensor.is_weight]
    ends = list(itertools.accumulate((tensor.type.bytes for tensor in held), initial=0))
    if ends[-1] != len(image.body):
        raise _unfit(origin, f"its tensors take {len(image.body)} B, and the library's {ends[-1]} B")
    return {tensor.name: _array(image.body, at, tensor.type) for tensor, at in zip(held, ends, strict=False)}


def _changed(body: bytes, library: LibraryManifest, origin: Path) -> dict[str, Array]:
    arrays = {tensor.name: library.first[tensor.name] for tensor in library.tensors if tensor.is_weight}
    place, following = 0, 0
    while place < len(body):
        [index] = _INDEX.unpack_from(body, place) if len(body) - place >= WORD else [len(library.tensors)]
        place += WORD
        if not following <= index < len(library.tensors) or not library.tensors[index].is_weight:
            raise _unfit(origin, f"byte {place} of its tensors is index {index}, which is not a later weight")
        tensor, following = library.tensors[index], index + 1
        if tensor.type.bytes > len(body) - place:
            raise _unfit(origin, f"weight {index} has {len(body) - place} B instead of {tensor.type.bytes} B")
        arrays[tensor.name] = _array(body, place, tensor.type)
        place += tensor.type.bytes
    return arrays


def _unfit(origin: Path, cause: str) -> FileProblem:
    return FileProblem(f"{origin}: {cause}", hint="another copy of it")


def _array(content: bytes, at: int, kind: TensorType) -> Array:
    return np.frombuffer(content, np.dtype(kind.dtype).newbyteorder("<"), kind.size, at).reshape(kind.shape)


def make_image(kind: int, arrays: Mapping[str, Array], passes: int, library: LibraryManifest, origin: Path) -> bytes:
    """An image with these tensors; those that are missing are as at first.

    DatasetMismatch where a shape or a type does not fit, or no array is a tensor of the image.
    """
    body, taken = bytearray(), 0
    for index, tensor in enumerate(library.tensors):
        if kind != STATE and not tensor.is_weight:
            continue
        first = library.first[tensor.name]
        key = next((key for key in (tensor.name, member_name(tensor.name)) if key in arrays), None)
        array = first if key is None else _fitting(tensor, arrays[key], origin)
        taken += key is not None
        if kind == CHANGES and array.tobytes() == first.tobytes():
            continue
        body += (_INDEX.pack(index) if kind == CHANGES else b"") + array.tobytes()
    if not taken:
        names = ", ".join(tensor.name for tensor in library.tensors)
        facts = [("library", names), ("arrays", ", ".join(arrays))]
        raise DatasetMismatch(f"{origin} has no tensor of the library", facts, "arrays by the names of tensors")
    return sealed_image(kind, library.identities[kind], passes, bytes(body))


def _fitting(tensor: Saved, array: Array, origin: Path) -> Array:
    own = np.dtype(tensor.type.dtype).newbyteorder("<")
    facts = [("in the library", str(tensor.type)), ("in the file", f"{array.dtype}{list(array.shape)}")]
    if array.shape != tensor.type.shape and not array.size == tensor.type.size == 1:
        raise DatasetMismatch(f"{origin}: {tensor.name!r} has another shape", facts)
    if not np.can_cast(array.dtype, own, "same_kind"):
        raise DatasetMismatch(f"{origin}: {tensor.name!r} has another type", facts)
    with np.errstate(over="ignore"):
        cast = array.astype(own)
    if own.kind == "i" and (cast != array).any():
        raise DatasetMismatch(f"{origin}: {tensor.name!r} holds a number that {own} does not", facts)
    return np.ascontiguousarray(cast).reshape(tensor.type.shape)
