"""Name of a library: its header, the prefix of its symbols, its targets in build files."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from deployer.core.errors import OptionProblem
from deployer.core.files.reading import own_toml
from deployer.core.ir import GraphNames
from deployer.core.safe_text import CText, c_suffix, code, identifier, is_identifier

LONGEST = 24
"""Most characters: names of functions stay within the 31 that C tells apart."""
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@cache
def reserved() -> dict[str, list[str]]:
    """Names that are taken, by the kind of what has them."""
    return own_toml(Path(__file__).parent / "names.toml")


def check_name(name: str) -> CText:
    """The name; OptionProblem where it cannot be one."""
    hint = f"--name with small letters, digits and single underscores, at most {LONGEST} characters"
    if not _NAME.fullmatch(name) or len(name) > LONGEST or not is_identifier(name):
        raise OptionProblem(f"--name {name!r} is not a valid library name", hint=hint)
    for kind, words in reserved().items():
        if name in words:
            raise OptionProblem(
                f"--name {name!r} is one of C's, of Windows' or of build tools' {kind}", hint="another name"
            )
    return identifier(name)


def unique(texts: Iterable[str]) -> Iterator[CText]:
    """The texts as ends of identifiers, in small letters, each another one."""
    names = GraphNames(set())
    for text in texts:
        yield code(names.fresh(c_suffix(text).lower()))
