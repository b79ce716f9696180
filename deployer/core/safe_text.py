"""Text from files, made safe for the place it is printed in: C, HTML, JSON, TOML and the terminal.

Names of nodes and tensors, paths, and all else that a file or a command line holds are printed through this module
alone: one function per destination over one cleaning core. What a destination would take for its own syntax, and what
a reader cannot see, becomes an escape like `\\x1b`; ordinary names stay as they are.
"""

import hashlib
import html
import json
import re
from collections.abc import Sequence
from typing import Any

LONGEST = 1000
"""Most characters of one printed text; a longer one loses its middle."""
LONGEST_IDENTIFIER = 200

_KEYWORD = re.compile(
    "auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|inline|int|long|register|"
    "restrict|return|short|signed|sizeof|static|struct|switch|typedef|union|unsigned|void|volatile|while|asm|typeof|main"
)
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,239}")  # with a suffix still the name of a file
_IN_C = re.compile(r"[^ -~]|\\|\*(?=/)|(?<=/)\*|\?(?=\?)")
_IN_STRING = re.compile(rf"{_IN_C.pattern}|'")
_BEYOND_ASCII = re.compile(r"[^ -~]")
_IN_MARKDOWN = re.compile(r"[^ -~]|[`|\\]")
_NOTHING = re.compile(r"(?!)")
_CODE = re.compile(
    r"""(?:\#define\ )?(?:
        [A-Za-z0-9_ +\-%=<>!&|^~?:;,.()\[\]{}\n] # words, numbers, operators: no quotes, no directives
        |\*(?!/)|/(?![*/])                       # of comments only a number is allowed, a float in decimal
        |/\*\ (?:\\\n\ *)?-?[0-9.e+-]+\ (?:\\\n\ *)?\*/
        |"[A-Za-z0-9_\ ]*"
        |\\\n                                    # a macro over several lines
    )*""",
    re.VERBOSE,
)
_TRIGRAPH = re.compile(r"\?\?[=/'()!<>-]")


class CText(str):
    """Text that may stand in a C file as it is. Only this module makes it, and templates print nothing else."""

    __slots__ = ()


def escaped(text: str) -> str:
    """The text with what is not printable as escapes: controls, directions, zero widths, lone surrogates."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _cleaned(text: str, unsafe: re.Pattern[str]) -> str:
    """The text on one line, shortened, with an escape for each character that is unsafe or not printable."""
    return escaped(unsafe.sub(lambda match: _escape(match[0]), shortened(text, LONGEST)))


def shortened(text: str, longest: int) -> str:
    """The text without its middle where it has more characters than `longest`."""
    return text if len(text) <= longest else f"{text[: longest * 2 // 3]} ... {text[-longest // 3 :]}"


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def c_comment(text: str) -> CText:
    """Text inside a C comment: one line of ASCII that neither ends the comment nor continues or begins one."""
    return CText(_cleaned(text, _IN_C))


def c_string(text: str) -> CText:
    """Text between the quotes of a C string; the program prints it in single quotes, so it holds none."""
    return CText(_cleaned(text, _IN_STRING).replace("\\", "\\\\").replace('"', '\\"'))


def c_suffix(text: str) -> CText:
    """A graph's name as the rest of an identifier, upper case: letters and digits of ASCII, anything else `_`."""
    reduced = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_").upper()
    return CText(reduced[:LONGEST_IDENTIFIER] or "UNNAMED")


def parameter_name(text: str) -> str:
    """A trained parameter's name in written graphs: every character but ASCII letters and digits becomes `_`."""
    clean = re.sub(r"[^A-Za-z0-9_]", "_", text[:LONGEST_IDENTIFIER])
    return clean if clean and not clean[0].isdigit() else f"p_{clean}"


def is_identifier(text: str) -> bool:
    """Whether the text is an identifier of C as we write them: ASCII, no keyword, no leading underscore."""
    return bool(_IDENTIFIER.fullmatch(text)) and not _KEYWORD.fullmatch(text)


def identifier(text: str) -> CText:
    """The text, which names something of ours in C (a kernel, an argument, a level); ValueError where it cannot."""
    if not is_identifier(text):
        raise ValueError(f"{text[:LONGEST]!r} is not an identifier of C")
    return CText(text)


