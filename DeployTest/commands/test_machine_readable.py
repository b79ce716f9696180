"""Output for programs: lines of JSON of each command, schemas of files, completion scripts; and silence."""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Any

import fastjsonschema
import numpy as np
import pytest

from deployer.commands.json_schema import artefact_schema, record_schema
from deployer.commands.parser import PRINTERS, commands_of, parser
from deployer.core.artefact import load
from deployer.core.errors import DeployerWarning
from deployer.core.plan import Plan, Tiling
from deployer.running.report import WARNINGS
from DeployTest.models import simple_mlp
from DeployTest.support.building.command_line import deployer

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small training case."""
    return simple_mlp.generate(tmp_path_factory.mktemp("case"))


def _events(capsys: Capture) -> list[dict[str, Any]]:
    found = capsys.readouterr()
    return [json.loads(line) for line in found.out.splitlines()]


def test_every_command_has_them() -> None:
    """--config, --quiet and --json; but for those that print a text for other programs."""
    for name, command in commands_of(parser()).items():
        options = {"--config", "--quiet", "--json"} & set(command._option_string_actions)
        assert len(options) == (0 if name in {printer[0] for printer in PRINTERS} else 3), name


def test_run(case: Path, tmp_path: Path, capsys: Capture) -> None:
    """Compile, run, print again: one line each, and nothing with --quiet; files obey their schemas."""
    out, again = tmp_path / "out", tmp_path / "again"
    assert deployer("train", "-t", case, "-o", out, "--json") == 0
    (end,) = _events(capsys)
    plan = load(Plan, out / "plan.json")
    assert (end["event"], end["verdict"], end["output"]) == ("end", "passed", str(out))
    assert end["predicted"] == {graph: plan.cycles(graph) for graph in plan.graphs}
    assert len(end["losses"]) == plan.running.passes
    for kind, file in (("plan", out / "plan.json"), ("tiling", out / "tiling.json"), ("report", out / "report.json")):
        assert deployer("schema", kind) == 0
        schema = json.loads(capsys.readouterr().out)
        fastjsonschema.compile(schema)(json.loads(file.read_text()))
    assert deployer("emit", "--plan", out / "plan.json", "-o", again, "--json") == 0
    (end,) = _events(capsys)
    assert end["files"] == sorted(p.name for p in again.iterdir() if p.is_file())
    assert deployer("train", "-t", case, "-o", out, "--quiet") == 0
    found = capsys.readouterr()
    assert (found.out, found.err) == ("", "")


@pytest.mark.parametrize("words", [("--json",), ("--js",), ("--config", "options.toml")])
def test_error(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """An error is a line, too, with the exit code, however lines are asked for; people's text is on standard error."""
    monkeypatch.chdir(tmp_path)
    Path("options.toml").write_text("[train]\njson = true\n")
    assert deployer("train", "-t", tmp_path / "none", *words) == 2
    found = capsys.readouterr()
    record = json.loads(found.out)
    assert (record["event"], record["exit_code"], record["kind"]) == ("error", 2, "FileProblem")
    assert record["cause"] in found.err


@pytest.mark.parametrize("name", ["targets", "operators"])
def test_listings(name: str, capsys: Capture) -> None:
    """Each row of the table is a record."""
    assert deployer(name, "--json") == 0
    (end,) = _events(capsys)
    assert deployer(name) == 0
    shown = capsys.readouterr().out
    firsts = [line.split()[0] for line in shown.splitlines()[1:] if not line.startswith("  ")]
    assert [row["name"] for row in end[name]] == firsts


@pytest.mark.parametrize("kind", [Plan, Tiling])
def test_schemas_refuse(kind: type, case: Path, tmp_path: Path) -> None:
    """A member more, one less, another type: each is noticed at any depth, as `artefact.load` does."""
    assert deployer("compile", "-t", case, "-o", tmp_path / "c", "--quiet") == 0
    text = (tmp_path / "c" / f"{kind.__name__.lower()}.json").read_text()
    valid = fastjsonschema.compile(artefact_schema(kind))
    valid(json.loads(text))

    def edited(*path: str) -> tuple[dict[str, Any], dict[str, Any]]:
        whole = json.loads(text)
        place = whole
        for key in path:
            place = place[key]
        return whole, place[0] if isinstance(place, list) else place

    steps = ("body", "steps")
    for path in ((), ("body",), steps):
        for change in ("more", "less", "type"):
            whole, place = edited(*path)
            key = "more" if change == "more" else next(k for k in place if k not in ("_", "digest"))
            if change == "less":
                del place[key]
            else:
                place[key] = None if change == "type" else 1
            with pytest.raises(fastjsonschema.JsonSchemaException):
                valid(whole)


