"""Output folders: the digests of written files are recorded, foreign files stay, and one process works at a time.

A folder that is written to gets a subfolder `.deployer`: `manifest.json` lists every file with the digest it was
written with, `lock` is held while a command works there, and files grow in a scratch folder until they are complete.
Names of files may lead into folders below, which are made where they are missing, by slashes.
"""

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

from deployer.core.errors import FileProblem, OptionProblem
from deployer.core.files.reading import JSON_BYTES, content_of, damage, parse_json, real_path
from deployer.core.safe_text import json_text

OWN = ".deployer"
MANIFEST = "manifest.json"
LOCK = "lock"
SCRATCH = "scratch-"
MOST_NAMES = 8
"""An error names at most so many foreign files."""
Digests = dict[str, list[str]]


@contextmanager
def opened(directory: Path, names: Iterable[str] = (), force: bool = False) -> Iterator[None]:
    """Hold a folder for this process, made where it is missing; `names` are files it is going to write there.

    Raises OptionProblem where it is no folder, another process holds it, or one of `names` is there and not ours;
    `force` makes those ours. The lock is the kernel's: it ends with the process, however that ends.
    """
    listed = tuple(names)
    if not force:
        _refuse(directory, foreign(directory, listed))
    handle = _lock(directory)
    try:
        for left in _own(directory).glob(f"{SCRATCH}*"):
            shutil.rmtree(left, ignore_errors=True)
        claim(directory, listed, force)
        yield
    finally:
        os.close(handle)


