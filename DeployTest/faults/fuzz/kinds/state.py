"""Images of states, dumps of flash with them, and the manifests that describe them, through `deployer state`."""

import hashlib
import itertools
import json
import math
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from deployer.core.errors import UserError
from deployer.firmware.images import MOST_SLOTS, find_images, newest_image
from deployer.firmware.state import DIGEST, FNV_OFFSET, FNV_PRIME, HEADER, MAGIC, SLOT, SLOT_MAGIC, VERSION
from DeployTest.faults.fuzz.bases import Path
from DeployTest.faults.fuzz.building import command, judge_exit
from DeployTest.faults.fuzz.draw import Draw
from DeployTest.faults.fuzz.edits.register import edits_of
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.told import refusing, same_arrays
from DeployTest.faults.fuzz.trial import Finding, Refused, Trial

from .graph import damage
from .samples import strict_json

IDENTITIES = (1, 1, 2)
"""The model's numbers, by kinds of images."""
WORDS = {"float32": "<f4", "int32": "<i4"}


@dataclass(frozen=True)
class Row:
    """An image at a place: the save's number, its kind and identity, its bytes, its body, and what holds of it."""

    at: int
    number: int | None
    kind: int
    identity: int
    length: int
    passes: int
    body: bytes
    whole: bool
    done: bool


def _digest(content: bytes) -> int:
    """The digest byte by byte."""
    digest = FNV_OFFSET
    for byte in content:
        digest = (digest ^ byte) * FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return digest


def _sealed(content: bytes, wrong: int = 0) -> bytes:
    return content + DIGEST.pack(_digest(content) ^ wrong)


def _slot(draw: Draw, number: int, whole: bool = False) -> bytes:
    """A head, an image, and the record of a save that is done, one of which may be wrong in a field."""
    if whole:
        image = _sealed(HEADER.pack(MAGIC, VERSION, 1, 1, HEADER.size + DIGEST.size, 0))
        return _sealed(SLOT_MAGIC + struct.pack("<I", number)) + image
    magic = SLOT_MAGIC if draw.chance(0.8) else draw.one((b"alot", b"sxot", b"slit", b"sloT", b"slo\0"))
    head = _sealed(magic + struct.pack("<I", number), draw.one((0, 0, 0, 0, 0, 0, 1, 1 << 63)))
    body = draw.bytes(draw.one((0, 1, 4, draw.number(0, 300))))
    length = HEADER.size + len(body) + DIGEST.size
    told = length if draw.chance(0.7) else draw.one((0, length - 1, length + 1, 36, 35, 2**32 - 1, 500, 2000))
    kind_, version = draw.one((0, 1, 2, 2, 3, 4)), draw.one((*[VERSION] * 6, VERSION - 1, VERSION + 1))
    magic, identity = draw.one((*[MAGIC] * 6, b"dplx")), draw.one((1, 1, 2, 7))
    image = _sealed(
        HEADER.pack(magic, version, kind_, identity, told, draw.number(0, 9)) + body, draw.one((0, 0, 0, 1))
    )
    unit = 1 << draw.number(0, 9)
    filled = -len(head + image) % unit + draw.one((0, 0, 0, 0, 1, unit))
    done = b"done" + struct.pack("<I", draw.one((number, number, number, number + 1 & 0xFFFFFFFF)))
    kept = b"kept" + struct.pack("<I", number)
    if draw.chance(0.3):
        done = draw.one((done, bytes(8))).ljust(max(8, unit + draw.one((0, 0, 0, 1))), b"\xff") + kept
    return head + image + (b"\xff" * filled + done if draw.chance(0.6) else b"")


@kind(3)
def dump(trial: Trial) -> str:
    """A dump of flash with slots at any places, whole, damaged, overlapping and nested."""
    draw, path = trial.draw("which"), trial.case / "dump.bin"
    content, first = b"", draw.number(0, 2**32 - 1)
    count = draw.one((0, 1, 1, 2, 2, 2, 3, 5, MOST_SLOTS, MOST_SLOTS + 1, 20))
    for _ in range(count):
        content += draw.one((b"", b"", b"\xff", b"slot", b"\0")) * draw.number(0, 40)
        number = first + draw.number(0, 3) if draw.chance(0.8) else draw.number(0, 2**32 - 1)
        content += _slot(draw, number & 0xFFFFFFFF, count >= MOST_SLOTS and draw.chance(0.97))
    if draw.chance(0.1):
        content = content[SLOT.size :]
    if draw.chance(0.1):  # a head that is the last of what there is
        content += _sealed(SLOT_MAGIC + struct.pack("<I", first))
    if draw.chance(0.3):
        content = damage(trial, content)
    path.write_bytes(content)
    due = _images(content)
    try:
        with refusing(trial, path, right=0 < len(due) <= MOST_SLOTS):
            found = find_images(path)
    except (UserError, Finding) as error:
        text = str(error)
        if ("no image" in text and not due) or ("too many" in text and len(due) > MOST_SLOTS):
            return "nothing is there" if not due else "too many are there"
        raise
    mine = [
        Row(i.at, i.number, i.kind, i.identity, i.length, i.passes, i.body if not i.fault else b"", not i.fault, i.done)
        for i in found
    ]
    if len(due) > MOST_SLOTS:
        raise Finding("read otherwise", f"{len(due)} images are taken, and flash has no more than {MOST_SLOTS} slots")
    if mine != due:
        raise Finding("read otherwise", f"{_shown(mine)}, not {_shown(due)}")
    newest = _newest(due)
    try:
        taken = newest_image(found, path, IDENTITIES)
    except UserError as error:
        if newest is not None or str(path) not in str(error):
            raise Finding("refused otherwise", str(error)) from error
        return "equal to a search byte by byte"
    if newest is None or (newest.at != taken.at and sum(row.whole for row in due) < 3):
        raise Finding("read otherwise", f"the newest is {taken.at}, not {newest}")
    return "equal to a search byte by byte"


