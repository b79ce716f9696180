"""Cache of objects and measurements, in files named by the digest of all that they depend on."""

import hashlib
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import deployer.targets
import deployer.templates
import deployer.tilers
from deployer.core.errors import FileProblem, UserError
from deployer.core.files.reading import read_json
from deployer.core.safe_text import json_line
from deployer.running import objects
from deployer.running.output import replace_file


def cache_folder() -> Path:
    """The folder of the cache, in the user's own where that can be written, else for this process alone."""
    try:
        return objects.folder("sizing")
    except FileProblem:
        return _own()


@cache
def _own() -> Path:
    return Path(tempfile.mkdtemp(prefix="deployer-sizing-"))


def key_of(fields: Iterable[str | bytes]) -> str:
    """The digest of parts; where one ends and the next begins counts."""
    digest = hashlib.sha256()
    for field in fields:
        content = field.encode() if isinstance(field, str) else field
        digest.update(f"{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()


def own_files() -> list[Path]:
    """The deployer's own files, whose change may change what is made of a case."""
    packages = (deployer, deployer.targets, deployer.templates, deployer.tilers)
    folders = [Path(str(package.__file__)).parent for package in packages]
    kinds = (".py", ".toml", ".c", ".h", ".S", ".ld", ".mako")
    return sorted({path for folder in folders for path in folder.rglob("*") if path.suffix in kinds})


@cache
def compiler_digest() -> str:
    """The digest of the deployer's own files."""
    return key_of(path.read_bytes() for path in own_files())


def remembered(key: str, make: Callable[[], Any]) -> Any:
    """The JSON value under a key, made and kept where there is none; a damaged file is made again."""
    path = cache_folder() / f"{key}.json"
    with suppress(UserError):
        kept = read_json(path, "no value of the cache", "remove it")
        if isinstance(kept, list) and len(kept) == 2 and kept[0] == key_of([json_line(kept[1])]):
            return kept[1]
    value = make()
    _keep(path, json_line([key_of([json_line(value)]), value]).encode())
    return value


def _keep(path: Path, content: bytes) -> None:
    """Write a file of the cache at once, so that nobody reads half of it."""
    replace_file(path, content)
