"""Images of states and the manifests that describe them, through every way of `deployer state`."""

import json
from functools import cache

import numpy as np

from deployer.firmware.state import SLOT, SLOT_MAGIC, fnv1a, sealed_image
from DeployTest.faults.fuzz.building import command, judge_exit
from DeployTest.faults.fuzz.draw import Draw
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.trial import Trial

from .graph import damage

TENSORS = (("first", "float32", [2, 3], True), ("second", "float32", [4], True), ("step", "int32", [1], False))


@cache
def _manifest() -> bytes:
    """The part of a library's manifest that says what images hold."""
    rows = [dict(zip(("name", "type", "shape", "weight"), row, strict=True)) for row in TENSORS]
    return json.dumps({"state": rows, "accumulate": 2, "identities": ["1", "1", "2"]}).encode()


def _body(number: int) -> bytes:
    words = np.arange(11, dtype="<f4")
    bodies = words.tobytes(), words[:10].tobytes(), bytes(4) + words[:6].tobytes()
    return bodies[number]


def _sealed_anew(trial: Trial, number: int, draw: Draw) -> bytes:
    """An image whose tensors are damaged and whose digest is right; some in a slot, where the head is right, too."""
    image = sealed_image(number, (1, 1, 2)[number], draw.number(0, 3), damage(trial, _body(number)))
    if draw.chance(0.5):
        return image
    head = SLOT_MAGIC + draw.number(0, 2**32 - 1).to_bytes(4, "little")
    return SLOT.pack(SLOT_MAGIC, int.from_bytes(head[4:], "little"), fnv1a(head)) + image


@kind(2)
def state(trial: Trial) -> str:
    """An image with damaged bytes, or with damaged tensors under a right digest, or a damaged manifest."""
    draw, folder = trial.draw("which"), trial.work / "library"
    folder.mkdir(parents=True)
    number, where = draw.number(0, 2), draw.one(("bytes", "tensors", "manifest", "first"))
    first, image = sealed_image(0, 1, 0, _body(0)), sealed_image(number, (1, 1, 2)[number], 0, _body(number))
    (folder / "manifest.json").write_bytes(damage(trial, _manifest()) if where == "manifest" else _manifest())
    (folder / "weights.bin").write_bytes(damage(trial, first) if where == "first" else first)
    path, out = trial.work / "image.bin", trial.work / "out.npz"
    path.write_bytes(
        {"bytes": lambda: damage(trial, image), "tensors": lambda: _sealed_anew(trial, number, draw)}.get(
            where, lambda: image
        )()
    )
    words: list[object] = ["state", draw.one(("show", "export")), path, "--library", folder]
    code, _, errors = command(trial, words + (["-o", out] if words[1] == "export" else []))
    return judge_exit(f"state {words[1]}", code, errors)