def _shown(rows: list[Row]) -> list[tuple[int, int | None, int, bool, bool]]:
    return [(row.at, row.number, row.length, row.whole, row.done) for row in rows]


def _newest(rows: list[Row]) -> Row | None:
    """The newest of at most two whole images, by the model, by what is done, then by the number; None without any."""
    whole = [row for row in rows if row.whole]
    own = [row for row in whole if row.identity == IDENTITIES[row.kind]] or whole
    left = [row for row in own if row.done] or own
    if len(left) < 2:
        return left[0] if left else None
    ahead = ((left[1].number or 0) - (left[0].number or 0)) % (1 << 32)
    return left[1] if ahead < 1 << 31 else left[0]


def _images(content: bytes) -> list[Row]:
    """The images of a dump, whole and damaged."""
    if content.startswith(MAGIC):
        return [_image(content, 0, None, -1)]
    found, at = list[Row](), 0
    while at + SLOT.size <= len(content):
        head = content[at : at + SLOT.size]
        if head.startswith(SLOT_MAGIC) and DIGEST.unpack(head[8:])[0] == _digest(head[:8]):
            found.append(_image(content, at + SLOT.size, int.from_bytes(head[4:8], "little"), at))
            at += SLOT.size + (found[-1].length if found[-1].whole else 0)
        else:
            at += 1
    return found


def _image(content: bytes, at: int, number: int | None, slot: int) -> Row:
    if len(content) - at < HEADER.size + DIGEST.size:
        return Row(at, number, 0, 0, 0, 0, b"", False, slot >= 0 and _ends(content, slot, SLOT.size, number))
    magic, version, kind_, identity, length, passes = HEADER.unpack_from(content, at)
    part = content[at : at + length]
    fits = HEADER.size + DIGEST.size <= length == len(part) and (magic, version) == (MAGIC, VERSION) and kind_ < 3
    whole = fits and _digest(part[:-8]) == DIGEST.unpack(part[-8:])[0]
    body = part[HEADER.size : -8] if whole else b""
    done = slot >= 0 and _ends(content, slot, SLOT.size + length, number)
    return Row(at, number, kind_, identity, length, passes, body, whole, done)


def _ends(content: bytes, slot: int, end: int, number: int | None) -> bool:
    """Whether a save is recorded as done at the first multiple, from the slot on, of some unit behind its image.

    Or as kept behind that.
    """
    told = (number or 0).to_bytes(4, "little")
    for unit in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        place = slot + next(at for at in range(end, end + unit) if at % unit == 0)
        if content[place : place + 8] == b"done" + told:
            return True
        place += max(8, unit)
        if content[place : place + 8] == b"kept" + told:
            return True
    return False


TENSORS = (("first", "float32", [2, 3], True), ("second", "float32", [4], True), ("step", "int32", [1], False))
TENSORS += (("third/x", "int32", [2], True), ("empty", "float32", [0, 2], True))


@cache
def _manifest() -> str:
    """The part of a library's manifest that says what images hold."""
    rows = [dict(zip(("name", "type", "shape", "weight"), row, strict=True)) for row in TENSORS]
    return json.dumps({"state": rows, "accumulate": 2, "identities": [f"{number:x}" for number in IDENTITIES]})


def _body(number: int, draw: Draw) -> bytes:
    """The tensors of an image of a kind, in order; of changes some of them, each behind its index."""
    arrays = [
        np.arange(3 + at, 3 + at + math.prod(row[2])).astype(WORDS[str(row[1])]) for at, row in enumerate(TENSORS)
    ]
    held = [at for at, row in enumerate(TENSORS) if number == 0 or row[3]]
    if number < 2:
        return b"".join(arrays[at].tobytes() for at in held)
    some = sorted(draw.some(held, draw.number(0, len(held))))
    order = some if draw.chance(0.7) else draw.one((some[::-1], some + some[-1:], [*some, 2], [*some, len(TENSORS)]))
    return b"".join(at.to_bytes(4, "little") + (arrays[at].tobytes() if at < len(arrays) else b"") for at in order)


