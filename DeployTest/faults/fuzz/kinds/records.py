"""Records of runs and files by people: checkpoints, folders' manifests, options in TOML, boards, dumps of flash."""

import json
import math
import struct
import tomllib

import numpy as np

from deployer.core.errors import UserError
from deployer.firmware.images import MOST_SLOTS, find_images
from deployer.firmware.state import DIGEST, FNV_OFFSET, FNV_PRIME, HEADER, MAGIC, SLOT, SLOT_MAGIC, VERSION
from deployer.fitting import checkpoint as checkpoints
from deployer.fitting.history import EpochRow
from deployer.fitting.safetensors import read_safetensors, safetensors_bytes
from deployer.running import output
from deployer.sizing import boards
from DeployTest.faults.fuzz.building import command, judge_exit
from DeployTest.faults.fuzz.draw import HOSTILE, Draw
from DeployTest.faults.fuzz.edits.register import edits_of
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.told import refusing, same_arrays
from DeployTest.faults.fuzz.trial import Finding, Trial

from .graph import damage

ORIGIN = {"model": "0123456789abcdef", "data": "x", "options": '{"epochs":3,"rate":0.1}'}
RECORD_KEYS = ("origin", "place", "format", "digest")


@kind(3)
def checkpoint(trial: Trial) -> str:
    """A checkpoint: its bytes, or its records under a digest that is right."""
    draw, path = trial.draw("which"), trial.case / "checkpoint.safetensors"
    metrics = {"loss": draw.one((0.5, math.nan, math.inf))}
    rows = tuple(EpochRow(n, 2 * n, draw.random.random(), 0.1, metrics) for n in (1, 2))
    state = {"w": draw.array((3, 2)), "step": np.array([4], np.int32)}
    place = checkpoints.Place(4, draw.array((4,)), state, rows, 0.5, 2, draw.one(("", "patience")))
    content = checkpoints.checkpoint_bytes(place, ORIGIN)
    path.write_bytes(content)
    sealed = draw.chance(0.7)
    if sealed:
        arrays, metadata = read_safetensors(path)
        if draw.chance(0.9):
            trial.edit("record", arrays, metadata)
        signed = {name: text for name, text in metadata.items() if name != "digest"}
        content = safetensors_bytes(arrays, signed | {"digest": checkpoints._digest(arrays, signed)})
    else:
        content = damage(trial, content)
    path.write_bytes(content)
    with refusing(trial, path):
        found = checkpoints.read_checkpoint(path, ORIGIN, place.state if draw.chance(0.5) else None)
    arrays, metadata = read_safetensors(path)
    due = json.loads(metadata["place"])
    same_arrays({"losses": found.losses}, {"losses": arrays["losses"]})
    same_arrays(found.state, {name[6:]: array for name, array in arrays.items() if name.startswith("state/")})
    if json.loads(metadata["origin"]) != ORIGIN or metadata["format"] != checkpoints.FORMAT:
        raise Finding("read otherwise", f"accepted for another origin: {metadata['origin'][:200]}")
    mine = (found.passes, found.best, found.best_epoch, found.ended, [vars(row) for row in found.rows])
    theirs = tuple(due.get(key, old) for key, old in DEFAULTS.items())
    if not sealed and (json.dumps(mine) != json.dumps(theirs) or content == b""):
        raise Finding("read otherwise", f"{mine}, not {theirs}")
    kinds = (int, float | None | int, int, str)
    if not all(isinstance(value, each) for value, each in zip(mine, kinds, strict=False)):
        raise Finding("read otherwise", f"types of {mine}")
    if json.dumps(mine[:4]) != json.dumps(theirs[:4]) and float(mine[1] or 0) != float(theirs[1] or 0):
        raise Finding("read otherwise", f"{mine}, not {theirs}")
    if len(found.losses) != found.passes or found.losses.dtype != np.float32:
        raise Finding("read otherwise", f"{found.passes} passes, {found.losses.dtype}{list(found.losses.shape)}")
    return "equal to its records"


DEFAULTS = {"passes": 0, "best": None, "best_epoch": 0, "ended": "", "rows": None}


@edits_of("record")
def record_edited(arrays: dict[str, np.ndarray], metadata: dict[str, str], draw: Draw) -> None:
    """A record in JSON, edited as artefacts are."""
    from .artefact import flag_turned, kind_replaced, list_changed, number_moved, table_changed, text_changed

    key = draw.one(("origin", "place", "place"))
    try:
        holder = [json.loads(metadata[key])]
    except (ValueError, KeyError, RecursionError):
        return
    change = draw.one((flag_turned, kind_replaced, list_changed, number_moved, table_changed, text_changed))
    change(holder, draw)
    metadata[key] = json.dumps(holder[0] if holder else None)


