"""Folders that an earlier run wrote to: their manifest, and what lies in them that is not ours."""

import hashlib
import json
import os
import shutil
from collections.abc import Sequence

from deployer.core.errors import OptionProblem, UserError
from deployer.running import output
from DeployTest.faults.fuzz.bases import Path
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.told import refusing
from DeployTest.faults.fuzz.trial import Finding, Trial

from .graph import damage
from .samples import strict_json


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
    what = draw.one(("write", "write", "discard", "claim"))
    odd = draw.one((*[""] * 6, "folder", "file", "link", "changed", "gone"))
    if odd:
        trial.log.append(f"sub or network.c is {odd}")
        _odd_folder(folder, trial.secret, odd)
    if what != "write":
        return _folder_kept(trial, folder, path, what)
    deep = draw.one(("new/b.h", "new/deep/c.h", "sub/deep/er/d.h"))
    names = ["network.c", "mine.txt", "new.txt"] if draw.chance(0.5) else ["network.c", "sub/b.h", deep]
    if not trial.log and draw.chance(0.3):
        output.write(folder, dict.fromkeys(names, "text"), force=True)
        _written(folder, path, names)
        return "written by force"
    changed = (folder / "network.c").is_file() and odd == "changed"
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
    if "mine.txt" in names or changed:
        raise Finding("user's file", "mine.txt or network.c was replaced")
    _written(folder, path, names)
    return "written"


def _written(folder: Path, manifest: Path, names: Sequence[str]) -> None:
    """Finding where files do not have their content, or the manifest other digests of them than that content's."""
    if any((folder / name).read_text() != "text" for name in names):
        raise Finding("read otherwise", "a file was not written")
    files, due = json.loads(manifest.read_bytes())["files"], [hashlib.sha256(b"text").hexdigest()]
    if any(files.get(name) != due for name in names):
        raise Finding("read otherwise", f"the manifest has {str(files)[:300]}")


def _odd_folder(folder: Path, secret: Path, odd: str) -> None:
    """Replace files of ours by a folder, a file for a folder, a link, other content, or nothing."""
    place = folder / ("sub" if odd in ("file", "link") else "network.c")
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    match odd:
        case "folder":
            place.mkdir()
        case "file":
            place.write_text("mine")
        case "link":
            place.symlink_to(secret)
        case "changed":
            place.write_text("mine")


def _folder_kept(trial: Trial, folder: Path, manifest: Path, what: str) -> str:
    """Files that are not ours, or were changed, are neither removed nor claimed without force."""
    names = ("network.c", "mine.txt", "sub/b.h", "report.json")
    before = {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}
    owned = _owned(folder, manifest)
    paths = (manifest, folder, folder / "mine.txt", folder / "sub", folder / "network.c")
    with refusing(trial, *paths, right=owned is not None):
        if what == "discard":
            output.discard(folder, names)
        else:
            known = output.foreign(folder, names)
            listed = output.listed(folder)
            (folder / "link.txt").symlink_to(trial.draw("link").one((folder / "mine.txt", folder / "nowhere")))
            output.claim(folder, ["mine.txt", "link.txt"], force=True)
            _folder_claimed(trial, folder)
            if os.path.lexists(folder / "link.txt") or (folder / "mine.txt").read_text() != "mine":
                raise Finding("user's file", "a link was claimed, and was left or followed")
    assert owned is not None
    ours = {name for name in before if hashlib.sha256(before[name]).hexdigest() in owned.get(name, ())}
    if what == "discard":
        left = {name for name in names if (folder / name).is_file()}
        if left != {*before} - {name for name in ours if not (folder / name).is_symlink()}:
            raise Finding(
                "user's file", f"of {sorted(before)} these are left: {sorted(left)}, ours were {sorted(ours)}"
            )
        rest = {name: digests for name, digests in owned.items() if name not in names}
    else:
        lies = {name for name in names if os.path.lexists(folder / name)}
        if known != sorted(lies - ours) or listed != sorted(owned):
            raise Finding("read otherwise", f"foreign are {known} of {listed}, not {sorted(lies - ours)}")
        rest = owned | {"mine.txt": [hashlib.sha256(before["mine.txt"]).hexdigest()]}
    written = json.loads(manifest.read_bytes())
    changed = what == "claim" or {*owned} & {*names}
    if changed and written != {"version": 1, "files": rest}:
        raise Finding("read otherwise", f"the manifest is {str(written)[:300]}, not of {sorted(rest)}")
    return f"{what}: what is not ours stays"


def _folder_claimed(trial: Trial, folder: Path) -> None:
    """Finding where a folder in the place of a file is claimed, or gone."""
    if not trial.draw("folder").chance(0.3):
        return
    place = folder / "folder.txt"
    place.mkdir()
    try:
        output.claim(folder, [place.name], force=True)
    except OptionProblem as error:
        if place.name not in error.cause or not place.is_dir():
            raise Finding("message", str(error)) from error
        return
    raise Finding("user's file", "a folder was claimed")


def _owned(folder: Path, manifest: Path) -> dict[str, list[str]] | None:
    """Digests by names that a manifest says; None where it is damaged."""
    try:
        files = strict_json(manifest.read_bytes().decode())["files"]
        found = {
            name: [str(digest) for digest in digests] for name, digests in files.items() if _is_below(folder, name)
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError):
        return None
    return found


def _is_below(folder: Path, name: str) -> bool:
    """Whether a relative name, without .. and symbolic links, is that of a file in the folder or below."""
    parts = name.split("/")
    plain = all(part not in ("", ".", "..") for part in parts)
    return plain and not any((folder / "/".join(parts[:at])).is_symlink() for at in range(1, len(parts)))
