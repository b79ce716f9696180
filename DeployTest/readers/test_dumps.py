"""Dumps of flash: digests by one rule for blocks of bytes, and no more of them than the file is long."""

import os
from pathlib import Path

import pytest

from deployer.core.errors import FileProblem
from deployer.core.limits import IMAGE_BYTES
from deployer.firmware import images, state
from deployer.firmware.state import DIGEST, FNV_BLOCK, FNV_OFFSET, FNV_PRIME, HEADER, MAGIC, SLOT, SLOT_MAGIC, VERSION

pytestmark = [pytest.mark.host]


def by_definition(content: bytes) -> int:
    """The digest byte by byte, as Fowler, Noll and Vo have it."""
    digest = FNV_OFFSET
    for byte in content:
        digest = (digest ^ byte) * FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return digest


LENGTHS = (0, 1, 2, 12, 255, FNV_BLOCK - 1, FNV_BLOCK, FNV_BLOCK + 1, 3 * FNV_BLOCK + 7)


@pytest.mark.parametrize("length", LENGTHS)
def test_digest(length: int) -> None:
    """Of random bytes, of zeros and of ones, around the length of a block."""
    for content in (os.urandom(length), bytes(length), b"\xff" * length):
        assert state.fnv1a(content) == by_definition(content)


def test_published_digests() -> None:
    """Values of the authors' own test vectors."""
    known = {b"": 0xCBF29CE484222325, b"a": 0xAF63DC4C8601EC8C, b"foobar": 0x85944171F73967E8}
    assert {text: state.fnv1a(text) for text in known} == known


def head(number: int) -> bytes:
    """The head of a slot with a right digest."""
    words = SLOT_MAGIC + number.to_bytes(4, "little")
    return words + DIGEST.pack(by_definition(words))


def overlapping(size: int, count: int) -> bytes:
    """Heads of slots behind each other, before images each of which says that it reaches to the end."""
    content = bytearray(size)
    for number in range(count):
        at = number * (SLOT.size + HEADER.size)
        content[at : at + SLOT.size] = head(number)
        behind = at + SLOT.size
        length = size - behind
        content[behind : behind + HEADER.size] = HEADER.pack(MAGIC, VERSION, 0, 5, length, 0)
    return bytes(content)


def test_digested_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged lengths that reach over all that follows cost no more than the file is long, however many there are."""
    digested: list[int] = []
    whole = state.fnv1a
    monkeypatch.setattr(images, "fnv1a", lambda content: digested.append(len(content)) or whole(content))
    path = tmp_path / "dump.bin"
    path.write_bytes(overlapping(1 << 20, images.MOST_SLOTS))
    found = images.find_images(path)
    assert len(found) == images.MOST_SLOTS
    assert all(image.fault for image in found)
    assert "overlap other saves" in found[-1].fault
    assert sum(digested) <= 1 << 20


def test_whole_image_behind_damaged_ones(tmp_path: Path) -> None:
    """An intact image is found, whatever lengths the images before it claim."""
    path, image = tmp_path / "dump.bin", state.sealed_image(0, 7, 0, bytes(400))
    path.write_bytes(overlapping(4096, 8) + head(9) + image)
    found = images.find_images(path)
    assert [image.number for image in found if not image.fault] == [9]


def test_magics_without_end(tmp_path: Path) -> None:
    """A file of beginnings alone is judged at once: no digest by itself for each."""
    path = tmp_path / "dump.bin"
    path.write_bytes(SLOT_MAGIC * (IMAGE_BYTES // len(SLOT_MAGIC)))
    with pytest.raises(FileProblem, match="no image"):
        images.find_images(path)
    path.write_bytes(head(1) * 100)
    with pytest.raises(FileProblem, match="too many"):
        images.find_images(path)
