"""Pages as sections: the frame of a page that works offline and without scripts, its style, tables and legends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deployer.core.safe_text import html_text

COLOURS = 5
"""Classes c0 to c4 colour what is drawn."""
STYLE = (Path(__file__).parent / "style.css").read_text()
"""Style of all pages; each rule begins with the class of the page, so that a fragment changes nothing around it."""
LEFT = (
    "operator",
    "tile of whole",
    "buffering",
    "worst",
    "verdict",
    "kernel",
    "name",
    "kind",
    "limit",
    "expected",
    "predicted",
)
"""Columns of words."""


@dataclass(frozen=True)
class Section:
    """A part of a page: its heading, and its body in HTML."""

    title: str
    body: str

    @property
    def html(self) -> str:
        """The part with its heading."""
        return f"<section><h2>{html_text(self.title)}</h2>{self.body}</section>"


def page(title: str, top: str, sections: Sequence[Section]) -> str:
    """A whole page; `top` is HTML that stands before the sections."""
    scale = '<meta name="viewport" content="width=device-width,initial-scale=1">'
    head = f'<meta charset="utf-8">{scale}<title>{html_text(title)}</title>\n<style>{STYLE}</style>'
    body = "\n".join([top, *(section.html for section in sections)])
    inner = f'<body class="deployer"><main>{body}</main></body>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n{inner}</html>\n'


def fragment(top: str, sections: Sequence[Section]) -> str:
    """The same for a page of somebody else, such as a notebook."""
    body = "\n".join([top, *(section.html for section in sections)])
    return f'<div class="deployer"><style>{STYLE}</style>{body}</div>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text that scrolls where it is wider than the page."""
    kinds = [' class="left"' if head in LEFT else "" for head in heads]

    def line(tag: str, cells: Sequence[str]) -> str:
        each = (f"<{tag}{kind}>{html_text(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return "<tr>" + "".join(each) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f'<div class="wide"><table>{line("th", heads)}{body}</table></div>'


def folded(summary: str, body: str) -> str:
    """Something that a reader unfolds; it needs no script."""
    return f"<details><summary>{html_text(summary)}</summary>{body}</details>"


def definitions(rows: Sequence[tuple[str, str]]) -> str:
    """A list of facts; a command line is printed as code."""
    kinds = ["code" if label == "Command" else "" for label, _ in rows]
    each = (
        f'<dt>{html_text(label)}</dt><dd class="{kind}">{html_text(text)}</dd>'
        for kind, (label, text) in zip(kinds, rows, strict=True)
    )
    return f"<dl>{''.join(each)}</dl>" if rows else ""


def key(kind: str, name: str) -> str:
    """An entry of a legend; `kind` is the class of a colour."""
    return f'<span><b class="{kind}">&#9632;</b>{html_text(name)}</span>'


def legend(names: Mapping[str, str]) -> str:
    """A line of what colours stand for: names by classes."""
    return f'<p class="key">{" ".join(key(kind, name) for kind, name in names.items())}</p>'


def byte_text(count: float) -> str:
    """A number of bytes with its unit, in powers of 1000."""
    for unit, size in (("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count:.4g} B"


def count_text(count: float) -> str:
    """A large number in short, such as 1.25M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.4g}{unit}"
    return f"{count:.4g}"
