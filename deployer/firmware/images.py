"""State images as files: found in a firmware's output or in a flash dump, checked, and written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from deployer.core.errors import FileProblem
from deployer.core.files.reading import content_of
from deployer.core.limits import IMAGE_BYTES
from deployer.firmware.state import (
    DIGEST,
    DONE,
    DONE_MAGIC,
    HEADER,
    KEPT_MAGIC,
    KINDS,
    MAGIC,
    SLOT,
    SLOT_MAGIC,
    UNIT_MOST,
    VERSION,
    fnv1a,
    fnv1a_each,
)

MOST_SLOTS = 16
"""Beginnings of images in a file; flash has two slots for each model."""


@dataclass(frozen=True, eq=False)
class Image:
    """Image at an offset of its file: the numbers of its header, the bytes of its tensors, and its fault.

    `number` is the save's, of an image in flash, and `done` whether that came to its end; `fault` is empty for an image
    that is whole.
    """

    at: int
    number: int | None
    kind: int
    identity: int
    length: int
    passes: int
    body: bytes
    digest: int
    fault: str
    done: bool = False

    @property
    def kind_name(self) -> str:
        """Name of the image's kind."""
        return KINDS[self.kind] if self.kind < len(KINDS) else f"kind {self.kind}"


def find_images(path: Path) -> tuple[Image, ...]:
    """The images of a file, whole and damaged: the one that it begins with, or those of slots of flash in it.

    FileProblem where there are none, or more beginnings than flash has slots.
    """
    content = content_of(
        path, IMAGE_BYTES, "the path of an image, or of a dump of flash", "a dump of only the two slots"
    )
    found = (_image(content, 0, None),) if content.startswith(MAGIC) else tuple(_in_slots(path, content))
    if not found:
        facts = [("size", f"{len(content)} B"), ("looked for", f"{MAGIC.decode()!r} at 0, {SLOT_MAGIC.decode()!r}")]
        raise FileProblem(f"{path} holds no image of a state", facts, "what save wrote, or a dump of the flash")
    return found


def newest_image(images: Sequence[Image], origin: Path, identities: Sequence[int] = ()) -> Image:
    """The newest whole image; of the model with these identities by kinds, if there is one, as its firmware takes it.

    FileProblem where none is whole.
    """
    whole = [image for image in images if not image.fault]
    if not whole:
        facts = [(f"at {image.at}", image.fault) for image in images]
        raise FileProblem(f"{origin} holds no whole image", facts, "another copy of it")
    own = [image for image in whole if identities and image.identity == identities[image.kind]] or whole
    newest, *others = [image for image in own if image.done] or own
    for image in others:
        ahead = ((image.number or 0) - (newest.number or 0)) & 0xFFFFFFFF
        newest = image if ahead >> 31 == 0 else newest
    return newest


def _in_slots(path: Path, content: bytes) -> Iterator[Image]:
    """The images behind heads of slots whose digests are right; a whole image is not looked into."""
    behind = seen = spent = 0
    for place, number in _heads(content):
        if place < behind:
            continue
        seen += 1
        if seen > MOST_SLOTS:
            facts = [("at most", str(MOST_SLOTS))]
            raise FileProblem(f"{path} holds too many images", facts, "a dump of only the two slots")
        image = _image(content, place + SLOT.size, number, len(content) - spent)
        yield replace(image, done=_is_done(content, place, image))
        behind = place + SLOT.size + (0 if image.fault else image.length)
        spent += len(image.body) if image.fault else 0


def _heads(content: bytes) -> Iterator[tuple[int, int]]:
    """Place and number of each head of a slot whose digest is right, all of them judged at once."""
    data = np.frombuffer(content, np.uint8)
    found = np.ones(max(data.size - SLOT.size + 1, 0), bool)
    for at, byte in enumerate(SLOT_MAGIC):
        found &= data[at : at + found.size] == byte
    places, signed = np.flatnonzero(found), SLOT.size - DIGEST.size
    right = np.ones(places.shape, bool)
    for at, due in enumerate(fnv1a_each(data, places, signed).astype("<u8").view(np.uint8).reshape(-1, DIGEST.size).T):
        right &= data[places + signed + at] == due
    for place in places[right].tolist():
        yield place, SLOT.unpack_from(content, place)[1]


def _is_done(content: bytes, slot: int, image: Image) -> bool:
    """Whether a record that a save ended is behind an image, in the first unit there, of any size, or next."""
    end, records = SLOT.size + image.length, [DONE.pack(magic, image.number or 0) for magic in (DONE_MAGIC, KEPT_MAGIC)]
    for unit in (1 << power for power in range(UNIT_MOST.bit_length())):
        first, each = slot + -(-end // unit) * unit, -(-DONE.size // unit) * unit
        if any(content.startswith(record, first + at * each) for at, record in enumerate(records)):
            return True
    return False


def _image(content: bytes, at: int, number: int | None, most: int = IMAGE_BYTES) -> Image:
    """The image that begins at a place; one that says it has more than `most` bytes is not digested.

    Images in slots have their own bytes, but damaged lengths may reach over all that follows: together the digests of
    images that turn out as damaged take no longer than one of the file.
    """
    if len(content) - at < HEADER.size + DIGEST.size:
        return Image(at, number, 0, 0, 0, 0, b"", 0, f"{len(content) - at} B are too few for a header and a digest")
    magic, version, kind, identity, length, passes = HEADER.unpack_from(content, at)
    fault, body, digest = "", b"", 0
    if magic != MAGIC:
        fault = "it does not begin as an image does"
    elif version != VERSION:
        fault = f"its format is {version}, and this compiler reads {VERSION}"
    elif kind >= len(KINDS):
        fault = f"there is no kind {kind}"
    elif not HEADER.size + DIGEST.size <= length <= len(content) - at:
        fault = f"its header gives {length} B, and {len(content) - at} B are left in the file"
    elif length > most:
        fault = f"its header gives {length} B, which overlap other saves of this file"
    else:
        [digest] = DIGEST.unpack_from(content, at + length - DIGEST.size)
        computed = fnv1a(content[at : at + length - DIGEST.size])
        if computed != digest:
            fault = f"its digest is {digest:016x}, and its bytes have {computed:016x}"
        body = content[at + HEADER.size : at + length - DIGEST.size]
    return Image(at, number, kind, identity, length, passes, body, digest, fault)
