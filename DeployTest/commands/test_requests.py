"""Every request that cannot be met ends with its code, one line that says why, and no traceback."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from deployer.commands.requests import check_tolerance
from deployer.core.errors import OptionProblem
from DeployTest.support.building.cases import case_dir
from DeployTest.support.building.command_line import deployer

pytestmark = [pytest.mark.host, pytest.mark.training]


@dataclass(frozen=True)
class Place:
    """The files of a request: the case, its forward model, and a folder for outputs."""

    case: Path
    folder: Path

    @property
    def model(self) -> Path:
        """The forward model of the case."""
        return self.case.parent / "simple_mlp.onnx"


Words = Callable[[Place], list[object]]


def train(*flags: object) -> Words:
    """A training request; a text in braces stands for a path below the request's own folder."""
    return lambda p: ["train", "-t", p.case, "-o", p.folder / "c", *(_filled(f, p) for f in flags)]


def compiled(*flags: object) -> Words:
    """A request to compile alone."""
    return lambda p: ["compile", "-t", p.case, "-o", p.folder / "c", *(_filled(f, p) for f in flags)]


def graph(*flags: object) -> Words:
    """A request for a training graph."""
    return lambda p: ["train-graph", p.model, "--loss", "cross_entropy", "-o", p.folder / "g", *map(str, flags)]


def _filled(flag: object, place: Place) -> str:
    return str(flag).format(folder=place.folder, case=place.case)