@edits_of("record")
def record_replaced(arrays: dict[str, np.ndarray], metadata: dict[str, str], draw: Draw) -> None:
    """Another text for a record, or none."""
    key = draw.one(RECORD_KEYS)
    texts = ("[]", "null", "1", '"x"', "{", "", "{}", "[" * 5000, '{"rows":[],"passes":4}', "NaN", '{"a":1,"a":2}')
    if draw.chance(0.2):
        metadata.pop(key, None)
    else:
        metadata[key] = draw.one((*texts, draw.one(HOSTILE)))


@edits_of("record")
def state_changed(arrays: dict[str, np.ndarray], metadata: dict[str, str], draw: Draw) -> None:
    """Another array of losses or of the state, or one less or more."""
    key = draw.one((*sorted(arrays), "state/new"))
    if draw.chance(0.3):
        arrays.pop(key, None)
    else:
        kinds = (np.float32, np.float64, np.int32, np.uint8)
        arrays[key] = draw.array(draw.one(((4,), (3, 2), (), (0,), (4, 1)))).astype(draw.one(kinds))


@kind(2)
def manifest(trial: Trial) -> str:
    """The record of what an earlier run wrote to a folder, in which a file of the user's lies, too."""
    draw, folder = trial.draw("which"), trial.work / "out"
    output.write(folder, {"network.c": "int a;", "sub/b.h": "x", "report.json": "{}"})
    mine = folder / "mine.txt"
    mine.write_text("mine")
    path = folder / output.OWN / output.MANIFEST
    if draw.chance(0.7):
        holder = [json.loads(path.read_bytes())]
        trial.edit("artefact", holder if draw.chance(0.2) else holder[0], least=0)
        path.write_text(json.dumps(holder[0] if holder else None, ensure_ascii=draw.chance(0.9)), "utf-8", "replace")
    if draw.chance(0.4):
        path.write_bytes(damage(trial, path.read_bytes()))
    (trial.secret / "file").write_text("secret")
    names = ["network.c", "mine.txt", "new.txt"] if draw.chance(0.5) else ["network.c", "sub/b.h"]
    try:
        with refusing(trial, path, mine, folder):
            output.write(folder, {name: "text" for name in names})
    except UserError:
        if not trial.log and "mine.txt" not in names:
            raise
        if mine.read_text() != "mine":
            raise Finding("user's file", "mine.txt was replaced") from None
        raise
    except Finding as finding:
        if finding.sort != "whole file refused" or "mine.txt" not in names:
            raise
        return "refused to replace a file of the user's"
    if "mine.txt" in names:
        raise Finding("user's file", "mine.txt was replaced")
    if any((folder / name).read_text() != "text" for name in names):
        raise Finding("read otherwise", "a file was not written")
    return "written"


OPTIONS = """[train]
budget = ["L1=2000", "L2=64k"]
buffering = "double"
verbose = true
n-steps = 2

[fit]
epochs = 3
"""
BOARD = """name = "Board"
source = "its sheet"
core = "cortex-m4"
mhz = 180
flash = 524288

[[memory]]
name = "small"
bytes = 1024

[[memory]]
name = "large"
bytes = 131072

[energy]
milliamperes = 1.5
volts = 3
source = "its sheet"
"""


def _toml(trial: Trial, text: str, draw: Draw) -> bytes:
    """The file with some edits of lines or bytes, or none."""
    lines = text.splitlines()
    if draw.chance(0.8):
        trial.edit("toml", lines, least=0)
    content = "".join(f"{line}\n" for line in lines).encode()
    content = content.replace(b"[]", b"[" * 5000 + b"]" * 5000, 1) if draw.chance(0.02) else content
    return damage(trial, content) if draw.chance(0.25) else content


@kind(3)
def configuration(trial: Trial) -> str:
    """Options in a file, whose words stand before those of the command line."""
    from deployer.commands.config import with_config

    from .command import commands

    draw, path = trial.draw("which"), trial.case / "options.toml"
    path.write_bytes(_toml(trial, OPTIONS, draw))
    name = draw.one(("train", "train", "fit"))
    words = [name, "--config", str(path), *draw.one(([], ["-t", "x"], ["--buffering", "auto"], ["--epochs", "4"]))]
    with refusing(trial, path):
        found = with_config(words, commands())  # type: ignore[arg-type]
    given = tomllib.loads(path.read_bytes().decode()).get(name, {})
    due = [name]
    for key, value in given.items():
        if f"--{key}" not in words:
            for item in value if isinstance(value, list) else [value]:
                due += [f"--{key}"] * item if isinstance(item, bool) else [f"--{key}={item}"]
    if found != [*due, *words[1:]]:
        raise Finding("read otherwise", f"{found}, not {[*due, *words[1:]]}")
    if draw.chance(0.3):
        code, _, errors = command(trial, ["train", "--config", path, "-t", trial.case])
        return judge_exit("train --config", code, errors)
    return "equal to Python's reader"


