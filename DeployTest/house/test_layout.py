"""Rules of the repository's own shape: packages, names, sizes, docstrings, no traces of a machine."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from deployer.core.level import ALIASES
from deployer.core.operator import registry
from deployer.core.target import load, names
from deployer.kernel_variants.conditions import FOLDER_LIST, listed_kernels
from deployer.operators.base.elementwise_dsl import printed_kernels

pytestmark = [pytest.mark.host]
ROOT = Path(__file__).resolve().parents[2]
LONGEST_FILE, LONGEST_NAME, SHORTEST_FAMILY = 700, 30, 25
DESIGN_WORDS, CHANGELOG_LINES = 6000, 40
LONGER: dict[str, int] = {}
"""Files that may be longer; what is here waits to be divided."""
MAPPED = {"targets": "deployer.targets", "templates": "deployer.templates", "tilers": "deployer.tilers"}
CODE = (".py", ".c", ".h", ".S", ".mako")


@cache
def files() -> list[Path]:
    """Files of the project: what git would commit, or, without git, all but built things."""
    words = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, capture_output=True, text=True, check=False)
    tracked = [ROOT / name for name in listed.stdout.splitlines()]
    paths = list(ROOT.rglob("*")) if listed.returncode else tracked
    skipped = {".venv", "out", "build", "__pycache__", ".git", ".hypothesis"}
    return sorted(p for p in paths if p.is_file() and not skipped & set(p.relative_to(ROOT).parts))


def code(*folders: str) -> list[Path]:
    """Code below some top-level folders."""
    return [p for p in files() if p.suffix in CODE and p.relative_to(ROOT).parts[0] in folders]


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a module of Python, the module first: several rules look at each file."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def project() -> dict[str, dict[str, object]]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_packages_are_listed() -> None:
    """setuptools' list is the folders with an __init__.py, under their import names."""
    tools = project()["tool"]["setuptools"]
    folders = {p.parent.relative_to(ROOT) for p in files() if p.name == "__init__.py"}
    packages = {
        ".".join((MAPPED.get(f.parts[0], f.parts[0]), *f.parts[1:])) for f in folders if f.parts[0] != "DeployTest"
    }
    assert set(tools["packages"]) == packages
    assert tools["package-dir"] == {"deployer": "deployer", **{name: folder for folder, name in MAPPED.items()}}
    assert tools["include-package-data"] is False


def test_dependencies_are_used() -> None:
    """Installed dependencies and extras for users are imported somewhere, and nothing else except Python's own."""
    extras = project()["project"]["optional-dependencies"]
    listed = [
        *project()["project"]["dependencies"],
        *(text for name in extras if name != "dev" for text in extras[name]),
    ]
    requirements = {re.split(r"[<>=]", text)[0] for text in listed}
    modules = {{"protobuf": "google", "pillow": "PIL"}.get(name, name.replace("-", "_")) for name in requirements}
    imports: set[str] = set()
    for path in [p for p in code("deployer", "tilers", "targets", "templates") if p.suffix == ".py"]:
        for node in nodes(path):
            imports |= {a.name.split(".")[0] for a in node.names} if isinstance(node, ast.Import) else set()
            imports |= (
                {(node.module or "").split(".")[0]} if isinstance(node, ast.ImportFrom) and not node.level else set()
            )
    assert imports - set(sys.stdlib_module_names) - {"deployer"} == modules


def test_package_data_is_listed() -> None:
    """Every file of the packages that is not Python goes into the wheel."""
    data = project()["tool"]["setuptools"]["package-data"]
    for path in files():
        folder, *rest = path.relative_to(ROOT).parts
        if folder in MAPPED and path.suffix != ".py":
            inner = Path(*rest)
            patterns = [p.removeprefix("**/") for p in data[MAPPED[folder]]]
            assert any(inner.match(p) for p in patterns), f"{folder}/{inner} is in no pattern of package-data"


