"""Images of states and the manifests that describe them, through every way of `deployer state`."""

import json
from functools import cache

import numpy as np

from deployer.firmware.state import DIGEST, SLOT_MAGIC, fnv1a, sealed_image
from DeployTest.faults.fuzz.building import command, judge_exit
from DeployTest.faults.fuzz.draw import Draw
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.trial import Trial

from .graph import damage

TENSORS = (("first", "float32", [2, 3], True), ("second", "float32", [4], True), ("step", "int32", [1], False))
IDENTITIES = (1, 1, 2)
"""The model's numbers, by kinds of images."""


@cache
def _manifest() -> bytes:
    """The part of a library's manifest that says what images hold."""
    rows = [dict(zip(("name", "type", "shape", "weight"), row, strict=True)) for row in TENSORS]
    return json.dumps({"state": rows, "accumulate": 2, "identities": [f"{number:x}" for number in IDENTITIES]}).encode()


def _body(number: int) -> bytes:
    words = np.arange(11, dtype="<f4")
    bodies = words.tobytes(), words[:10].tobytes(), bytes(4) + words[:6].tobytes()
    return bodies[number]


def _sealed_anew(trial: Trial, number: int, draw: Draw) -> bytes:
    """An image whose tensors are damaged and whose digest is right; some in a slot, where the head is right, too."""
    image = sealed_image(number, IDENTITIES[number], draw.number(0, 3), damage(trial, _body(number)))
    if draw.chance(0.5):
        return image
    head = SLOT_MAGIC + draw.number(0, 2**32 - 1).to_bytes(4, "little")
    return head + DIGEST.pack(fnv1a(head)) + image


@kind(2)
def state(trial: Trial) -> str:
    """An image with damaged bytes, or with damaged tensors under a right digest, or a damaged manifest."""
    draw, folder = trial.draw("which"), trial.work / "library"
    folder.mkdir(parents=True)
    number, where = draw.number(0, 2), draw.one(("bytes", "tensors", "manifest", "first"))
    files = {
        "manifest": (folder / "manifest.json", _manifest()),
        "first": (folder / "weights.bin", sealed_image(0, IDENTITIES[0], 0, _body(0))),
        "bytes": (trial.work / "image.bin", sealed_image(number, IDENTITIES[number], 0, _body(number))),
    }
    for name, (path, content) in files.items():
        path.write_bytes(damage(trial, content) if name == where else content)
    image, out = files["bytes"][0], trial.work / "out.npz"
    if where == "tensors":
        image.write_bytes(_sealed_anew(trial, number, draw))
    words: list[object] = ["state", draw.one(("show", "export")), image, "--library", folder]
    code, _, errors = command(trial, words + (["-o", out] if words[1] == "export" else []))
    return judge_exit(f"state {words[1]}", code, errors)
