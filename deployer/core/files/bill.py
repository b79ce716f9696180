"""Software bills of materials, as CycloneDX 1.6 has them in JSON: parts with versions, licences and digests."""

import hashlib
import uuid
from collections.abc import Mapping, Sequence

import deployer
from deployer.core.safe_text import json_text

LICENCE = "Apache-2.0"
"""Of this project's code, by SPDX's name."""
Component = dict[str, object]


def digests(content: bytes) -> list[dict[str, str]]:
    """The digests of a part."""
    return [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]


def licences(name: str) -> Component:
    """The member that names a part's licence by SPDX's expression; nothing where none is known."""
    return {"licenses": [{"expression": name}]} if name else {}


def file_components(files: Mapping[str, bytes], licence_of: Mapping[str, str]) -> list[Component]:
    """The files by their paths, each with its digest, and with its licence where that is known."""
    return [
        {"type": "file", "bom-ref": f"file:{path}", "name": path, "hashes": digests(content)}
        | licences(licence_of.get(path, ""))
        for path, content in sorted(files.items())
    ]


def bill(whole: Component, components: Sequence[Component], needed: Sequence[str] = ()) -> str:
    """The bill of a whole with these parts; `needed` are the references of those that it depends on.

    The same parts give the same bytes: there is no time in it, and its number follows from the rest.
    """
    tool = {"type": "application", "name": "deployer", "version": deployer.__version__, **licences(LICENCE)}
    record = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"tools": {"components": [tool]}, "component": whole},
        "components": list(components),
        "dependencies": [{"ref": whole["bom-ref"], "dependsOn": sorted(needed)}],
    }
    number = uuid.uuid5(uuid.NAMESPACE_OID, json_text(record))
    return json_text({"serialNumber": f"urn:uuid:{number}", **record})
