"""Sphinx configuration of the site: `make docs`."""

import re
import sys
from pathlib import Path
from typing import Any

from sphinx.ext.autodoc.mock import _MockObject

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import deployer  # noqa: E402

project = "deployer"
copyright = "the authors of deployer, Apache-2.0"
release = deployer.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["requirements.txt"]
html_theme = "furo"
html_title = f"deployer {release}"
html_show_sourcelink = False
html_static_path = html_css_files = ["site.css"]
autodoc_mock_imports = ["torch"]
# A stand-in for a type of PyTorch's may be one side of `Tensor | None`, which Sphinx's own does not know.
_MockObject.__or__ = _MockObject.__ror__ = lambda self, other: self  # type: ignore[attr-defined]
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
maximum_signature_line_length = 90
autodoc_member_order = "bysource"
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]
REPOSITORY = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?!(?:(?:how-to|reference|design)/)?[\w-]+\.md\b)([^)#]+)\)")


def _plain(app: object, name: str, source: list[str]) -> None:
    """Paths to files of the repository that are no pages are words of a page, not links."""
    source[0] = REPOSITORY.sub(r"\1 (`\2`)", source[0])


def setup(app: Any) -> None:
    """Register what reads the pages."""
    app.connect("source-read", _plain)