def _written(draw: Draw, number: int, body: bytes) -> bytes:
    """An image with a right digest; some in a slot, where the head is right, too."""
    identity = IDENTITIES[number] if draw.chance(0.9) else draw.one((1, 2, 3))
    length = HEADER.size + len(body) + DIGEST.size
    image = _sealed(HEADER.pack(MAGIC, VERSION, number, identity, length, draw.number(0, 3)) + body)
    if draw.chance(0.6):
        return image
    return _sealed(SLOT_MAGIC + draw.number(0, 2**32 - 1).to_bytes(4, "little")) + image


@edits_of("described")
def tensor_moved(manifest: dict[str, Any], draw: Draw) -> None:
    """Another shape, type, name or order of the tensors, or other numbers."""
    rows = manifest.get("state")
    if not isinstance(rows, list) or not rows:
        return
    row = draw.one(rows)
    match draw.number(0, 6):
        case 6:
            manifest["plan"] = draw.one(({}, None, "x"))
            for key in draw.one(((), ("state",), ("state",), (*manifest,))):
                manifest.pop(key, None)
        case 0 if isinstance(row, dict):
            row["shape"] = draw.one(
                ([3, 2], [6], [-1], [2, 3.0], [True, 4], [1] * 33, [1] * 32, None, [], [2, 4], "", 4)
            )
        case 1 if isinstance(row, dict):
            row["type"] = draw.one(("float32", "int32", "float64", "", None, []))
        case 2 if isinstance(row, dict):
            row["name"] = draw.one(("first", "second", 1, None, "image.passes", "a" * 300))
        case 3:
            draw.random.shuffle(rows)
        case 4:
            manifest["identities"] = draw.one(
                (
                    ["1", "1", "3"],
                    ["1", "1", "0"],
                    ["1", "0", "2"],
                    ["f" * 16, "1", "2"],
                    ["1", "1"],
                    ["1"] * 4,
                    ["-1", "1", "2"],
                    [1, 1, 2],
                    "112",
                )
            )
        case _:
            manifest["accumulate"] = draw.one((0, 1, -1, 2**32, 2**32 - 1, True, 2.0, "2", None))


@kind(3)
def state(trial: Trial) -> str:
    """An image, a manifest and a first state, one of which is damaged; what is exported is what is there."""
    draw, folder = trial.draw("which"), trial.work / "library"
    folder.mkdir(parents=True)
    number, where = draw.one((0, 1, 2, 2)), draw.one(("bytes", "tensors", "manifest", "described", "first", "nothing"))
    manifest, image = _manifest().encode(), _written(draw, number, _body(number, draw))
    first = _sealed(HEADER.pack(MAGIC, VERSION, 0, 1, 36 + len(_body(0, draw)), 0) + _body(0, draw))
    match where:
        case "described":
            table = json.loads(manifest)
            trial.edit(draw.one(("described", "described", "artefact")), table)
            manifest = json.dumps(table).encode()
        case "manifest":
            manifest = damage(trial, manifest)
        case "first":
            first = damage(trial, first) if draw.chance(0.5) else _written(draw, draw.number(0, 2), _body(0, draw))
        case "bytes":
            image = damage(trial, image)
        case "tensors":
            image = _written(draw, number, damage(trial, _body(number, draw)))
    path, out = trial.work / "image.bin", trial.work / "out.npz"
    for place, content in ((folder / "manifest.json", manifest), (folder / "weights.bin", first), (path, image)):
        place.write_bytes(content)
    way = draw.one(("show", "export", "export"))
    due = _exported(manifest, first, image, way == "export")
    words: list[object] = ["state", way, path, "--library", folder]
    code, _, errors = command(trial, words + (["-o", out] if way == "export" else []))
    try:
        said = judge_exit(f"state {way}", code, errors)
    except Refused:
        if due is not None:
            raise Finding("refused otherwise", errors) from None
        if _only_predicts(manifest) and "only predicts" not in errors:
            raise Finding("message", f"without what the library is: {errors}") from None
        raise
    if due is None:
        raise Finding("read otherwise", f"{way} takes what breaks a rule")
    if way == "export":
        with np.load(out) as archive:
            found = dict(archive)
        plain = all(name.isascii() and name.isprintable() and len(name) < 900 and ".." not in name for name in due)
        if not plain:
            found, due = ({str(at): value for at, value in enumerate(each.values())} for each in (found, due))
        same_arrays(found, due)
        _again(trial, folder, out, number, image)
    return said