def test_types_without_a_schema() -> None:
    """A type that no file holds has none."""
    import dataclasses

    kind = dataclasses.make_dataclass("Kind", [("field", set[int])])
    with pytest.raises(TypeError, match="has no JSON schema"):
        record_schema(kind, {})


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, capsys: Capture) -> None:
    """The script knows all commands and options, also those of losses, and the shell can read it."""
    assert deployer("completion", shell) == 0
    script = capsys.readouterr().out
    commands = commands_of(parser())
    assert all(word in script for name in commands for word in name.split())
    assert "label-smoothing" in script
    if which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_other_commands_need_no_shells(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """The package for shells is loaded for `completion` alone, and for its help."""
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert deployer("targets") == 0
    assert deployer("completion", "bash") == 2
    assert "the package shtab is not installed" in capsys.readouterr().err


def test_arguments_are_named() -> None:
    """Each option of each command has a help text."""
    for name, command in commands_of(parser()).items():
        for action in command._actions:
            told = action.help or isinstance(action, argparse._HelpAction) or not action.option_strings
            assert told, (name, action.dest)


NUMBER = re.compile(r"[-+]?\d+([.,]\d+)?(e[-+]?\d+)?( ?([kKMG]i?)?(B|s|ms|us|ns|%|cycles|steps|passes))?")
"""A text that is a number, with or without a unit."""
NAMED = ("name", "board", "title", "version", "labels", "classes")
"""Members that hold names, which may be numbers."""


def numbers_as_text(record: Any, place: str = "") -> list[str]:
    """Members whose value is a number written as text, with their places."""
    if isinstance(record, dict):
        rows = [(f"{place}.{key}", value) for key, value in record.items() if key not in NAMED]
    elif isinstance(record, list):
        rows = [(f"{place}[]", value) for value in record]
    else:
        return [f"{place}: {record}"] if isinstance(record, str) and NUMBER.fullmatch(record) else []
    return [found for at, value in rows for found in numbers_as_text(value, at)]


@pytest.mark.slow
def test_numbers_are_numbers(case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """No line of JSON and no report of a command has a number as text."""
    monkeypatch.chdir(tmp_path)
    [model] = case.parent.glob("*.onnx")
    draw = np.random.default_rng(2)
    np.savez("data.npz", input=draw.standard_normal((8, 1, 64)).astype(np.float32), labels=draw.integers(0, 10, (8, 1)))
    data = ("--data", "data.npz", "--loss", "cross_entropy")
    for words in (
        ("train", "-t", case, "-o", "run"),
        ("train", "-t", case, "-o", "small", "--l1", "100"),
        ("train-graph", model, *data, "-o", "graph"),
        ("fit", model, *data, "--epochs", "1", "-o", "fitted"),
        ("package", case, "--name", "net", "-o", "net"),
        ("state", "show", "net/weights.bin", "--library", "net"),
        ("state", "show", "net/Makefile"),
        ("fits", model),
        ("targets",),
        ("operators",),
    ):
        deployer(*words, "--json")
        events = _events(capsys)
        assert events, words
        assert numbers_as_text(events) == [], words
    for path in (Path("run/report.json"), Path("fitted/report.json"), Path("net/manifest.json")):
        assert numbers_as_text(json.loads(path.read_text())) == [], path
    report = json.loads(Path("run/report.json").read_text())
    assert report["clock"] == "model"
    assert {type(value) for value in report["bench"].values()} == {int}


def test_facts_of_messages() -> None:
    """A fact that is a number is one, beside its unit; several with one label are a list; the schema takes them."""
    facts = [("size", "12 B"), ("count", "7"), ("share", "0.5 %"), ("digits", "007"), ("and", "3 more")]
    record = DeployerWarning("cause", [*facts, ("at", "1"), ("at", "[2, 3]")], "hint").record
    assert record["facts"] == {
        "size": {"value": 12, "unit": "B"},
        "count": 7,
        "share": {"value": 0.5, "unit": "%"},
        "digits": "007",
        "and": "3 more",
        "at": [1, "[2, 3]"],
    }
    fastjsonschema.compile(WARNINGS)([record])