REFUSED: dict[str, tuple[Words, str]] = {
    "a negative seed": (train("--dma-order", "random", "--seed=-1"), "'-1' is not a whole number from 0 to 4294967295"),
    "a huge seed": (train("--dma-order", "random", "--seed", 2**32), "is not a whole number from 0 to 4294967295"),
    "a seed of words": (train("--seed", "one"), "'one' is not a whole number from 0"),
    "a seed without use": (train("--seed", 3), "--seed has no effect"),
    "a seed for early transfers": (train("--seed", 3, "--dma-order", "early"), "--seed has no effect"),
    "a tolerance that cannot fail": (train("--tolerance", "1e300"), "--tolerance 1e+300 cannot fail"),
    "a tolerance of all there is": (train("--tolerance", "2.7"), "--tolerance 2.7 cannot fail"),
    "a tolerance that is 0 in float32": (train("--tolerance", "1e-60"), "'1e-60' is 0 in float32"),
    "a rate that is 0 in float32": (train("--lr", "1e-60"), "'1e-60' is 0 in float32"),
    "a rate beyond float32": (train("--lr", "1e300"), "'1e300' is beyond float32"),
    "a rate of NaN": (train("--lr", "nan"), "'nan' is not a finite number"),
    "too many passes": (train("--n-steps", 10**11), f"{10**11} forward passes need {10**11 * 264} B"),
    "a number without end": (train("--l1", "9" * 5000), "is not a whole number"),
    "an L1 beyond any machine": (train("--l1", 10**15), "is not within target 'host'"),
    "an unknown opt-out": (
        train("--buffering", "training_double", "--opt-out", "Gem"),
        "--opt-out 'Gem' names no step and no operator",
    ),
    "an opt-out that fusion absorbed": (
        train("--buffering", "training_double", "--opt-out", "Relu"),
        "--opt-out 'Relu' names no step and no operator",
    ),
    "an order of transfers for nobody": (
        train("-p", "siracusa", "--dma-order", "late"),
        "target 'siracusa' takes no --dma-order",
    ),
    "an order of cores for nobody": (
        train("-p", "qemu_riscv", "--core-order", "reverse"),
        "target 'qemu_riscv' takes no --core-order",
    ),
    "a target elsewhere": (train("-p", "../host"), "there is no target '../host'"),
    "a target without name": (train("-p", ""), "there is no target ''"),
    "an empty output folder": (lambda p: ["train", "-t", p.case, "-o", ""], "-o/--output: the path is empty"),
    "an empty case": (lambda p: ["train", "-t", ""], "-t/--test: the path is empty"),
    "an empty dump": (train("--dump", ""), "--dump: the path is empty"),
    "an empty output folder of emit": (lambda p: ["emit", "--plan", "p", "-o", ""], "the path is empty"),
    "an empty output folder of a graph": (lambda p: ["train-graph", "m", "--loss", "mse", "-o", ""], "is empty"),
    "a case that is a file": (lambda p: ["train", "-t", p.case / "network.onnx"], "is not a folder"),
    "an output that is a file": (
        lambda p: ["train", "-t", p.case, "-o", p.case / "network.onnx"],
        "network.onnx is not a folder",
    ),
    "an output below a file": (
        lambda p: ["train", "-t", p.case, "-o", p.case / "network.onnx" / "c"],
        "network.onnx",
    ),
    "an output that cannot be made": (lambda p: ["train", "-t", p.case, "-o", "/proc/c"], "/proc/c"),
    "a dump below a file": (train("--dump", "{case}/network.onnx/d.npz"), "network.onnx"),
    "a dump that is a folder": (train("--dump", "{folder}"), "is a folder"),
    "a dump that is a device": (train("--dump", "/dev/full"), "/dev/full is not a regular file"),
    "a dump over the case": (train("--dump", "{case}/inputs.npz"), "is part of the case"),
    "a dump over something else": (train("--dump", "{case}/../simple_mlp.onnx"), "is not an npz archive"),
    "a dump of nothing": (train("--skipsim", "--dump", "{folder}/d.npz"), "--dump has no effect"),
    "a dump of C": (compiled("--dump", "{folder}/d.npz"), "--dump has no effect"),
    "an order of what never runs": (compiled("--dma-order", "late"), "--dma-order has no effect"),
    "a tiling that is not there": (compiled("--from", "{folder}/nowhere.json"), "does not exist"),
    "a tiling that is a folder": (compiled("--from", "{folder}"), "{folder}"),
    "a plan of brackets": (lambda p: ["emit", "--plan", _brackets(p), "-o", p.folder / "c"], "is not a JSON artefact"),
    "an expression that is none": (graph("--trainable", "("), "is not a regular expression"),
    "an expression without match": (graph("--trainable", "nothing"), "matches no initializer"),
    "too many samples": (graph("--samples", 10**11), f"{10**11} samples need"),
    "too many passes of a graph": (graph("--n-steps", 10**11), f"{10**11} forward passes need"),
    "too many passes per update": (graph("--accumulate-grad-batches", 10**11), "forward passes need"),
    "a negative seed of samples": (graph("--seed=-1"), "'-1' is not a whole number from 0"),
    "a rate of zero": (graph("--lr", 0), "is not positive"),
    "a rate of the graph in float32": (graph("--lr", "1e-60"), "'1e-60' is 0 in float32"),
    "data that is not there": (graph("--data", "/nowhere.npz"), "/nowhere.npz does not exist"),
    "a seed beside data": (graph("--data", "/nowhere.npz", "--seed", 1), "--seed has no effect"),
    "samples beside data": (graph("--data", "/nowhere.npz", "--samples", 1), "--samples has no effect"),
    "passes of an inference case": (lambda p: ["infer", "-t", p.case, "--n-steps", 2], "--n-steps has no effect"),
    "passes of no training": (lambda p: ["compile", "-t", p.folder, "--n-steps", 2], "--n-steps has no effect"),
    "a rate of an inference case": (lambda p: ["infer", "-t", p.case, "--lr", 1], "has no effect on an inf"),
    "passes of an optimizer case": (
        lambda p: ["optimizer", "-t", p.case, "--accumulate-grad-batches", 1],
        "--accumulate-grad-batches has no effect",
    ),
    "samples of an optimizer": (lambda p: ["optimizer", "-t", p.case, "--data-inputs", 1], "--data-inputs has no"),
    "a measurement of nothing": (lambda p: ["calibrate", "-p", "toaster"], "there is no target 'toaster'"),
}


def _brackets(place: Place) -> Path:
    path = place.folder / "brackets.json"
    path.write_text("[" * 100_000)
    return path


