"""Boards as data, and on which of them a training fits; each way to make it fit is compiled."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deployer import pipeline
from deployer.sizing.boards import BOARDS, BoardInvalid, boards, core_of, cores, emulators, read_board
from deployer.sizing.fits import fit_board
from deployer.sizing.needs import CaseNeeds
from DeployTest.firmware import nets
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.targets.simulators import needs_core

pytestmark = [pytest.mark.host, pytest.mark.training]
NEEDED = {
    *("apollo4", "esp32s3", "nrf52840", "nrf5340", "rp2040", "rp2350"),
    *("stm32f446", "stm32f746", "stm32h743", "stm32n657"),
}
OWN = """name = "a small board"
core = "{core}"
mhz = 100
flash = {flash}
source = "made up"

[[memory]]
name = "SRAM"
bytes = {memory}
"""
ENERGY = """
[energy]
milliamperes = {}
volts = 3.0
source = {}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that another run compiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def board_file(folder: Path, memory: int, flash: int = 1 << 20, core: str = "xtensa-lx7", more: str = "") -> Path:
    """A board of one's own; its core has no compiler unless it is another one."""
    path = folder / "small.toml"
    path.write_text(OWN.format(core=core, flash=flash, memory=memory) + more)
    return path


def result(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    """The last line of what `deployer fits --json` prints."""
    capsys.readouterr()
    assert deployer("fits", *words, "--json") == 0
    record: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return record


def test_boards() -> None:
    """The boards are there, each with a source; energy has one of its own."""
    found = {board.stem: board for board in boards()}
    assert {*NEEDED, "siracusa"} <= found.keys()
    assert all(board.source for board in found.values())
    assert all(board.energy.source for board in found.values() if board.energy)
    assert [memory.bytes for memory in found["stm32f446"].memories] == [128 * 1024]
    assert found["siracusa"].target is not None


def test_emulators() -> None:
    """Each emulator that a core names is described, with a machine; none is described that no core names."""
    named = {core.emulator for core in cores().values() if core.emulator}
    assert named == emulators().keys()
    assert all(bool(core.emulator) == bool(core.machine) for core in cores().values())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[", "is not TOML"),
        ('name = "x"\nsource = ""', "'source' is not text"),
        ('name = "x"\nsource = "y"\nweight = 1', "no key 'weight'"),
        ('name = "x"\nsource = "y"', "either a core or a target"),
        (
            'name = "x"\nsource = "y"\ncore = "z80"\nmhz = 1\nflash = 1\n[[memory]]\nname = "r"\nbytes = 1',
            "no core 'z80'",
        ),
        ('name = "x"\nsource = "y"\ncore = "cortex-m4"\nmhz = -1\nflash = 1', "mhz is -1"),
        ('name = "x"\nsource = "y"\ncore = "cortex-m4"\nmhz = 1\nflash = 1', "no memory"),
        ('name = "x"\nsource = "y"\ncore = "cortex-m4"\nmhz = 1\nflash = 1\n[[memory]]\nname = "r"', "name, bytes"),
        (
            'name = "x"\nsource = "y"\ncore = ["cortex-m4"]\nmhz = 1\nflash = 1\n[[memory]]\nname = "r"\nbytes = 1',
            "no core",
        ),
        (
            'name = "x"\nsource = "y"\ncore = "cortex-m4"\nmhz = 1\nflash = 1\nmemory = 5',
            "memory is not a list of tables",
        ),
        ('name = "x"\nsource = "y"\ntarget = "siracusa"\nflash = 1\nmhz = 1', "'flash' has no effect"),
        (OWN.format(core="cortex-m4", flash=1, memory=1) + ENERGY.format(-1.0, '"s"'), "milliamperes is -1.0"),
        (OWN.format(core="cortex-m4", flash=1, memory=1) + ENERGY.format("nan", '"s"'), "milliamperes is nan"),
        (OWN.format(core="cortex-m4", flash=1, memory=1) + ENERGY.format(1.0, '""'), "energy has no source"),
    ],
)
def test_faulty_boards(text: str, why: str, tmp_path: Path) -> None:
    """Each fault is named."""
    (tmp_path / "board.toml").write_text(text)
    with pytest.raises(BoardInvalid, match=why):
        read_board(tmp_path / "board.toml")


def test_board_of_the_page(tmp_path: Path) -> None:
    """The file that docs/boards.md shows is the board it is taken from."""
    page = (BOARDS.parents[1] / "docs" / "boards.md").read_text()
    path = tmp_path / "stm32f446.toml"
    path.write_text(page.partition("```toml\n")[2].partition("```")[0])
    assert read_board(path) == read_board(BOARDS / path.name)


def test_sizes_and_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RAM and constants are the library's; a board with a byte less does not fit, and a way that does is found."""
    model, case = tmp_path / "dense_model.onnx", nets.dense_case(tmp_path / "case")
    next(case.parent.glob("*.onnx")).rename(model)
    assert deployer("package", case, "--name", "dense", "-o", tmp_path / "dense") == 0
    sizes = json.loads((tmp_path / "dense/manifest.json").read_text())["bytes"]
    fitting = result(capsys, case, "--board", board_file(tmp_path, sizes["struct"]))
    [row] = fitting["boards"]
    assert row["fits"]
    assert (row["memory"], row["flash"]) == (sizes["struct"], sum(sizes.values()) - sizes["struct"])
    assert row["unknown"] == ["code", "stack", "instructions"]
    assert row["least_ms"] is row["instructions"] is row["least_uj"] is None
    assert fitting["remedies"] == []
    small = board_file(tmp_path, sizes["struct"] - 1)
    words = (model, "--optimizer", "adam", "--loss", "cross_entropy", "--board", small)
    lacking = result(capsys, *words)
    assert (lacking["loss"], "loss" in fitting) == ("cross_entropy", False)
    assert not lacking["boards"][0]["fits"]
    assert "too many for SRAM" in lacking["boards"][0]["lacking"][0]
    ways = {way["options"]: way for way in lacking["remedies"]}
    assert str(small.stem) in ways[r"--trainable '^(fc2\.weight|fc2\.bias)$'"]["boards"]
    usual = result(capsys, model, "--loss", "cross_entropy", "--board", "esp32s3")["boards"][0]
    assert ways["--optimizer sgd"]["memory"] == usual["memory"] < lacking["boards"][0]["memory"]
    assert not ways["--optimizer sgd"]["boards"]
    assert {"deployer train --fused", "--optimizer sgd"} < ways.keys()


