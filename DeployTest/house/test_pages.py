"""Names in the documentation: paths, modules, imports and attributes that pages speak of exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.core.operator import Operator
from deployer.core.traits.training import Loss, Optimizer
from deployer.operators.base.elementwise_dsl import BroadcastElementwise
from deployer.operators.update import optimizers
from DeployTest.house.test_layout import MAPPED, ROOT, files

pytestmark = [pytest.mark.host]
PAGES = [p.relative_to(ROOT) for p in files() if p.suffix == ".md" and "node_modules" not in p.parts]
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"deployer(?:\.\w+)+")
DOCUMENTED = re.compile(r"^\.\. auto\w+:: (deployer[\w.]+)", re.MULTILINE)
PATH = re.compile(r"[\w.<>*-]+(?:/[\w.<>*-]+)*/?")
PARTS = {
    "operator.md": (BroadcastElementwise,),
    "kernel.md": (Operator,),
    "optimizer.md": (optimizers.WeightUpdate, Optimizer, optimizers),
    "loss.md": (Operator, Loss),
}
"""The classes whose parts a how-to lists in the first column of a table."""


def _prose(text: str) -> str:
    return FENCE.sub("", text)


def _tree() -> set[str]:
    names = {str(path.relative_to(ROOT)) for path in files()}
    return names | {str(parent) for name in names for parent in Path(name).parents}


def _rooms() -> set[str]:
    """Folders that a path on a page begins with: those at the top, and the rooms of the packages."""
    tops = {path.relative_to(ROOT).parts[0] for path in files() if len(path.relative_to(ROOT).parts) > 1}
    inner = {path.relative_to(ROOT).parts[1:] for path in files() if path.relative_to(ROOT).parts[0] == "deployer"}
    return tops | {parts[0] for parts in inner if len(parts) > 1}


WRITTEN = ("examples/main.c", "NAME", "FILE", "SYMBOL")
"""Parts of paths of files that the product or a reader writes."""
FILES = (".py", ".toml")
"""Ends of names that are those of a file of the project, with or without its folder."""


def missing_paths(text: str) -> list[str]:
    """Paths in a page's prose that are in no folder of the project. `<room>` and `*` stand for any name."""
    tree, rooms, missing = _tree(), _rooms(), []
    shown = set(re.findall(r"^`([\w/.]+)`:$", text, re.MULTILINE))
    for word in (word for quoted in CODE.findall(_prose(text)) for word in quoted.split()):
        word = word.strip(",:;()")
        first, is_path = word.split("/")[0], PATH.fullmatch(word) and ("/" in word or word.endswith(FILES))
        if (
            not is_path
            or word in shown
            or any(part in word for part in WRITTEN)
            or not (first in rooms or word.endswith(FILES))
        ):
            continue
        pattern = re.escape(word.rstrip("/").removeprefix("./"))
        pattern = re.sub(r"<\w+>|\\\*", "[^/]+", pattern)
        if not any(re.search(rf"(?:^|/){pattern}$", name) for name in tree):
            missing.append(word)
    return missing


def _bound(tree: ast.Module) -> set[str]:
    """Names that a module defines or imports, and those that it hands on lazily, which are keys of a dictionary."""
    bound = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name) | ast.FunctionDef(name) | ast.Name(name, ast.Store()):
                bound.add(name)
            case ast.ImportFrom() | ast.Import():
                bound |= {alias.asname or alias.name for alias in node.names}
            case ast.Dict():
                bound |= {key.value for key in node.keys if isinstance(key, ast.Constant)}
    return bound


def _source(parts: list[str]) -> Path | None:
    """The file of a module, which is not imported: it may need PyTorch."""
    inner = parts[1:] if parts[1:2] and parts[1] in MAPPED else parts
    place = ROOT.joinpath(*inner)
    return next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()), None)


def _exists(name: str) -> bool:
    """Whether a dotted name is a module of the package, or something that one of them defines."""
    *parts, last = name.split(".")
    if _source([*parts, last]):
        return True
    source = _source(parts)
    return source is not None and last in _bound(ast.parse(source.read_text()))


