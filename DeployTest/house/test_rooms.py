"""Which room imports which: what everybody stands on imports nobody, and nobody imports the command line."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from DeployTest.house.test_layout import ROOT, code

pytestmark = [pytest.mark.host]
FOUNDATION = {"core", "targets"}
"""`targets` is a folder of data."""


def imports(path: Path) -> Iterator[str]:
    """Modules of the deployer that a module imports, wherever it does, by their names below `deployer`."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module == "deployer":
            names = [f"deployer.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        yield from (name.removeprefix("deployer.") for name in names if name.startswith("deployer."))


def modules() -> list[Path]:
    """Modules within a room."""
    inside = [p for p in code("deployer", "tilers") if p.suffix == ".py"]
    return [p for p in inside if p.parent != ROOT / "deployer"]


def test_no_room_imports_a_root_module() -> None:
    """The command line and the order of the stages stand above all rooms."""
    roots = {p.stem for p in (ROOT / "deployer").glob("*.py")} - {"__init__"}
    assert "pipeline" in roots
    for path in modules():
        found = roots & {name.split(".")[0] for name in imports(path)}
        assert not found, f"{path.relative_to(ROOT)} imports {', '.join(sorted(found))}"


def test_core_imports_nobody() -> None:
    """What all rooms share depends on none of them."""
    for path in (ROOT / "deployer/core").glob("*.py"):
        rooms = {name.split(".")[0] for name in imports(path)}
        assert rooms <= FOUNDATION, f"{path.name} imports {', '.join(sorted(rooms - FOUNDATION))}"
