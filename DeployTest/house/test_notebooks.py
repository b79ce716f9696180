"""Notebooks of the documentation: their files agree, and no picture is left over."""

import json
import re

import pytest

from DeployTest.support.documents.notebooks import FOLDER, cells, executed, notebook, page, scripts, structure

pytestmark = [pytest.mark.host]
SCRIPT = """# %% [markdown]
# # Title
#
# Words.

# %%
import sys

print("one")
1 + 1

# %%
class Picture:
    def _repr_svg_(self):
        return "<svg/>"


Picture()
"""


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.stem)
def test_files_agree(script) -> None:
    """The notebook, and the page but for outputs, are as `make notebooks` would make them of the script."""
    found = cells(script.read_text())
    assert script.with_suffix(".ipynb").read_text() == notebook(found)
    text = script.with_suffix(".md").read_text()
    place = 0
    for cell in found:
        for part in cell.text.split("\n", 1) if not place else [cell.text]:
            at = text.find(part, place)
            assert at >= 0, f"{script.stem}.md lacks, or has elsewhere: {part[:80]!r}"
            place = at + len(part)
    shown = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert shown == [f"{cell.text}\n" for cell in found if not cell.is_prose]
    pictures = {path.name for path in FOLDER.glob(f"{script.stem}-*.svg")}
    assert pictures == set(re.findall(r"^!\[\]\((.*)\)$", text, re.MULTILINE))
    assert pictures


def test_no_file_is_left_over() -> None:
    """Every page and notebook has its script."""
    stems = {path.stem for path in scripts()}
    assert len(stems) >= 3
    assert {path.stem for path in FOLDER.iterdir() if path.suffix in (".md", ".ipynb")} == stems


def test_a_script_is_converted() -> None:
    """Prose, code, printed text, the value of the last line, and a picture."""
    found = cells(SCRIPT)
    assert [cell.is_prose for cell in found] == [True, False, False]
    rows = executed(found, "small.py")
    assert [[(o.kind, o.text) for o in row.outputs] for row in rows] == [
        [],
        [("text", "one"), ("text", "2")],
        [("svg", "<svg/>")],
    ]
    files = page("small", rows)
    assert files["small-1.svg"] == "<svg/>"
    assert files["small.md"].startswith("# Title\n\n*This page")
    assert "```text\none\n```\n\n```text\n2\n```" in files["small.md"]
    content = json.loads(notebook(found))
    assert [cell["cell_type"] for cell in content["cells"]] == ["markdown", "code", "code"]
    assert "".join(content["cells"][1]["source"]) == found[1].text


def test_faults_of_a_script() -> None:
    """Text before the first cell, and prose that is no comment."""
    with pytest.raises(ValueError, match="before the first cell"):
        cells("x = 1\n" + SCRIPT)
    with pytest.raises(ValueError, match="no comment"):
        cells("# %% [markdown]\n# Words\nx = 1\n")


def test_structure() -> None:
    """Numbers and digests may differ between machines; words and lines may not."""
    assert structure("loss 1.25e-07\ndigest 76bea69391a7bb63") == structure("loss 31\ndigest 76bea69391a7bb64")
    assert structure("loss 1") != structure("lose 1")
    assert structure("loss 1") != structure("loss 1\nloss 2")