def test_8_bits_are_proposed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The remedy's words make the model and the sizes that it tells, and its accuracies are those of `quantize`."""
    model, case = tmp_path / "dense_model.onnx", nets.dense_case(tmp_path / "case")
    next(case.parent.glob("*.onnx")).rename(model)
    [x] = onnx.load(model).graph.input
    batch, size = (d.dim_value for d in x.type.tensor_type.shape.dim)
    draw = np.random.default_rng(0)
    file = tmp_path / "data.npz"
    samples = draw.standard_normal((5 * batch, size), np.float32)
    np.savez(file, **{x.name: samples, "labels": (samples[:, 0] > 0).astype(np.int64)})
    small = board_file(tmp_path, 200)
    words = (model, "--loss", "cross_entropy", "--board", small)
    for given in ((), ("--data", file)):
        ways = {way["title"]: way for way in result(capsys, *words, *given)["remedies"]}
        way = ways["8 bits in front of the last layer"]
        quantize, fits = way["options"].split("; ")
        assert (way["metrics"] == {}) == (not given), "random samples say nothing of accuracy"
    narrow = {way["title"]: way for way in result(capsys, *words, "--trainable", "fc2")["remedies"]}
    assert narrow[way["title"]]["memory"] == way["memory"], "what is frozen already can have 8 bits as well"
    names = shlex.split(quantize)
    out = tmp_path / "quantized.onnx"
    names = [{model.name: model, "quantized.onnx": out}.get(name, name) for name in names]
    capsys.readouterr()
    assert deployer(*names[1:], "--loss", "cross_entropy", "--json") == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert way["metrics"] == {name: [told["float_metrics"][name], told["metrics"][name]] for name in told["metrics"]}
    options = shlex.split(fits)[3:]
    then = result(capsys, out, "--loss", "cross_entropy", "--board", small, *options)["boards"][0]
    assert then["memory"] == way["memory"] < ways["only the last 2 of 4 weights train"]["memory"]


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A board that is not there, and options that a case has decided."""
    case = nets.dense_case(tmp_path / "case")
    assert "there is no board 'pdp11'" in refused(capsys, "fits", case, "--board", "pdp11")
    assert "--loss has no effect" in refused(capsys, "fits", case, "--loss", "mse")
    assert "--data has no effect" in refused(capsys, "fits", case, "--data", tmp_path / "data.npz")


@pytest.mark.slow
@pytest.mark.cortex_m
def test_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Code, stack and instructions by compiler and emulator; energy where the board says its current; again at once."""
    needs_core("cortex-m4")
    case = nets.normed_case(tmp_path / "case")
    words = (case, "--board", "nrf52840", "--board", "stm32f446", "--board", "rp2040")
    first = result(capsys, *words)
    assert result(capsys, *words) == first
    rows = {row["board"]: row for row in first["boards"]}
    assert all(row["fits"] and row["unknown"] == [] for row in rows.values())
    assert rows["nrf52840"]["instructions"] == rows["stm32f446"]["instructions"]
    assert rows["rp2040"]["instructions"] > 2 * rows["stm32f446"]["instructions"], "products by integers"
    assert rows["nrf52840"]["least_uj"] == pytest.approx(rows["nrf52840"]["least_ms"] * 9.9)
    assert rows["stm32f446"]["least_uj"] is None


@pytest.mark.slow
@pytest.mark.cortex_m
@pytest.mark.parametrize(("place", "size"), [("code", 0x1000), ("data", 0x200)])
def test_programs_beyond_the_machine(place: str, size: int, tmp_path: Path) -> None:
    """A program that the emulated machine has no room for has a size and a stack, and unknown instructions."""
    needs_core("cortex-m4")
    needs = CaseNeeds(pipeline.load_training(nets.normed_case(tmp_path / "case")), lambda warning: None)
    core = core_of("cortex-m4")
    whole, small = needs.on_core(core), needs.on_core(replace(core, **{place: (getattr(core, place)[0], size)}))
    assert whole.train
    assert small == replace(whole, train=None, update=None)


@pytest.mark.slow
@pytest.mark.cortex_m
def test_a_program_that_does_not_end_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is too slow leaves the instructions unknown; one that the training does not fit is not asked."""
    needs_core("cortex-m4")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    needs = CaseNeeds(pipeline.load_training(nets.normed_case(tmp_path / "case")), lambda warning: None)
    monkeypatch.setattr("deployer.sizing.emulated.SECONDS", 1e-3)
    [board] = [board for board in boards() if board.stem == "stm32f446"]
    row = fit_board(board, needs)
    assert row.fits
    assert row.unknown == ("instructions",)
    monkeypatch.setattr("deployer.sizing.needs.run_example", None)
    assert not fit_board(replace(board, flash=1), needs).fits