@kind(2)
def board(trial: Trial) -> str:
    """A board's file."""
    draw, path = trial.draw("which"), trial.case / "board.toml"
    path.write_bytes(_toml(trial, BOARD, draw))
    with refusing(trial, path):
        found = boards.read_board(path)
    raw = tomllib.loads(path.read_bytes().decode())
    if found.core is None:
        return "a board of a target"
    sizes = [memory.bytes for memory in found.memories]
    numbers = [found.mhz, found.flash, *sizes]
    if any(type(n) is not int or not 0 < n <= 1 << 32 for n in numbers) or sizes != sorted(sizes, reverse=True):
        raise Finding("read otherwise", f"sizes {numbers}")
    if sorted(sizes) != sorted(row["bytes"] for row in raw["memory"]) or (found.mhz, found.flash) != (
        raw["mhz"],
        raw["flash"],
    ):
        raise Finding("read otherwise", f"sizes {numbers}, not {raw}")
    if not sizes or found.core.name != raw["core"] or not found.name or not found.source or found.name != raw["name"]:
        raise Finding("read otherwise", f"{found}")
    power = found.energy
    if (power is None) != ("energy" not in raw):
        raise Finding("read otherwise", f"{power}")
    if power is not None:
        stated = float(raw["energy"]["milliamperes"]), float(raw["energy"]["volts"])
        if (power.milliamperes, power.volts) != stated or not all(0 < n < math.inf for n in stated) or not power.source:
            raise Finding("read otherwise", f"{power}")
    return "equal to Python's reader"


def _digest(content: bytes) -> int:
    """The digest byte by byte."""
    digest = FNV_OFFSET
    for byte in content:
        digest = (digest ^ byte) * FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return digest


def _slot(draw: Draw, number: int) -> bytes:
    """A head and an image, one of which may be wrong in a field."""
    head = SLOT_MAGIC + struct.pack("<I", number)
    head += DIGEST.pack(_digest(head) ^ draw.one((0, 0, 0, 0, 1)))
    body = draw.bytes(draw.number(0, 300))
    length = HEADER.size + len(body) + DIGEST.size
    told = length if draw.chance(0.7) else draw.one((0, length - 1, length + 1, 36, 35, 2**32 - 1, 500, 2000))
    kind_, version = draw.one((0, 1, 2, 2, 3)), draw.one((VERSION, VERSION, VERSION, 1))
    image = HEADER.pack(draw.one((MAGIC, MAGIC, MAGIC, b"dplx")), version, kind_, 7, told, draw.number(0, 9)) + body
    return head + image + DIGEST.pack(_digest(image) ^ draw.one((0, 0, 0, 1)))


@kind(3)
def dump(trial: Trial) -> str:
    """A dump of flash with slots at any places, whole, damaged, overlapping and nested."""
    draw, path = trial.draw("which"), trial.case / "dump.bin"
    content = b""
    for _ in range(draw.one((0, 1, 1, 2, 2, 3, 5, 20))):
        content += draw.one((b"", b"\xff", b"slot", b"\0")) * draw.number(0, 40) + _slot(
            draw, draw.number(0, 2**32 - 1)
        )
    if draw.chance(0.1):
        content = content[SLOT.size :]
    if draw.chance(0.3):
        content = damage(trial, content)
    path.write_bytes(content)
    due = _images(content)
    try:
        with refusing(trial, path):
            found = find_images(path)
    except (UserError, Finding) as error:
        text = str(error)
        if ("no image" in text and not due) or ("too many" in text and len(due) > MOST_SLOTS):
            return "nothing is there" if not due else "too many are there"
        raise
    mine = [
        (image.at, image.number, image.length, not image.fault, image.body if not image.fault else b"")
        for image in found
    ]
    if len(due) > MOST_SLOTS:
        raise Finding("read otherwise", f"{len(due)} images are taken, and flash has no more than {MOST_SLOTS} slots")
    if mine != due:
        raise Finding("read otherwise", f"{[row[:4] for row in mine]}, not {[row[:4] for row in due]}")
    return "equal to a search byte by byte"


Row = tuple[int, int | None, int, bool, bytes]


def _images(content: bytes) -> list[Row]:
    """Place, number, length, whether it is whole, and body of each image."""
    if content.startswith(MAGIC):
        return [_image(content, 0, None)]
    found, at = list[Row](), 0
    while at + SLOT.size <= len(content):
        head = content[at : at + SLOT.size]
        if head.startswith(SLOT_MAGIC) and DIGEST.unpack(head[8:])[0] == _digest(head[:8]):
            found.append(_image(content, at + SLOT.size, int.from_bytes(head[4:8], "little")))
            at += SLOT.size + (found[-1][2] if found[-1][3] else 0)
        else:
            at += 1
    return found


def _image(content: bytes, at: int, number: int | None) -> Row:
    if len(content) - at < HEADER.size + DIGEST.size:
        return (at, number, 0, False, b"")
    magic, version, kind_, _, length, _ = HEADER.unpack_from(content, at)
    part = content[at : at + length]
    fits = HEADER.size + DIGEST.size <= length == len(part) and (magic, version) == (MAGIC, VERSION) and kind_ < 3
    whole = fits and _digest(part[:-8]) == DIGEST.unpack(part[-8:])[0]
    return (at, number, length, whole, part[HEADER.size : -8] if whole else b"")
