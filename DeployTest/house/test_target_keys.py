"""The table of a target file's keys is complete: each key that is read has a meaning, and each that has one is read."""

import shutil
import tomllib
from pathlib import Path

import pytest

from deployer.core.target import COSTS, FILE_KEYS, TARGETS_DIR, Target, TargetInvalid, parse
from DeployTest.support.documents.reference import INTERNAL, RENAMED, SECTIONS, fields

pytestmark = [pytest.mark.host]
TOP = {*fields(Target), *FILE_KEYS} - {*COSTS, *INTERNAL}
TABLES = {title.strip("`[]").split(".")[0]: fields(cls) for title, cls, _ in SECTIONS}


def test_every_key_has_a_meaning() -> None:
    """No field of a class that reads a target's file lacks the string behind it."""
    documented = {"target": {n: row for n, row in fields(Target).items() if n not in INTERNAL}, **TABLES}
    assert [f"{name}.{key}" for name, rows in documented.items() for key, row in rows.items() if not row[2]] == []


@pytest.mark.parametrize("path", sorted(TARGETS_DIR.glob("*.toml")), ids=lambda path: path.stem)
def test_files_have_known_keys(path: Path) -> None:
    """Each key of the deployer's own files is in the table of its section."""
    costs = path.with_suffix("") / "costs.toml"
    for file in (path, *([costs] if costs.is_file() else [])):
        raw = tomllib.loads(file.read_text())
        assert set(raw) <= TOP
        for name in raw.keys() & TABLES.keys():
            kinds = {RENAMED.get(key, key) for key in TABLES[name]}
            tables = raw[name] if isinstance(raw[name], list) else [raw[name]]
            tables = list(raw[name].values()) if name == "kernels" else tables
            assert {key for one in tables for key in one} <= kinds, f"{file}: {name}"


@pytest.mark.parametrize("key", [*sorted(TOP), "another"])
def test_keys_are_read(key: str, tmp_path: Path) -> None:
    """A documented key of a wrong type is a fault, and not unknown; a key that no table has is."""
    text = (TARGETS_DIR / "host_flat.toml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith((f"{key} =", f"[{key}", f"[[{key}"))]
    path = tmp_path / "host_flat.toml"
    path.write_text("\n".join([f"{key} = 0.5", *lines]))
    shutil.copytree(TARGETS_DIR / "host_flat", tmp_path / "host_flat")
    try:
        parse(path)
    except TargetInvalid as error:
        said = str(error)
    else:
        said = ""
    assert (f"unknown keys ['{key}']" in said) == (key == "another")
