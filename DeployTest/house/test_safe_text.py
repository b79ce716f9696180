"""Safe text: the kinds of text that may be printed at each place, and a search of the source for bypasses."""

import ast
import io
import json
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mako.template import Template
from rich.table import Table

import deployer
import deployer.tilers
from deployer.codegen.generate import TEMPLATES
from deployer.core import safe_text
from deployer.core.safe_text import (
    TEMPLATE_OPTIONS,
    CText,
    c_comment,
    c_string,
    c_suffix,
    code,
    identifier,
    is_identifier,
)
from deployer.running.terminal import Terminal
from DeployTest.commands.hostile_names import PIECES, UNPRINTABLE
from DeployTest.house.test_layout import nodes

pytestmark = pytest.mark.host
HOSTILE = PIECES | UNPRINTABLE
ORDINARY = ["fc1_weight", "encoder.0+encoder.0_relu", "/model/layers.0/Gemm", "a:0", "x[3]", "w@1", "l1 norm (a, b)?"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=8), inner, max_size=8),
    max_leaves=60,
)


@given(JSON, st.integers(1, 90))
@settings(deadline=None)
def test_folded_json(value: object, width: int) -> None:
    """It is read back as it was, and is on one line where it fits; lines of several values are no longer than that."""
    text = safe_text.folded_json(value, width)
    assert json.loads(text) == value
    assert text.isascii()
    if '"' not in text:
        assert all(len(line) <= width for line in text.split("\n") if ", " in line)
    whole = json.dumps(value, separators=(", ", ":")) + "\n"
    assert (text == whole) == (len(whole) <= width or not isinstance(value, list | dict) or not value)


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_names_stay(name: str) -> None:
    assert c_comment(name) == c_string(name) == safe_text.one_line(name) == safe_text.member_name(name) == name


@pytest.mark.parametrize("piece", HOSTILE)
def test_archive_and_toml(piece: str) -> None:
    """A member's name stays inside; TOML is read back as it was, but for surrogates, which it has not."""
    name = HOSTILE[piece]
    member = safe_text.member_name(name)
    assert member.isprintable()
    assert len(member) < 1100
    assert ".." not in re.split(r"[/\\]", member)
    read = tomllib.loads(f"{safe_text.toml_comment(name)}\na = {safe_text.toml_string(name)}\n")
    assert read == {"a": name.encode("utf-8", "replace").decode() if piece != "lone surrogates" else "a\ufffd\ufffdb"}


def test_members_stay_different() -> None:
    names = [
        *HOSTILE.values(),
        "a\n",
        "a\\x0a",
        "..",
        "../..",
        "__",
        *(safe_text.member_name(x) for x in HOSTILE.values()),
    ]
    assert len({safe_text.member_name(n) for n in set(names)}) >= len({*HOSTILE.values()}) + 5


@pytest.mark.parametrize("text", ["", "1a", "a b", "a-b", "größe", "int", "_a", "a\n", "a*/", "../a", "a@b", "x" * 300])
def test_no_identifier(text: str) -> None:
    assert not is_identifier(text)
    with pytest.raises(ValueError, match="is not an identifier of C"):
        identifier(text)


@pytest.mark.parametrize("piece", HOSTILE)
def test_suffix_makes_identifiers(piece: str) -> None:
    assert is_identifier(f"H_{c_suffix(HOSTILE[piece])}")


@pytest.mark.parametrize(
    "text",
    [
        "a */ b",
        "/* b",
        "/* x */",
        "// b",
        '"a',
        'x("/* y")',
        "#error",
        "a\\",
        "??/",
        "a\tb",
        "größe",
        "'a'",
        "12@x",
        "a\r",
        "$a",
    ],
)
def test_no_code(text: str) -> None:
    with pytest.raises(ValueError, match="not code of the deployer's own"):
        code(text)


@pytest.mark.parametrize(
    "text",
    ["a = b * c / 2;", "x = 0x1p-3f /* 0.125 */;", '_Static_assert(a <= 2, "L1 is full");', "#define A \\\n    b"],
)
def test_code(text: str) -> None:
    assert code(text) == text


def test_templates_print_nothing_raw() -> None:
    """A field that nobody made safe ends the compilation, whatever it holds; a filter cannot be left out."""
    template = Template("a = ${x};", **TEMPLATE_OPTIONS)
    assert template.render(x=CText("b")) == "a = b;"
    assert template.render(x=3) == "a = 3;"
    for raw in ("b", f"{CText('b')}c", None, 1.5, ["b"]):
        with pytest.raises(TypeError, match="not made safe"):
            template.render(x=raw)


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.mako")), ids=lambda path: path.name)
def test_templates_have_no_way_around(path: Path) -> None:
    """No filter of their own, no Python, no page settings: only loops, definitions and insertions."""
    text = path.read_text()
    assert not re.search(r"\$\{[^}|]*\|(?!\|)[^}]*\}", text), "an insertion with a filter of its own"
    assert not re.search(r"<%(?!def name=|/def|def )", text.replace("</%def>", "")), "Python, or settings of a page"
    assert "context.write" not in text


SOURCE = Path(deployer.__file__).parent
KEEPERS = {
    "CText": {"safe_text.py"},
    "Console": set[str](),
    "json.dumps": {"safe_text.py", "artefact.py"},
    "html.escape": {"safe_text.py"},
    "np.savez": set[str](),
}
"""Who alone may call what: one module makes safe text, JSON and HTML, and every console is a Terminal."""


@cache
def calls() -> list[tuple[str, str, ast.Call]]:
    """(file, function, call) of every call in the compiler and the tilers."""
    paths = sorted([*SOURCE.rglob("*.py"), *Path(deployer.tilers.__file__).parent.rglob("*.py")])
    found = [(path.name, node) for path in paths for node in nodes(path)]
    return [(file, ast.unparse(node.func), node) for file, node in found if isinstance(node, ast.Call)]


@pytest.mark.parametrize("name", KEEPERS)
def test_one_place_for_each(name: str) -> None:
    files = {file for file, called, _ in calls() if called == name}
    assert files == KEEPERS[name], f"{name} is called in {files}: print through safe_text"


def test_every_template_is_guarded() -> None:
    """Every template is created with the options that refuse raw text."""
    templates = [(file, call) for file, name, call in calls() if name in ("Template", "TemplateLookup")]
    assert {file for file, _ in templates} == {"generate.py", "measure.py"}
    for file, call in templates:
        stars = [ast.unparse(k.value) for k in call.keywords if k.arg is None]
        assert stars == ["TEMPLATE_OPTIONS"], f"{file}: a template without TEMPLATE_OPTIONS"


@pytest.mark.parametrize("piece", HOSTILE)
def test_terminal(piece: str) -> None:
    """A text is one line and a cell one cell: no markup, no emoji, no escape sequence."""
    text, sink = HOSTILE[piece][:200], io.StringIO()
    console = Terminal(width=2000)
    console.file = sink
    console.print(text, style="bold red", soft_wrap=True)
    table = Table(box=None)
    table.add_column("name")
    table.add_row(text)
    console.print(table)
    output = sink.getvalue()
    assert len(output.split("\n")) == 4
    assert all(line.isprintable() for line in output.split("\n"))
    if text.isprintable():
        assert output.split("\n")[0] == text