@pytest.fixture
def place(models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place for one request, which is also the current folder."""
    (tmp_path / "current").mkdir()
    monkeypatch.chdir(tmp_path / "current")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Place(case_dir("simple_mlp", models_root), tmp_path)


def files(folder: Path) -> dict[str, bytes]:
    """Everything in a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2, one line names the cause, no file is changed and nothing was run."""
    words, cause = REFUSED[name]
    command = [str(word) for word in words(place)]
    before = files(place.case.parent)
    code = deployer(*command)
    streams = capsys.readouterr()
    assert code == 2, streams.err
    assert "Traceback" not in streams.err
    lines = streams.err.splitlines()
    line = lines[-1] if lines[0].startswith("usage:") else lines[0]
    assert cause.format(folder=place.folder) in line
    assert "[loss" not in streams.out
    assert files(place.case.parent) == before
    assert not (place.folder / "c" / "network").exists()


COMPILERS = {
    "an unknown compiler": ("nonsense", "'nonsense' is not installed"),
    "an open quote": ("gcc '", "CC"),
    "a compiler that does nothing": ("true", "wrote no"),
    "a compiler that always fails": ("false", "'false', which CC names"),
    "a compiler of another kind": ("cat", "'cat', which CC names"),
    "a compiler that is stopped": ("sh -c 'kill -9 $$'", "signal 9"),
}


@pytest.mark.parametrize("name", COMPILERS)
def test_compilers(
    name: str, place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of the user's compiler is reported as that compiler's, without a traceback."""
    command, cause = COMPILERS[name]
    monkeypatch.setenv("CC", command)
    assert deployer("train", "-t", place.case, "-o", place.folder) == 2
    message = capsys.readouterr().err
    assert "Traceback" not in message
    assert cause in message.splitlines()[0]


LINKER = """#!/bin/sh
for word; do case "$last" in -o) out=$word;; esac; last=$word; done
case " $* " in *" -c "*|*"--version"*|*" -print"*) exec gcc "$@";; esac
printf '#!/bin/sh\\n%s\\n' "$BODY" > "$out"
chmod +x "$out"
"""
"""A compiler that puts a shell script in the place of what it links: it looks for `-o` among its words."""


@pytest.fixture(scope="module")
def linker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That compiler, in a folder that also keeps its objects; one for all tests, as its path is part of their key."""
    script = tmp_path_factory.mktemp("linker") / "cc"
    script.write_text(LINKER)
    script.chmod(0o755)
    return script


RUNS = {
    "stopped by somebody": ("kill -9 $$", 2, "signal 9"),
    "asked to end": ("kill -15 $$", 2, "signal 15"),
    "beyond a limit of file sizes": ("kill -25 $$", 2, "signal 25"),
    "an unknown instruction": ("kill -4 $$", 2, "signal 4"),
    "a fault of memory": ("kill -11 $$", 70, "signal 11"),
    "a fault of the plan": ("echo hal: step 0 >&2; exit 3", 70, "status 3"),
    "bytes that are not text": ("printf '\\377\\n'; exit 3", 70, "status 3"),
}


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("name", RUNS)
def test_runs(
    name: str, place: Place, linker: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that the machine or a person ended is not the compiler's fault; one that traps is."""
    body, code, cause = RUNS[name]
    for variable, value in {"CC": linker, "XDG_CACHE_HOME": linker.parent / "cache", "BODY": body}.items():
        monkeypatch.setenv(variable, str(value))
    assert deployer("train", "-t", place.case, "-o", place.folder / "c") == code
    message = capsys.readouterr().err
    assert "Traceback" not in message
    assert cause in message.splitlines()[0]


@pytest.mark.parametrize(
    ("largest", "accepted", "refused"), [(2.5, (0.0, 1e-5, 0.1, 2.4), (2.5, 3.0)), (0.0, (0.0, 1e-5), (2e-5, 0.1))]
)
def test_tolerances_that_can_fail(largest: float, accepted: tuple[float, ...], refused: tuple[float, ...]) -> None:
    """Below the largest expected value, where a program of zeros fails; 0.00001 is fine even where all are zeros."""
    expected = [np.array([-largest, np.nan, largest / 2]), np.zeros(0), np.array([np.inf])]
    for tolerance in accepted:
        check_tolerance(tolerance, expected)
    for tolerance in refused:
        with pytest.raises(OptionProblem, match="cannot fail"):
            check_tolerance(tolerance, expected)


def test_dump_is_what_was_asked(place: Place) -> None:
    """`--dump X` writes X, whatever its name, in a folder that is made for it, and writes it again."""
    for name in ("weights", "new/deeper/w.dat", "weights"):
        dump = place.folder / name
        assert deployer("train", "-t", place.case, "-o", place.folder / "c", "--dump", dump) == 0
        assert np.load(dump)["loss"].shape == (4,)
        assert [p.name for p in dump.parent.iterdir() if p.is_file()] == [dump.name]


def test_seed_with_a_use(place: Place) -> None:
    """Both random orders accept every seed of 32 bits."""
    for flag, seed in (("--dma-order", 2**32 - 1), ("--core-order", 0)):
        assert deployer("train", "-t", place.case, "-o", place.folder, flag, "random", "--seed", seed) == 0
