"""Kept objects: a key of all that makes them, a name that says what they are, builders at once, missing places."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.running import objects
from deployer.running.objects import Recipe
from DeployTest.support.building.cases import HERE, case_dir
from DeployTest.support.building.command_line import bits, deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
COMPILER = '#!/bin/sh\nexec gcc "$@"\n'


class Source:
    """A source file, two folders of headers, generated headers, and a compiler, all of which may change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        texts = {"src/k.c": "k", "src/near.h": "near", "a/x.h": "x", "a/y.h": "y", "b/x.h": "other", "own/k.h": "own"}
        for name, text in {**texts, "cc": COMPILER}.items():
            self.write(name, text)
        (folder / "cc").chmod(0o755)
        self.recipe = Recipe((str(folder / "cc"),), ("-O2", "-g"), (folder / "a", folder / "b"), folder / "own")

    def write(self, name: str, text: str) -> None:
        """Write a file of it."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def swap(self, one: str, other: str) -> None:
        """Exchange two files."""
        texts = [(self.folder / name).read_text() for name in (one, other)]
        self.write(one, texts[1])
        self.write(other, texts[0])

    def key(self) -> str:
        """The key of its object now."""
        return replace(self.recipe).key(self.folder / "src" / "k.c")

    def with_recipe(self, **changes: object) -> None:
        """Change words, flags or folders."""
        self.recipe = replace(self.recipe, **changes)  # type: ignore[arg-type]


CHANGES: dict[str, Callable[[Source], object]] = {
    "the source": lambda s: s.write("src/k.c", "K"),
    "a header beside it": lambda s: s.write("src/near.h", "NEAR"),
    "a header of the first folder": lambda s: s.write("a/x.h", "X"),
    "a header of the last folder": lambda s: s.write("b/x.h", "OTHER"),
    "a new header": lambda s: s.write("a/stdint.h", ""),
    "the header of a variant's kernel": lambda s: s.write("own/src.h", "arguments"),
    "a header in a deeper folder": lambda s: (s.folder / "a" / "deep").mkdir() or s.write("a/deep/z.h", ""),
    "a header under another name": lambda s: (s.folder / "a/y.h").rename(s.folder / "a/z.h"),
    "two headers' contents exchanged": lambda s: s.swap("a/x.h", "a/y.h"),
    "text moved from one header to the next": lambda s: (s.write("a/x.h", "xy"), s.write("a/y.h", "")),
    "the order of search": lambda s: s.with_recipe(folders=tuple(reversed(s.recipe.folders))),
    "the generated header": lambda s: s.write("own/k.h", "OWN"),
    "no generated header": lambda s: (s.folder / "own/k.h").unlink(),
    "a flag more": lambda s: s.with_recipe(flags=("-O2", "-g", "-w")),
    "another flag": lambda s: s.with_recipe(flags=("-O3", "-g")),
    "flags in another order": lambda s: s.with_recipe(flags=("-g", "-O2")),
    "a word more for the compiler": lambda s: s.with_recipe(command=(*s.recipe.command, "-m32")),
    "another compiler of the same words": lambda s: s.write("cc", COMPILER + "#\n"),
    "another folder for headers by the environment": lambda s: os.environ.update(C_INCLUDE_PATH="/tmp"),
    "another folder for the compiler's parts": lambda s: os.environ.update(COMPILER_PATH="/tmp"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_key(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever makes an object changes its key; what does not, leaves it."""
    for variable in objects.VARIABLES:
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    source = Source(tmp_path)
    before = source.key()
    source.write("own/another.h", "of another kernel")
    assert source.key() == before
    CHANGES[name](source)
    assert source.key() != before


def test_another_program_of_the_compiler(tmp_path: Path) -> None:
    """Replacing the compiler proper changes the key, although the driver that starts it stays the same."""
    source = Source(tmp_path)
    source.write("proper", "1")
    (tmp_path / "proper").chmod(0o755)
    answer = f'#!/bin/sh\ncase "$1" in -print-prog-name=cc1) echo {tmp_path}/proper;; *) exec gcc "$@";; esac\n'
    source.write("cc", answer)
    before = source.key()
    source.write("proper", "another")
    assert source.key() != before