def code(text: str) -> CText:
    """A piece of generated C; ValueError where it has characters that only a name without escapes could bring."""
    if not _CODE.fullmatch(text) or _TRIGRAPH.search(text):
        raise ValueError(f"not code of the deployer's own: {text[:LONGEST]!r}")
    return CText(text)


def printed(value: object) -> str:
    """Convert a value for a template: a number, blanks, or text made by this module; raise TypeError otherwise."""
    if isinstance(value, CText | int):
        return str(value)
    if isinstance(value, str) and not value.strip(" "):
        return value
    raise TypeError(f"a template prints {type(value).__name__} {str(value)[:LONGEST]!r}, which is not made safe")


TEMPLATE_OPTIONS: dict[str, Any] = {
    "strict_undefined": True,
    "default_filters": ["printed"],
    "imports": ["from deployer.core.safe_text import printed"],
}
"""Options of every Mako template that prints C."""


def python_string(text: str) -> CText:
    """A string literal of Python, in ASCII; evaluating it gives the text back."""
    return CText(ascii(text))


def html_text(text: str) -> str:
    """Text and attribute values of HTML, in ASCII."""
    return html.escape(_cleaned(text, _NOTHING)).encode("ascii", "xmlcharrefreplace").decode()


def markdown_code(text: str) -> CText:
    """Text between the backquotes of a Markdown page, also in a table: one line of ASCII."""
    return CText(_cleaned(text, _IN_MARKDOWN))


def json_text(value: Any, *, allow_nan: bool = True) -> str:
    """The text of a JSON file, in ASCII; reading it gives every string back."""
    return json.dumps(value, indent=1, allow_nan=allow_nan) + "\n"


def json_line(value: Any) -> str:
    """JSON in one line without spaces, in ASCII: a line of output, the head of a file, what a digest is made of."""
    return json.dumps(value, separators=(",", ":"))


def folded_json(value: Any, width: int = 120) -> str:
    """The same in lines of that width, with as much on each as fits: fewer bytes, and still fit to be edited."""
    return f"{_folded(value, width, 0, 0)}\n"


_SCALAR = json.JSONEncoder(allow_nan=False).encode


def _folded(value: Any, width: int, depth: int, taken: int) -> str:
    """The value behind `taken` characters of a line, on further lines of `depth` spaces and more if it is too long."""
    if isinstance(value, dict):
        keys = [f"{_SCALAR(key)}:" for key in value]
        texts = [
            k + _folded(x, width, depth + 1, depth + 1 + len(k)) for k, x in zip(keys, value.values(), strict=True)
        ]
        first, last = "{}"
    elif isinstance(value, list):
        texts, first, last = [_folded(x, width, depth + 1, depth + 1) for x in value], "[", "]"
    else:
        return _SCALAR(value)
    fits = taken + sum(map(len, texts)) + 2 * len(texts) < width and not any("\n" in text for text in texts)
    if fits or not texts:
        return f"{first}{', '.join(texts)}{last}"
    lines = texts[:1]
    for piece in texts[1:]:
        if depth + len(lines[-1]) + len(piece) + 4 <= width and "\n" not in lines[-1] + piece:
            lines[-1] += f", {piece}"
        else:
            lines.append(piece)
    line = f"\n{' ' * depth}"
    return f"{first}{line} {f',{line} '.join(lines)}{line}{last}"


def toml_string(text: str) -> str:
    """A quoted TOML string, in ASCII; reading it gives the text back, but for surrogates, which TOML has not."""
    lone = re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
    quoted = lone.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _BEYOND_ASCII.sub(lambda match: f"\\U{ord(match[0]):08x}", quoted) + '"'


def toml_comment(text: str) -> str:
    """A TOML comment of one line, in ASCII."""
    return f"# {_cleaned(text, _BEYOND_ASCII)}"


def member_name(text: str) -> str:
    """The name of an archive's member: the text, unless it is too long, cannot be printed or leads out of a folder.

    Then it is made printable, with a digest that keeps different texts different.
    """
    inside = re.sub(r"(?<![^/\\])\.\.(?![^/\\])", "__", text)
    clean = escaped(inside)[:LONGEST]
    if clean == text:
        return text
    return f"{clean}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:16]}"


def one_line(text: str) -> str:
    """A name or a sentence for people, on one line."""
    return _cleaned(text, _NOTHING)


def listed(texts: Sequence[str], most: int = 10) -> str:
    """The first of these texts, and how many there are beyond `most`, on one line."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return one_line(", ".join(texts[:most]) + more)