def test_second_copies_are_banned() -> None:
    """The mapped folders are imported by one name; ruff refuses the other."""
    assert set(MAPPED) <= set(project()["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"])
    for path in [p for p in files() if p.suffix == ".py"]:
        for node in nodes(path):
            imports = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            imports += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not {name.split(".")[0] for name in imports} & set(MAPPED), path


def test_no_target_is_named() -> None:
    """Python and templates do not know which targets there are.

    One is named: `host`, as the default of `-p` and `Options` and in a hint, because it alone runs everywhere.
    """
    default = {"deployer/commands/run_options.py": 1, "deployer/core/plan.py": 1, "deployer/running/build.py": 1}
    others = re.compile("|".join(rf"\b{name}\b" for name in names() if name != "host"))
    for path in code("deployer", "tilers", "templates"):
        place, text = str(path.relative_to(ROOT)), path.read_text()
        assert not others.search(text), f"{place} names target {others.findall(text)}"
        if path.suffix == ".py":
            literals = [s for s in strings(text) if s == "host" or "-p host" in s]
            assert len(literals) <= default.get(place, 0), f"{place} names target host: {literals}"


def test_no_level_is_named() -> None:
    """Python and templates know no level by name, nor by a bare number.

    Two names are options of the command line, and one is part of a strategy's name, which is known from outside. The
    distance of that name, and what is smooth near zero, are losses.
    """
    level_names = sorted({level.name for name in names() for level in load(name).levels})
    mention = re.compile(rf"(?<![a-z0-9])({'|'.join(level_names)})(?![a-z0-9])", re.IGNORECASE)
    numbered = re.compile(r"\b(levels|hops|gaps|rooms|places|loops)\[\s*:?\s*\d")
    aliases = {"deployer/core/level.py": len(ALIASES)}
    for path in code("deployer", "tilers", "templates"):
        place, text = str(path.relative_to(ROOT)), path.read_text().replace("double_l3", "")
        if place.startswith("deployer/operators/loss/") or place == "deployer/torch/lowerings/layers/losses.py":
            text = re.sub(r"\b(smooth_)?l1(_loss\w*)?\b", "", text)
        matches = mention.findall(text)
        assert len(matches) <= aliases.get(place, 0), f"{place} names levels {matches}"
        assert path.suffix != ".py" or not numbered.search(text), f"{place} numbers a level: {numbered.search(text)}"


def strings(text: str) -> list[str]:
    """String constants of a module without its docstrings."""
    tree = ast.parse(text)
    notes = {id(n.body[0].value) for n in ast.walk(tree) if _documented(n)}
    constants = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in notes]
    return [n.value for n in constants if isinstance(n.value, str)]


def _documented(node: ast.AST) -> bool:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, kinds) and ast.get_docstring(node) is not None


def test_files_are_short() -> None:
    """No file of code beyond 700 lines, goldens aside."""
    for path in code("deployer", "tilers", "templates", "targets", "DeployTest"):
        if "goldens" not in path.parts:
            count = len(path.read_text().splitlines())
            place = str(path.relative_to(ROOT))
            assert count <= LONGER.get(place, LONGEST_FILE), f"{place} has {count} lines"


def definitions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Public functions and classes of a module, and public methods of its classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                inner = [n for n in node.body if isinstance(n, ast.FunctionDef)]
                yield from (n for n in inner if not n.name.startswith("_"))


def test_names_and_docstrings() -> None:
    """Every public function and class says what it is for, under a name of at most 24 characters.

    A class that is an operator has the operator's name, whatever its length.
    """
    operators = set(registry())
    for path in [p for p in code("deployer", "tilers") if p.suffix == ".py"]:
        tree = nodes(path)[0]
        assert isinstance(tree, ast.Module)
        assert ast.get_docstring(tree), f"{path} has no docstring"
        for node in definitions(tree):
            place = f"{path.relative_to(ROOT)}: {node.name}"
            overriding = "operators" in path.parts and isinstance(node, ast.FunctionDef)
            assert overriding or ast.get_docstring(node), f"{place} has no docstring"
            assert len(node.name) <= LONGEST_NAME or node.name in operators or path.name == "samples.py", (
                f"{place} is too long a name"
            )


