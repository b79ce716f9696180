"""Objects of files that no plan changes: compiled once per content, flags and compiler, checked by digest.

An object's name is `<stem>-<key>-<digest>.o`: the key hashes all inputs of the compilation, the digest
its own content. An object whose content has another digest is damaged, and compiled again. Objects lie
in folders named by the first digits of their keys, so that a search reads few names however many there are.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from deployer.core.errors import FileProblem, ToolFailed
from deployer.core.files.reading import real_path
from deployer.running.output import digest, passing

DIGITS = 24
"""The hexadecimal digits of a key, and of a digest, in a file name."""
PREFIX = 2
"""The digits of a key that name its folder."""
VARIABLES = ("CPATH", "C_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "SOURCE_DATE_EPOCH")
"""Environment variables that gcc reads."""
PROGRAMS = ("cc1", "as")
"""Programs that gcc starts; they may be replaced while gcc stays the same."""


def folder(name: str = "objects") -> Path:
    """A folder of the user's cache, created if missing; FileProblem where that is impossible."""
    setting = os.environ.get("XDG_CACHE_HOME", "")
    try:
        root = Path(setting) if os.path.isabs(setting) else Path.home() / ".cache"
        place = root / "deployer" / name
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return place
    except RuntimeError:
        cause = "there is no home folder to keep compiled kernels in"
    except OSError as error:
        cause = f"compiled kernels cannot be kept in {place}: {error.strerror}"
    raise FileProblem(cause, hint="set XDG_CACHE_HOME to a folder that can be written")


@dataclass(frozen=True)
class Recipe:
    """All that makes an object besides its source: the compiler's words, its flags, and the headers it finds.

    `folders` are searched in order; `own` is the folder of generated headers, searched last. Of those a function takes
    the kernel's alone, which it or the folder that it lies in is named after, also where they lie beside it.
    """

    command: tuple[str, ...]
    flags: tuple[str, ...]
    folders: tuple[Path, ...]
    own: Path

    def key(self, source: Path) -> str:
        """The key of a source's object."""
        text = hashlib.sha256()
        for field in (source.name, digest(source), *self.flags, *self._compiler, *self._headers(source)):
            text.update(f"{len(field)}:{field}".encode())
        return text.hexdigest()[:DIGITS]

    @cached_property
    def _compiler(self) -> tuple[str, ...]:
        settings = (f"{name}={os.environ.get(name)}" for name in VARIABLES)
        return (*self.command, *identity(self.command), *settings)

    def _headers(self, source: Path) -> list[str]:
        own = [self.own / f"{name}.h" for name in (source.stem, source.parent.name)]
        beside = [] if source.parent == self.own else self._beside.get(source.parent)
        if beside is None:
            beside = self._beside[source.parent] = _header_digests(source.parent)
        return [*beside, *self._shared, *(f"own {digest(header)}" for header in own)]

    @cached_property
    def _beside(self) -> dict[Path, list[str]]:
        """The headers of the folders that sources lie in, as far as a key was asked for."""
        return {}

    @cached_property
    def _shared(self) -> list[str]:
        return [f"{place} {header}" for place, folder in enumerate(self.folders) for header in _header_digests(folder)]


def _header_digests(folder: Path) -> list[str]:
    """Name and digest of each header in a folder."""
    return [f"{header.relative_to(folder)} {digest(header)}" for header in sorted(folder.rglob("*.h"))]


def identity(command: tuple[str, ...]) -> tuple[str, ...]:
    """The identity of a compiler: its version text, and path, size and time of each file it consists of."""
    files = [Path(file) for file in map(shutil.which, command) if file]
    version, programs = _described(command, tuple(map(_state, files)))
    return (version, *map(_state, (*files, *programs)))


@cache
def _described(command: tuple[str, ...], states: tuple[str, ...]) -> tuple[str, tuple[Path, ...]]:
    """A compiler's version text and the programs that it starts; cached until `states`, of its files, change."""
    answers = [_answer([*command, f"-print-prog-name={program}"]).strip() for program in PROGRAMS]
    files = [shutil.which(answer) for answer in answers if answer and "\n" not in answer]
    return _answer([*command, "--version"]), tuple(Path(file) for file in files if file)


def _answer(command: list[str]) -> str:
    quiet = subprocess.DEVNULL
    try:
        answer = subprocess.run(command, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, check=False).stdout
    except OSError as error:
        cause = f"{command[0]} cannot be run: {error.strerror}"
        raise ToolFailed(cause, hint="run it again, or use another compiler") from error
    return answer.decode(errors="replace")


def _state(file: Path) -> str:
    status = file.stat()
    return f"{real_path(file)} {status.st_size} {status.st_mtime_ns}"


def find(place: Path, source: Path, key: str) -> Path | None:
    """The cached object of a key whose content has the digest in its name; damaged objects are removed."""
    for path in sorted(_folder_of(place, key).glob(f"{source.stem}-{key}-*.o")):
        if path.stem.rpartition("-")[2] == digest(path)[:DIGITS]:
            return path
        path.unlink(missing_ok=True)
    return None


def keep(place: Path, source: Path, key: str, compiled: Path) -> Path:
    """Move a new object to its name in the cache folder, as a whole; another process may have brought the same."""
    home = _folder_of(place, key)
    home.mkdir(exist_ok=True)
    path = home / f"{source.stem}-{key}-{digest(compiled)[:DIGITS]}.o"
    with passing(place, ".part-") as scratch:
        partial = scratch / path.name
        shutil.copyfile(compiled, partial)
        partial.replace(path)
    return path


def _folder_of(place: Path, key: str) -> Path:
    """The folder of a key's object in the cache folder."""
    return place / key[:PREFIX]
