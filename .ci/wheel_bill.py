#!/usr/bin/env python3
"""Write the bill of materials of a wheel beside it: wheel_bill.py WHEEL, in an environment of requirements.lock.

It has the wheel's files, and the packages that it needs in the versions and with the digests of the lock; licences are
those that the installed packages state.
"""

import hashlib
import re
import sys
import zipfile
from email.parser import Parser
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from deployer.core.files.bill import LICENCE, Component, bill, digests, file_components, licences  # noqa: E402

LOCK = ROOT / "requirements.lock"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)((?:.*\\\n)(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def normal(name: str) -> str:
    """The name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> dict[str, tuple[str, list[str]]]:
    """Version and digests by the names of a lock's packages."""
    return {normal(n): (version, re.findall(r"sha256:(\w+)", rest)) for n, version, rest in _PIN.findall(text)}


def needed(names: list[str]) -> list[str]:
    """The packages, and all that they need here without extras, in order."""
    found: dict[str, None] = {}
    waiting = list(names)
    while waiting:
        name = normal(waiting.pop(0))
        if name in found:
            continue
        found[name] = None
        try:
            texts = requires(name) or []
        except PackageNotFoundError:
            continue
        waiting += [_NAME.match(text)[0] for text in texts if "extra ==" not in text and "sys_platform" not in text]  # type: ignore[index]
    return sorted(found)


def licence_of(name: str) -> Component:
    """The member with what an installed package says of its licence: an expression of SPDX, or words of its own."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return {}
    if expression := about.get("License-Expression"):
        return licences(expression)
    classes = [
        text.rpartition(" :: ")[2] for text in about.get_all("Classifier") or [] if text.startswith("License ::")
    ]
    words = classes or [text.splitlines()[0] for text in about.get_all("License") or [] if text.strip()]
    return {"licenses": [{"license": {"name": text}} for text in words]} if words else {}


def package_component(name: str, version: str, hashes: list[str]) -> Component:
    """A package of the index."""
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name}@{version}",
        "purl": f"pkg:pypi/{name}@{version}",
        "name": name,
        "version": version,
        "description": f"any of {len(hashes)} files for Pythons and systems, by the digests of requirements.lock",
        "properties": [{"name": "deployer:lock:sha256", "value": digest} for digest in hashes],
        **licence_of(name),
    }


def wheel_bill(wheel: Path) -> str:
    """The bill of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    [about] = [text.decode() for name, text in files.items() if name.endswith(".dist-info/METADATA")]
    headers, lock = Parser().parsestr(about), locked(LOCK.read_text())
    wanted = [text for text in headers.get_all("Requires-Dist") or [] if "extra ==" not in text]
    names = needed([_NAME.match(text)[0] for text in wanted])  # type: ignore[index]
    packages = [package_component(name, *lock[name]) for name in names if name in lock]
    direct = {normal(_NAME.match(text)[0]) for text in wanted}  # type: ignore[index]
    whole: Component = {
        "type": "library",
        "bom-ref": wheel.name,
        "name": headers["Name"],
        "version": headers["Version"],
        "hashes": digests(wheel.read_bytes()),
        **licences(headers.get("License-Expression") or LICENCE),
    }
    own = dict.fromkeys(files, LICENCE)
    references = [str(part["bom-ref"]) for part in packages if part["name"] in direct]
    return bill(whole, [*packages, *file_components(files, own)], references)


def main(wheel: Path) -> None:
    """Write the bill, and say what it has."""
    place = wheel.with_suffix(".cdx.json")
    text = wheel_bill(wheel)
    place.write_text(text)
    print(f"{place}: {hashlib.sha256(text.encode()).hexdigest()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