def test_operators_have_kernels() -> None:
    """A declared kernel has a C file, an entry or a formula of its name; every C file is somebody's kernel."""
    declared = {op.kernel.symbol for op in registry().values() if op.kernel}
    folder = ROOT / "targets/common/kernels"
    common = {*(p.stem for p in folder.glob("*.c")), *listed_kernels(folder)}
    assert declared - set(printed_kernels()) == common
    for override in {*(ROOT / "targets").glob("*/kernels/*")} - {folder / FOLDER_LIST}:
        assert override.stem in declared, f"{override} overrides no kernel"


def test_a_family_is_a_file() -> None:
    """Families have names of their own, and none of their files is a helper of a few lines."""
    root = ROOT / "deployer/operators"
    folders = {p.parent for p in root.rglob("*.py")}
    for folder in folders - {root}:
        assert (folder / "__init__.py").is_file(), folder
    stems = [p.stem for p in root.rglob("*.py") if p.stem not in ("__init__", "samples")]
    assert len(stems) == len(set(stems)), "two families have one name"
    own = {type(op).__module__.rpartition(".")[2] for op in registry().values()}
    others = [p for p in root.rglob("*.py") if p.stem not in {"__init__", *own}]
    short = [p for p in others if len(p.read_text().splitlines()) < SHORTEST_FAMILY]
    assert not short, f"files with no more than a helper: {short}"


def test_templates_decide_nothing() -> None:
    """Templates loop and print: no Mako condition and no Python block."""
    for path in code("templates"):
        text = path.read_text()
        assert not re.search(
            r"^\s*%\s*(if|elif|else|while)\b|<%(?!def|block|page|include|inherit|namespace|text|doc|/)", text, re.M
        )
        assert not re.search(r"\$\{[^}]*\bif\b[^}]*\}", text), f"{path.name} chooses inside an expression"


def test_no_traces_of_a_machine() -> None:
    """No file speaks of paths of the machine it was written on, or of a package index other than the public one."""
    traces = re.compile(
        r"(?<![\w.])/(work|root|home|Users|tmp/\w)/?|https?://[^\s\"')]*(?:artifactory|nexus|mirror|127\.)"
    )
    allowed = {Path(__file__).name, "test_reproducible.py"}
    for path in files():
        if path.suffix in (".npz", ".onnx", ".bin") or path.name in allowed:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            assert not traces.search(line), f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"


def test_design_and_changelog_are_short() -> None:
    """The chapters of the design together, and the changes of a version, are short enough to be read."""
    words = sum(len(path.read_text().split()) for path in (ROOT / "docs/design").glob("*.md"))
    assert words <= DESIGN_WORDS
    text = (ROOT / ".github/CHANGELOG.md").read_text()
    for version in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        assert len(version.strip().splitlines()) <= CHANGELOG_LINES, version.splitlines()[0]
    for line in text.splitlines():
        assert len(line) <= 140, line


def test_changelog_has_sections() -> None:
    """Each version says what was added, what changed and what was fixed, in that order, and nothing besides."""
    text = (ROOT / ".github/CHANGELOG.md").read_text()
    for version in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        before, *sections = re.split(r"^### ", version, flags=re.MULTILINE)
        titles = [section.splitlines()[0] for section in sections]
        assert titles == [title for title in ("Added", "Changed", "Fixed") if title in titles]
        assert titles, before
        assert "\n- " not in before, before
        assert all("\n- " in section for section in sections), titles


def test_each_public_class_has_a_name_of_its_own() -> None:
    """No two modules of the product define a public class of one name."""
    homes: dict[str, list[str]] = {}
    product = [p for p in files() if p.suffix == ".py" and p.relative_to(ROOT).parts[0] in ("deployer", "tilers")]
    for path in product:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert len(homes) > 100
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}