def missing_names(text: str) -> list[str]:
    """Modules and their contents that a page names in prose and that do not exist."""
    named = [name for quoted in CODE.findall(_prose(text)) for name in NAME.findall(quoted)]
    return [name for name in (*named, *DOCUMENTED.findall(text)) if not _exists(name)]


def _imports(text: str) -> Iterator[str]:
    for language, block in FENCE.findall(text):
        if language == "python":
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "deployer":
                    yield from (f"{node.module}.{alias.name}" for alias in node.names)
                elif isinstance(node, ast.Import):
                    yield from (a.name for a in node.names if a.name.split(".")[0] == "deployer")


def missing_imports(text: str) -> list[str]:
    """Imports from the package in a page's programs that fail."""
    return [name for name in _imports(text) if not _exists(name)]


def missing_parts(text: str, *owners: object) -> list[str]:
    """Names in the first column of a page's tables that none of these has."""
    cells = re.findall(r"^\| (`[^|]*) \|", _prose(text), re.MULTILINE)
    names = [re.match(r"\w+", quoted) for cell in cells for quoted in CODE.findall(cell)]
    fields = {field for owner in owners for field in (*dir(owner), *getattr(owner, "__annotations__", ()))}
    known = fields | {owner.__name__ for owner in owners if isinstance(owner, type)}
    return [found[0] for found in names if found and found[0] not in known]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_names_exist(page: Path) -> None:
    """Paths, modules and imports of a page."""
    text = (ROOT / page).read_text()
    assert missing_paths(text) == []
    assert missing_names(text) == []
    assert missing_imports(text) == []


@pytest.mark.parametrize("page", PARTS)
def test_parts_exist(page: str) -> None:
    """The parts that a how-to has a reader write are parts of the class that it speaks of."""
    assert missing_parts((ROOT / "docs/how-to" / page).read_text(), *PARTS[page]) == []


def test_rooms_are_listed() -> None:
    """The architecture's table of packages names folders that exist, and every room of the package."""
    table = (ROOT / "docs/architecture.md").read_text().partition("\n## Packages\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    named = [word.rstrip("/") for row in rows for word in CODE.findall(row) if "<" not in word]
    rooms = {path.parent.name for path in (ROOT / "deployer").glob("*/__init__.py")}
    assert rooms - {word.split("/")[0] for row in rows for word in CODE.findall(row)} == set()
    places = [list(ROOT.glob(f"deployer/**/{word}/")) or [ROOT / "deployer" / word] for word in named]
    assert [word for word, found in zip(named, places, strict=True) if not found[0].resolve().is_dir()] == []


PATHS = (
    "`deployer/core/plan.py`, `core/cost.py`, `sgd.py`, `targets/host.toml`, `deployer/operators/<room>/`, "
    "`core/none/`, `variants.toml`, `specializations.toml`, `--board FILE.toml`"
)
HIDDEN = "```text\n`deployer/none.py`\n```\n`out/none` and `deployer/*/none.py`\n"
NAMES = "`deployer.core.forms` `deployer.core.plan` `deployer.core.plan.Plan` `deployer.core.plan.Pln`"
BLOCK = "```python\nfrom deployer.core.signatures import Form, Signature\nimport deployer.rates\n```\n"


def test_what_is_missing_is_found() -> None:
    """Each of the searches finds what does not exist, and passes over what does."""
    assert missing_paths(f"{PATHS}\n`lab/sgd.py`:\n") == ["sgd.py", "core/none/", "specializations.toml"]
    assert missing_paths(HIDDEN) == ["deployer/*/none.py"]
    assert missing_names(NAMES) == ["deployer.core.forms", "deployer.core.plan.Pln"]
    assert missing_names(".. autoclass:: deployer.core.plan.Plans\n") == ["deployer.core.plan.Plans"]
    assert missing_imports(BLOCK) == ["deployer.core.signatures.Form", "deployer.rates"]
    assert missing_parts("| `kinks` | a |\n| `training`, `Sgd(x)` | b |\n", Operator) == ["kinks", "Sgd"]
    assert set(MAPPED) <= _rooms()
