"""What has been compiled and measured before, in files named by the digest of all that it depends on."""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import deployer
from deployer.core.safe_text import json_line
from deployer.core.target import TARGETS_DIR

VARIABLE = "XDG_CACHE_HOME"


def cache_folder() -> Path:
    """The folder of the cache, in the user's own where that can be written, else for this process alone."""
    home = os.environ.get(VARIABLE)
    folder = (Path(home) if home else Path.home() / ".cache") / "deployer" / "sizing"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return _own()


@cache
def _own() -> Path:
    return Path(tempfile.mkdtemp(prefix="deployer-sizing-"))


def key_of(parts: Iterable[str | bytes]) -> str:
    """The digest of parts; where one ends and the next begins counts."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()


@cache
def compiler_digest() -> str:
    """The digest of this compiler's own files: what it makes of a case may change with any of them."""
    folders = (Path(deployer.__file__).parent, TARGETS_DIR)
    files = [
        path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".toml", ".c", ".h")
    ]
    return key_of(path.read_bytes() for path in files)


def remembered(key: str, make: Callable[[], Any]) -> Any:
    """The JSON value under a key, made and kept where there is none; a damaged file is made again."""
    path = cache_folder() / f"{key}.json"
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        value = make()
    keep(path, json_line(value).encode())
    return value


def keep(path: Path, content: bytes) -> None:
    """Write a file of the cache at once, so that nobody reads half of it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)