def _lock(directory: Path) -> int:
    handle = os.open(_own(directory) / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
        os.close(handle)
        raise OptionProblem(
            f"{directory} is in use by another deployer{f' (process {holder})' if holder else ''}",
            hint="another -o, or wait until it has ended",
        ) from None
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    except OSError:
        os.close(handle)
        raise
    return handle


def _own(directory: Path) -> Path:
    """Make the folder and its subfolder `.deployer`; OptionProblem where one of the two is not a folder."""
    for path in (directory, directory / OWN):
        if path.is_symlink() and not path.exists():
            raise OptionProblem(f"{path} is a link to {os.readlink(path)}, which is not there", hint="another -o")
        if path.exists() and not path.is_dir():
            raise OptionProblem(f"{path} is not a folder", hint="another -o")
    if (directory / OWN).is_symlink():
        raise OptionProblem(f"{directory / OWN} is a link", hint="remove it, or another -o")
    (directory / OWN).mkdir(parents=True, exist_ok=True)
    return directory / OWN


@contextmanager
def scratch(directory: Path) -> Iterator[Path]:
    """An empty folder on the same file system as the output folder, gone afterwards."""
    with passing(_own(directory), SCRATCH) as folder:
        yield folder


@contextmanager
def passing(place: Path, prefix: str) -> Iterator[Path]:
    """An empty folder of a new name in a place, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    try:
        yield folder
    finally:
        for _ in range(2):  # where the machine fails at one file, the rest goes, and then that
            shutil.rmtree(folder, ignore_errors=True)


def write(directory: Path, files: Mapping[str, str | bytes], force: bool = False, lasting: bool = False) -> None:
    """Write files by name, each whole or not at all, texts as UTF-8; one that is the same already is left as it is.

    With `lasting` that holds for a machine that loses its power, too: the disk has all of a file before it replaces
    the one before it.
    Raises OptionProblem, with nothing written, where one of them would replace what is not ours.
    """
    contents = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    changed = {n: c for n, c in contents.items() if digest(directory / n) != hashlib.sha256(c).hexdigest()}
    claim(directory, changed, force)
    with scratch(directory) as folder:
        paths = {}
        for number, (name, content) in enumerate(changed.items()):
            paths[name] = folder / str(number)
            _write_file(paths[name], content, directory / name, lasting)
        take(directory, paths)


def take(directory: Path, files: Mapping[str, Path]) -> None:
    """Move finished files from a scratch folder to their names; OptionProblem where what is there is not ours.

    The manifest knows each file's old and new digest while they are moved: a process that is killed then leaves
    nothing that the next one takes for somebody else's.
    """
    claim(directory, files)
    digests = {name: _digest(path) for name, path in files.items()}
    records = _manifest(directory)
    _record(directory, records | {n: sorted({*records.get(n, ()), d}) for n, d in digests.items()})
    for name, path in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        path.replace(directory / name)
    _record(directory, records | {name: [value] for name, value in digests.items()})


def discard(directory: Path, names: Iterable[str]) -> None:
    """Remove files that are unchanged since they were written here; others stay, but leave the manifest."""
    records = _manifest(directory)
    removed = [name for name in names if name in records]
    for name in removed:
        if os.path.lexists(directory / name) and _is_ours(directory / name, records[name]):
            (directory / name).unlink(missing_ok=True)
    if removed:
        _record(directory, {name: digests for name, digests in records.items() if name not in removed})


def listed(directory: Path) -> list[str]:
    """Names of the files that were written to a folder and not removed since."""
    return sorted(_manifest(directory))


def claim(directory: Path, names: Iterable[str], force: bool = False) -> None:
    """OptionProblem where a file of these names is not ours; under `force` they become ours, and links are removed."""
    names = tuple(names)
    _check_paths(directory, names)
    others = foreign(directory, names)
    if not force:
        _refuse(directory, others)
    if not others:
        return
    records = _manifest(directory)
    for name in others:
        path = directory / name
        if path.is_dir() and not path.is_symlink():
            raise OptionProblem(f"{path} is a folder", hint="move it away, or another -o")
        if path.is_symlink() or not path.is_file():
            path.unlink()
        else:
            records[name] = [_digest(path)]
    _record(directory, records)


def _check_paths(directory: Path, names: Iterable[str]) -> None:
    """OptionProblem where what leads to a file is no folder, or a link, which leads elsewhere."""
    for folder in sorted({directory / parent for name in names for parent in list(PurePath(name).parents)[:-1]}):
        if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
            raise OptionProblem(f"{folder} is not a folder", hint="move it away, or another -o")


def _is_inside(directory: Path, name: str) -> bool:
    """Whether a relative name, without .. and symbolic links, is that of a file in the folder or below."""
    path = PurePath(name)
    plain = str(path) == name and path.name != "" and not path.is_absolute() and ".." not in path.parts
    return plain and not any((directory / parent).is_symlink() for parent in list(path.parents)[:-1])


def foreign(directory: Path, names: Iterable[str]) -> list[str]:
    """The names among `names` whose files were not written here, or were changed since."""
    records = _manifest(directory)
    return sorted(name for name in names if not _is_ours(directory / name, records.get(name, ())))


def _is_ours(path: Path, digests: Iterable[str]) -> bool:
    current = digest(path)
    return not os.path.lexists(path) or (current != "" and current in digests)


def _refuse(directory: Path, names: list[str]) -> None:
    if names:
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        raise OptionProblem(
            f"{directory} holds {len(names)} file{'s' if len(names) > 1 else ''} that would be overwritten and"
            " that were not written by the deployer, or changed since",
            [("files", ", ".join(names[:MOST_NAMES]) + more)],
            "another -o, or --force to overwrite them",
        )


def digest(path: Path) -> str:
    """SHA-256 of a regular file; empty where there is none, or a link."""
    try:
        kind = path.lstat().st_mode
    except OSError:
        return ""
    return _digest(path) if stat.S_ISREG(kind) else ""


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest(directory: Path) -> Digests:
    path = directory / OWN / MANIFEST
    if (directory / OWN).is_symlink() or not path.is_file():
        return {}
    hint = f"remove {path.parent}; files in {directory} then count as written by others"
    content = content_of(path, JSON_BYTES, hint)
    with damage(f"{path} is damaged", hint):
        files = parse_json(content)["files"]
        return {str(name): [str(d) for d in digests] for name, digests in files.items() if _is_inside(directory, name)}


def _record(directory: Path, files: Digests) -> None:
    text = json_text({"version": 1, "files": dict(sorted(files.items()))})
    replace_file(_own(directory) / MANIFEST, text.encode())


def replace_file(path: Path, content: bytes) -> None:
    """Write one file, whole or not at all; behind a link, the file that it leads to."""
    place = real_path(path)
    if place.is_symlink():
        raise FileProblem(f"{path} is a link that leads to itself", hint="another -o, or remove it")
    temporary = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        _write_file(temporary, content, path)
        temporary.replace(place)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _write_file(temporary: Path, content: bytes, path: Path, lasting: bool = False) -> None:
    """Write the scratch file `temporary`, later `path`; FileProblem where the disk is full or a limit is reached."""
    try:
        with open(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666), "wb") as file:
            file.write(content)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        cause = f"{path} cannot be written: {error.strerror}"
        raise FileProblem(cause, [("size", f"{len(content)} B")], "free some space, or another place") from error


def write_file(path: Path, content: bytes) -> None:
    """Write one file, whole or not at all, over what is there; FileProblem where that cannot be done."""
    if not path.parent.is_dir():
        raise FileProblem(f"{path} cannot be written: there is no folder {path.parent}", hint="a folder that exists")
    with passing(path.parent, SCRATCH) as folder:
        temporary = folder / "0"
        _write_file(temporary, content, path)
        temporary.replace(path)


def check_writable(path: Path) -> None:
    """Create the file's folder; OSError where no file can be written in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with tempfile.TemporaryFile(dir=real_path(path).parent):
        pass
