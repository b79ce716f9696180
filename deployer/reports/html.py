"""Pages as sections: the frame of a page that works offline and without scripts, its style, tables and legends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deployer.core.safe_text import html_text

LIGHT = (
    "--paper:#fff;--ink:#1b1f24;--soft:#59636e;--grid:#d9dee3;--good:#1a7f37;--bad:#c1121f;--odd:#9a5b00;"
    "--c0:#3b6ea8;--c1:#d9730d;--c2:#3f8f46;--c3:#9b5fa5;--c4:#9aa3ad;--heat:59 110 168"
)
DARK = (
    "--paper:#14181d;--ink:#e3e8ee;--soft:#9aa6b2;--grid:#333b45;--good:#5ecb7a;--bad:#ff7b7b;--odd:#e8b04a;"
    "--c0:#6ea8e6;--c1:#f0a050;--c2:#6cc173;--c3:#c792d3;--c4:#75808c;--heat:110 168 230"
)
COLOURS = 5
"""Classes c0 to c4 colour what is drawn."""
STYLE = (
    f""".deployer{{color-scheme:light dark;{LIGHT};color:var(--ink);background:var(--paper);
font:15px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}}
@media(prefers-color-scheme:dark){{.deployer{{{DARK}}}}}
body.deployer{{margin:0}}body.deployer main{{margin:0 auto;max-width:1080px;padding:16px}}
.deployer h1{{font-size:26px;line-height:1.25;margin:.2em 0}}.deployer h2{{font-size:20px;margin:1.8em 0 .4em}}
.deployer h3{{font-size:16px;margin:1.2em 0 .3em}}.deployer p{{margin:.4em 0}}.deployer .soft{{color:var(--soft)}}
.deployer .passed{{color:var(--good)}}.deployer .failed{{color:var(--bad)}}
.deployer .explained,.deployer .unchecked{{color:var(--odd)}}
.deployer dl{{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:2px 16px;margin:.8em 0}}
.deployer dt{{color:var(--soft)}}.deployer dd{{margin:0}}
.deployer .code{{font-family:ui-monospace,monospace;font-size:13px}}
.deployer .key span{{margin-right:1em;display:inline-block}}.deployer .key b{{margin-right:.3em}}
.deployer .wide{{overflow-x:auto}}.deployer .tall{{max-height:640px;overflow-y:auto}}
.deployer table{{border-collapse:collapse;font-size:13px;white-space:nowrap;background:none}}
.deployer td,.deployer th{{padding:3px 10px;text-align:right;border-bottom:1px solid var(--grid)}}
.deployer .left{{text-align:left}}
.deployer td.heat{{background:rgb(var(--heat)/var(--share));text-align:center;min-width:22px}}
.deployer td.strong{{color:var(--paper)}}.deployer summary{{cursor:pointer;color:var(--soft);margin:.5em 0}}
.deployer .frame{{display:grid;grid-template-columns:64px minmax(0,1fr);padding-right:24px}}
.deployer .named{{grid-template-columns:230px minmax(0,1fr)}}
.deployer svg{{display:block;overflow:hidden}}.deployer svg.open{{overflow:visible}}
.deployer text{{font:12px system-ui,sans-serif;fill:var(--ink)}}.deployer .scale text{{fill:var(--soft)}}
.deployer text.axis{{fill:var(--soft)}}.deployer text.on{{fill:var(--paper)}}
.deployer .line{{fill:none;stroke-width:2;vector-effect:non-scaling-stroke}}.deployer .grid{{stroke:var(--grid)}}
.deployer .limit{{stroke:var(--bad);stroke-dasharray:6 3;stroke-width:1.5}}
.deployer .roof{{stroke:var(--ink);stroke-width:1.5}}
.deployer .buffer{{stroke:var(--paper);stroke-width:.5}}
"""
    + "".join(
        f".deployer .c{i}{{fill:var(--c{i});stroke:none}}.deployer .line.c{i}{{fill:none;stroke:var(--c{i})}}"
        f".deployer b.c{i}{{color:var(--c{i})}}"
        for i in range(COLOURS)
    )
    + (
        ".deployer b.bad{color:var(--bad)}"
        "@media(max-width:700px){.deployer .frame{padding-right:12px}"
        ".deployer .named{grid-template-columns:124px minmax(0,1fr)}"
        ".deployer dl{gap:2px 10px;font-size:14px}.deployer h1{font-size:21px}"
        ".deployer td,.deployer th{padding:3px 6px}.deployer table{font-size:12px}"
        ".deployer .confusion td,.deployer .confusion th"
        "{padding:3px 2px}}"
    )
)
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
