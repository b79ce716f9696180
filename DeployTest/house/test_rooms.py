"""Rooms: few files in each, and imports that go one way."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from DeployTest.house.test_layout import MAPPED, ROOT, code, nodes
from DeployTest.support.building.cases import case_dir

pytestmark = [pytest.mark.host]
DATA = {"targets", "templates", "__version__"}
"""What may be imported and is no room."""
MOST_FILES = 16
"""Modules in a room beside its `__init__.py`; a fuller one wants dividing."""


def test_rooms_have_few_files() -> None:
    """No folder of the compiler or of the tests has more modules than a reader takes in."""
    for folder in sorted({p.parent for p in code("deployer", "tilers", "DeployTest") if p.suffix == ".py"}):
        names = [p.name for p in folder.glob("*.py") if p.name != "__init__.py"]
        assert len(names) <= MOST_FILES, f"{folder.relative_to(ROOT)} has {len(names)} modules"


def imports(path: Path) -> Iterator[str]:
    """Modules of the deployer that a module imports, wherever it does, by their names below `deployer`."""
    for node in nodes(path):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module == "deployer":
            names = [f"deployer.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        yield from (name.removeprefix("deployer.") for name in names if name.startswith("deployer."))


ENTRIES = {"cli": "commands", "__main__": "commands", "loggers": "fitting", "callbacks": "fitting"}
"""Modules above all folders that belong to a room; the others are the pipeline, a room of its own."""


def _room(module: str) -> str:
    """The room of a module below `deployer`: its folder, or what it is the entry of."""
    first, _, rest = module.partition(".")
    return first if rest or first in MAPPED or (ROOT / "deployer" / first).is_dir() else ENTRIES.get(first, "pipeline")


def test_no_room_imports_upwards() -> None:
    """The rooms can be laid in floors: whoever follows imports from room to room never comes back.

    What all stand on is on the ground, the order of the stages is above all of these, as are libraries of what stages
    made, and models of 8 bits; training over epochs stands on that, then language models and the front for PyTorch;
    commands are on top.
    """
    below: dict[str, set[str]] = {}
    for path in [p for p in code("deployer", "tilers") if p.suffix == ".py" and p.name != "__init__.py"]:
        room = _room(".".join(path.relative_to(ROOT).with_suffix("").parts).removeprefix("deployer."))
        below.setdefault(room, set()).update({_room(name) for name in imports(path)} - {room} - DATA)
    floors: list[set[str]] = []
    while below:
        floor = {room for room, used in below.items() if not used & below.keys()}
        ties = {room: sorted(used & below.keys()) for room, used in below.items()}
        assert floor, f"rooms import each other: {ties}"
        floors.append(floor)
        below = {room: used for room, used in below.items() if room not in floor}
    assert floors[0] == {"core"}
    assert floors[-4:] == [
        {"pipeline", "firmware", "quantization"},
        {"fitting", "sizing", "sweeps"},
        {"fleets", "lm", "racks", "torch"},
        {"commands"},
    ]


def test_the_number_of_passes_is_judged_once() -> None:
    """Whether a pass is the only one of its update is a property of the options, which everybody else reads."""
    for path in (p for p in code("deployer", "tilers") if p.suffix == ".py"):
        for node in (n for n in nodes(path) if isinstance(n, ast.Compare)):
            sides = (node.left, *node.comparators)
            named = any(isinstance(s, ast.Attribute) and s.attr == "accumulate" for s in sides)
            one = any(isinstance(s, ast.Constant) and s.value == 1 for s in sides)
            allowed = path.name == "plan.py" and path.parent.name in ("core", "verify")
            assert allowed or not (named and one), f"{path.relative_to(ROOT)}:{node.lineno}"


SOLVER = "assert not [m for m in sys.modules if m.split('.')[0] == 'ortools']"


def test_building_and_running_load_no_solver() -> None:
    """A planned case is built and run without the solver, and without loading the planner's modules."""
    words = f"import deployer.running.run, deployer.running.build, deployer.commands.actions, sys; {SOLVER}"
    subprocess.run([sys.executable, "-c", words], check=True, cwd=ROOT)
    words = (
        "import deployer.running.run, deployer.running.build, sys; assert 'deployer.planning.tile' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", words], check=True, cwd=ROOT)


def test_running_again_loads_no_solver(tmp_path: Path, models_root: Path) -> None:
    """`--skipgen` builds and runs what lies in the folder; the first run did load the solver."""
    case = case_dir("simple_mlp", models_root)
    for flags, solver_free in (([], False), (["--skipgen"], True)):
        words = ["train", "-t", str(case), "-o", str(tmp_path / "c"), *flags]
        text = f"import sys; from deployer import cli; end = cli.main({words!r}); assert end == 0; {SOLVER}"
        run = subprocess.run([sys.executable, "-c", text], check=False, cwd=ROOT, capture_output=True, text=True)
        assert (run.returncode == 0) == solver_free, run.stdout + run.stderr
        assert "Errors: 0 out of" in run.stdout
