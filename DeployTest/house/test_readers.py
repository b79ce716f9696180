"""One discipline of reading: what parses bytes from outside is called in one folder alone, where damage has a name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from DeployTest.house.test_layout import ROOT, code, nodes

pytestmark = [pytest.mark.host]
READERS = ROOT / "deployer" / "core" / "files"
PARSERS = {
    "numpy": {"load", "loadtxt", "genfromtxt", "fromfile", "memmap", "fromregex", "DataSource"},
    "json": {"load", "loads", "JSONDecoder"},
    "tomllib": {"load", "loads"},
    "csv": {"reader", "DictReader"},
    "zipfile": {"Path", "PyZipFile", "is_zipfile"},
    "pickle": {"load", "loads", "Unpickler"},
    "tarfile": {"open", "TarFile"},
    "gzip": {"open", "decompress", "GzipFile"},
    "onnx": {"load", "load_model"},
}
"""Parsers of Python and of libraries, which raise what they like for damaged bytes, by their modules."""
IMPORTED = {"json", "tomllib", "csv", "zipfile", "pickle", "tarfile", "gzip"}


def faults(path: Path) -> Iterator[str]:
    """Calls of parsers, archives opened without a mode to write, and links followed by what raises for circles."""
    alias = {"np": "numpy"}
    for node in nodes(path):
        if isinstance(node, ast.Import):
            alias |= {name.asname or name.name: name.name for name in node.names}
        if isinstance(node, ast.ImportFrom) and node.module in IMPORTED:
            yield f"{node.lineno}: from {node.module} import, so that nobody sees where its parsers are called"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = alias.get(node.value.id, node.value.id)
            if node.attr in PARSERS.get(module, ()):
                yield f"{node.lineno}: {module}.{node.attr}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            words = [*node.args, *(keyword.value for keyword in node.keywords)]
            writes = any(isinstance(word, ast.Constant) and word.value == "w" for word in words)
            if node.func.attr == "ZipFile" and not writes:
                yield f"{node.lineno}: ZipFile"
            if node.func.attr == "resolve" and "__file__" not in ast.unparse(node.func) and not words:
                yield f"{node.lineno}: {ast.unparse(node)} raises for a link to itself, unlike real_path"


def test_parsers_are_called_in_one_folder() -> None:
    """A file from outside is read by the functions of core/files: they refuse what is too large, and name damage."""
    found = [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in code("deployer", "tilers", "targets", "templates")
        if path.suffix == ".py" and READERS not in path.parents
        for fault in faults(path)
    ]
    assert not found, "read by deployer.core.files instead:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "import json\njson.loads(x)",
        "import numpy as np\nnp.load(p)",
        "import tomllib as t\nt.load(f)",
        "from json import loads",
        "import zipfile\nzipfile.ZipFile(p)",
        "import csv\ncsv.reader(f)",
        "path.resolve()",
    ],
)
def test_each_parser_is_seen(text: str, tmp_path: Path) -> None:
    """Each planted breach of the rule is found."""
    path = tmp_path / "x.py"
    path.write_text(text)
    assert len(list(faults(path))) == 1


def test_what_writes_may_be_anywhere(tmp_path: Path) -> None:
    """Writers, and the package's own place."""
    path = tmp_path / "x.py"
    path.write_text(
        "import csv, json, zipfile\njson.dumps(x)\ncsv.writer(f)\nzipfile.ZipFile(p, 'w')\nPath(__file__).resolve()\n"
    )
    assert not list(faults(path))