def _again(trial: Trial, folder: Path, arrays: Path, number: int, image: bytes) -> None:
    """Import what was exported: the same image, but of changes, which may say what did not change."""
    back = trial.work / "back.bin"
    kind_ = ("state", "weights", "changes")[number]
    code, _, errors = command(trial, ["state", "import", arrays, "--library", folder, "--kind", kind_, "-o", back])
    if code == 2 and "image.passes" in errors and number == 0:
        return
    if code:
        raise Finding("refused otherwise", f"import of an export: {errors}")
    made, whole = back.read_bytes(), image[image.index(MAGIC) :]
    whole = whole[: int.from_bytes(whole[20:24], "little")]
    passes = slice(24, 28)
    made, whole = made[: passes.start] + made[passes.stop :], whole[: passes.start] + whole[passes.stop :]
    if number < 2 and made[:-8] != whole[:-8]:
        raise Finding("read otherwise", f"{hashlib.sha256(made).hexdigest()} of {len(made)} B, not the image exported")


def _exported(manifest: bytes, first: bytes, image: bytes, in_npz: bool) -> dict[str, np.ndarray] | None:
    """The arrays that an image holds by its library's description; None where a rule is broken.

    Only a state `in_npz` has a member of its own for the passes, which no tensor may be called.
    """
    rows = _tensors(manifest)
    begins, found = _images(first), _newest(_images(image))
    own = _newest(begins)
    if rows is None or own is None or found is None or len(begins) > MOST_SLOTS:
        return None
    tensors, identities, _ = rows
    starts = _arrays(own, tensors, identities, {}) if own.kind == 0 else None
    arrays = None if starts is None else _arrays(found, tensors, identities, starts)
    if arrays is None:
        return None
    if found.kind == 0:
        if in_npz and "image.passes" in arrays:
            return None
        arrays["image.passes"] = np.array(found.passes)
    return arrays


def _only_predicts(manifest: bytes) -> bool:
    """Whether a manifest is of a library that only predicts: it names a plan, and no state."""
    try:
        table = strict_json(manifest.decode())
    except (ValueError, RecursionError):
        return False
    return isinstance(table, dict) and "plan" in table and "state" not in table


Tensors = list[tuple[str, str, list[int], bool]]


def _tensors(manifest: bytes) -> tuple[Tensors, list[int], int] | None:
    """Tensors, identities and passes per update of a manifest; None where it breaks a rule."""
    try:
        table = strict_json(manifest.decode())
        identities = [int(text, 16) for text in table["identities"]]
        rows = [(row["name"], row["type"], row["shape"], row["weight"]) for row in table["state"]]
        accumulate = table["accumulate"]
        names = {row[0] for row in rows}
        right = len(names) == len(rows) and all(map(_is_tensor, rows))
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError):
        return None
    counts = type(accumulate) is int and 0 < accumulate < 2**32
    if not right or not counts or len(identities) != 3 or not all(0 <= n < 2**64 for n in identities):
        return None
    return (rows, identities, accumulate) if 4 * sum(math.prod(row[2]) for row in rows) <= 1 << 24 else None


def _is_tensor(row: tuple[Any, ...]) -> bool:
    name, dtype, shape, weight = row
    lengths = isinstance(shape, list) and len(shape) <= 32 and all(type(n) is int and n >= 0 for n in shape)
    return isinstance(name, str) and dtype in WORDS and lengths and isinstance(weight, bool)


def _arrays(
    image: Row, tensors: Tensors, identities: list[int], first: dict[str, np.ndarray]
) -> dict[str, np.ndarray] | None:
    """The tensors of an image; None where it is of another model, or holds other tensors."""
    if image.identity != identities[image.kind]:
        return None
    sizes = [4 * math.prod(row[2]) for row in tensors]
    places: list[tuple[int, int]] = []
    if image.kind == 2:
        at, last = 0, -1
        while at < len(image.body):
            index = int.from_bytes(image.body[at : at + 4], "little") if at + 4 <= len(image.body) else -1
            if not last < index < len(tensors) or not tensors[index][3] or at + 4 + sizes[index] > len(image.body):
                return None
            places.append((index, at + 4))
            at, last = at + 4 + sizes[index], index
    else:
        held = [index for index, row in enumerate(tensors) if image.kind == 0 or row[3]]
        ends = list(itertools.accumulate((sizes[index] for index in held), initial=0))
        if ends[-1] != len(image.body):
            return None
        places = list(zip(held, ends, strict=False))
    arrays = {row[0]: first[row[0]] for row in tensors if image.kind == 2 and row[3]}
    for index, at in places:
        name, dtype, shape, _ = tensors[index]
        arrays[name] = np.frombuffer(image.body[at : at + sizes[index]], WORDS[dtype]).reshape(shape)
    return arrays
