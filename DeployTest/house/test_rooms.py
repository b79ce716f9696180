"""Which room imports which: what everybody stands on imports nobody, and nobody imports the command line."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from DeployTest.house.test_layout import ROOT, code
from DeployTest.support.cases import case_dir

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


def test_the_number_of_passes_is_judged_once() -> None:
    """Whether a pass is the only one of its update is a property of the options, which everybody else reads."""
    for path in (p for p in code("deployer", "tilers") if p.suffix == ".py"):
        for node in (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Compare)):
            sides = (node.left, *node.comparators)
            named = any(isinstance(s, ast.Attribute) and s.attr == "accumulate" for s in sides)
            one = any(isinstance(s, ast.Constant) and s.value == 1 for s in sides)
            allowed = path.name in ("plan.py", "options.py") and path.parent.name in ("core", "verify")
            assert allowed or not (named and one), f"{path.relative_to(ROOT)}:{node.lineno}"


SOLVER = "assert not [m for m in sys.modules if m.split('.')[0] == 'ortools']"


def test_building_and_running_load_no_solver() -> None:
    """What was planned before is built and run without the solver; nor does it look for another planner's modules."""
    words = f"import deployer.running.run, deployer.running.build, deployer.commands, sys; {SOLVER}"
    subprocess.run([sys.executable, "-c", words], check=True, cwd=ROOT)
    words = (
        "import deployer.running.run, deployer.running.build, sys; assert 'deployer.planning.tile' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", words], check=True, cwd=ROOT)


def test_running_again_loads_no_solver(tmp_path: Path, models_root: Path) -> None:
    """`--skipgen` builds and runs what lies in the folder; the first run did load the solver."""
    case = case_dir("simple_mlp", models_root)
    for more, without in (([], False), (["--skipgen"], True)):
        words = ["train", "-t", str(case), "-o", str(tmp_path / "c"), *more]
        text = f"import sys; from deployer import cli; end = cli.main({words!r}); assert end == 0; {SOLVER}"
        done = subprocess.run([sys.executable, "-c", text], check=False, cwd=ROOT, capture_output=True, text=True)
        assert (done.returncode == 0) == without, done.stdout + done.stderr
        assert "Errors: 0 out of" in done.stdout
