"""Installed packages: the lock agrees with pins and pyproject.toml, and has digests; bills of materials of wheels."""

import hashlib
import importlib.util
import json
import re
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
FOREIGN = {"torch", "tensorboard", "mlflow", "wandb", "tokenizers", "distributed", "optuna", "flwr", "ray"}
"""Packages of extras that no lock has: they have a build per accelerator, or come with the client of a service."""


@pytest.fixture(scope="module")
def bills() -> ModuleType:
    """The script that writes bills of wheels."""
    spec = importlib.util.spec_from_file_location("wheel_bill", ROOT / ".ci/wheel_bill.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def locked(bills: ModuleType) -> dict[str, tuple[str, list[str]]]:
    """Version and digests by the names of the lock's packages."""
    return bills.locked(LOCK.read_text())


def project() -> Any:
    """The table of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_lock_has_the_pins(bills: ModuleType, locked: dict[str, tuple[str, list[str]]]) -> None:
    """Each pin is locked in its version; what is locked besides is for another system, as its marker says."""
    rows = [row for row in (ROOT / "requirements.txt").read_text().splitlines() if row and row[0] != "#"]
    pins = {bills.normal(name): version for name, version in (row.split("==") for row in rows)}
    assert {name: version for name, (version, _) in locked.items() if name in pins} == pins
    heads = [row for row in LOCK.read_text().splitlines() if "==" in row]
    assert {bills.normal(row.split("==")[0]) for row in heads if ";" not in row} == {*pins}
    assert len(heads) == len(locked)


def test_lock_has_what_the_project_asks_for(bills: ModuleType, locked: dict[str, tuple[str, list[str]]]) -> None:
    """Dependencies and extras are locked, in versions that they allow; another version in pyproject.toml is noticed."""
    extras = project()["optional-dependencies"].values()
    asked = [Requirement(text) for texts in (project()["dependencies"], *extras) for text in texts]
    names = {bills.normal(requirement.name) for requirement in asked}
    assert names - {*locked} == FOREIGN
    for requirement in asked:
        if requirement.name not in FOREIGN:
            assert locked[bills.normal(requirement.name)][0] in requirement.specifier, requirement


def test_lock_has_digests_and_no_host(locked: dict[str, tuple[str, list[str]]]) -> None:
    """Every package has digests, nothing in the file is read as another option, and no index is named."""
    text = LOCK.read_text()
    assert all(digests and len({*digests}) == len(digests) for _, digests in locked.values())
    plain = r"#.*|[A-Za-z0-9._-]+==[^ ]+( ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?"
    assert [row for row in text.splitlines() if not re.fullmatch(plain, row)] == []
    assert "://" not in text


def test_lock_is_for_all_pythons(locked: dict[str, tuple[str, list[str]]]) -> None:
    """No locked package that is installed here refuses one of the Pythons from the project's least on."""
    assert PYTHONS[0] in SpecifierSet(project()["requires-python"])
    asked = 0
    for name, (version, _) in locked.items():
        try:
            about = metadata(name)
        except PackageNotFoundError:
            continue
        if about["Version"] == version and about["Requires-Python"]:
            asked += 1
            assert all(python in SpecifierSet(about["Requires-Python"]) for python in PYTHONS), name
    assert asked > 10


def test_lock_is_used() -> None:
    """The environment of `make` is installed by it, with digests required."""
    text = (ROOT / "Makefile").read_text()
    assert "LOCKED := --quiet --disable-pip-version-check --require-hashes -r requirements.lock" in text
    assert "$(READY): requirements.lock" in text
    assert "$(PY) -m pip install $(LOCKED)" in text


def test_bill_of_a_wheel(bills: ModuleType, tmp_path: Path) -> None:
    """It has the wheel's digest, its files with theirs, and what it needs, and that needs, in the lock's versions."""
    wheel = tmp_path / "deployer-1.0-py3-none-any.whl"
    about = "Name: deployer\nVersion: 1.0\nLicense-Expression: Apache-2.0\nRequires-Dist: onnx>=1.19\n"
    about += 'Requires-Dist: torch; extra == "torch"\n'
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("deployer/__init__.py", "one")
        archive.writestr("deployer-1.0.dist-info/METADATA", about)
    bills.main(wheel)
    bill = json.loads(wheel.with_suffix(".cdx.json").read_text())
    whole = bill["metadata"]["component"]
    assert (bill["bomFormat"], bill["specVersion"], whole["name"], whole["version"]) == (
        *("CycloneDX", "1.6"),
        *("deployer", "1.0"),
    )
    assert whole["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    assert whole["licenses"] == [{"expression": "Apache-2.0"}]
    parts = {part["name"]: part for part in bill["components"]}
    assert parts["deployer/__init__.py"]["hashes"][0]["content"] == hashlib.sha256(b"one").hexdigest()
    version, digests = bills.locked(LOCK.read_text())["onnx"]
    assert (parts["onnx"]["version"], [row["value"] for row in parts["onnx"]["properties"]]) == (version, digests)
    assert {"numpy", "protobuf", "ml-dtypes"} < parts.keys(), "what onnx needs"
    assert "torch" not in parts
    assert [name for name, part in parts.items() if part["type"] == "library" and "licenses" not in part] == []
    assert bill["dependencies"] == [{"ref": wheel.name, "dependsOn": [f"pkg:pypi/onnx@{version}"]}]