@pytest.mark.slow
def test_flags_and_headers_reach_the_key(models_root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A build with sanitizers, and one with another header in the kernels' folders, keep objects of their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ["train", "-t", case_dir("simple_mlp", models_root), "-o", tmp_path / "c"]
    assert deployer(*words) == 0
    first = cached_files(tmp_path)
    assert deployer(*words) == 0
    assert cached_files(tmp_path) == first
    assert deployer(*words, "--sanitize") == 0
    assert len(cached_files(tmp_path)) == 2 * len(first)


def cached_files(folder: Path) -> dict[str, bytes]:
    """Everything in the cache folder."""
    return {p.name: p.read_bytes() for p in (folder / "cache").rglob("*") if p.is_file()}


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "one bit": lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:],
    "longer": lambda content: content + b"\0",
    "text": lambda content: b"not an object",
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_object(name: str, tmp_path: Path) -> None:
    """An object that is not what its name says is not found, and is gone."""
    source, compiled = tmp_path / "k.c", tmp_path / "made.o"
    compiled.write_bytes(bytes(range(256)) * 2)
    path = objects.keep(tmp_path, source, "key", compiled)
    assert objects.find(tmp_path, source, "key") == path
    path.write_bytes(DAMAGE[name](path.read_bytes()))
    assert objects.find(tmp_path, source, "key") is None
    assert not path.exists()
    assert objects.find(tmp_path, source, "other") is None


def test_shelves(tmp_path: Path) -> None:
    """Objects of keys that begin otherwise lie apart: a search among many reads the names of few."""
    source, compiled = tmp_path / "k.c", tmp_path / "made.o"
    compiled.write_bytes(b"object")
    kept = {key: objects.keep(tmp_path, source, key, compiled) for key in ("0f1", "0f2", "f00")}
    assert {key: objects.find(tmp_path, source, key) for key in kept} == kept
    assert len(set(kept.values())) == 3
    assert kept["0f1"].parent == kept["0f2"].parent != kept["f00"].parent


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_objects(name: str, models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged object is compiled again, the program is the same, and foreign files in the cache stay."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ["train", "-t", case_dir("simple_mlp", models_root), "-o", tmp_path / "c", "--dump"]
    assert deployer(*words, tmp_path / "1.npz") == 0
    sound = cached_files(tmp_path)
    program = (tmp_path / "c" / "network").read_bytes()
    for path in (tmp_path / "cache" / "deployer" / "objects").rglob("*.o"):
        path.write_bytes(DAMAGE[name](path.read_bytes()))
    assert deployer(*words, tmp_path / "2.npz") == 0
    assert cached_files(tmp_path) == sound
    assert (tmp_path / "c" / "network").read_bytes() == program
    assert bits(tmp_path / "1.npz") == bits(tmp_path / "2.npz")


@pytest.mark.slow
def test_builders_at_once(models_root: Path, tmp_path: Path) -> None:
    """Processes that begin with an empty cache all succeed, and leave each object once."""
    case = case_dir("simple_mlp", models_root)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    line = [sys.executable, "-m", "deployer.cli", "train", "-t", str(case), "-o"]
    runs = [
        subprocess.Popen([*line, str(tmp_path / str(i))], env=environment, cwd=HERE.parent, stdout=subprocess.DEVNULL)
        for i in range(3)
    ]
    assert [run.wait(timeout=300) for run in runs] == [0, 0, 0]
    names = sorted(cached_files(tmp_path))
    assert len({name.rpartition("-")[0] for name in names}) == len(names) > 0
    assert all(name.endswith(".o") for name in names)


@pytest.mark.slow
def test_places_that_are_none(
    models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a folder that takes objects the way out is named; a relative one is ignored, as its standard says."""
    words = ["train", "-t", case_dir("simple_mlp", models_root), "-o", tmp_path / "c"]
    monkeypatch.chdir(tmp_path)
    blocked = tmp_path / "file"
    blocked.write_text("")
    for place in ("/proc/nowhere", str(blocked), str(blocked / "deeper")):
        monkeypatch.setenv("XDG_CACHE_HOME", place)
        message = refused(capsys, *words)
        assert place in message
        assert "set XDG_CACHE_HOME" in message

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CACHE_HOME", "")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "home", homeless)
        assert "no home folder" in refused(capsys, *words)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for place in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", place)
        shutil.rmtree(tmp_path / "home", ignore_errors=True)
        assert deployer(*words) == 0
        assert list((tmp_path / "home" / ".cache" / "deployer" / "objects").rglob("*.o"))
    assert {p.name for p in tmp_path.iterdir()} == {"file", "home", "c"}


@pytest.mark.slow
def test_a_stray_header_spoils_no_object(models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels do not include headers from the folder of generated C, so their objects serve every folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    case = pipeline.load_training(case_dir("simple_mlp", models_root))
    tiling, plan = pipeline.plan_case(case, pipeline.Options("host", "single"))
    for name in ("stray", "clean"):
        (tmp_path / name).mkdir()
    (tmp_path / "stray" / "stdint.h").write_text("#error not the system's\n")
    for name in ("stray", "clean"):
        pipeline.write_case(case, tiling, plan, tmp_path / name)
        pipeline.build_case(plan, tmp_path / name)
    assert (tmp_path / "stray" / "network").read_bytes() == (tmp_path / "clean" / "network").read_bytes()
