"""Names and the bill of materials of a library."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import deployer
from deployer.core.errors import OptionProblem
from deployer.core.files.bill import LICENCE, Component, bill, file_components, licences
from deployer.core.files.reading import own_toml
from deployer.core.ir import GraphNames
from deployer.core.safe_text import CText, c_suffix, code, identifier, is_identifier

# Name of a library: its header, the prefix of its symbols, its targets in build files.

LONGEST = 24
"""Most characters: names of functions stay within the 31 that C tells apart."""
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@cache
def reserved() -> dict[str, list[str]]:
    """Names that are taken, by the kind of what has them."""
    return own_toml(Path(__file__).parent / "names.toml")


def check_name(name: str) -> CText:
    """The name; OptionProblem where it cannot be one."""
    hint = f"--name with lower-case letters, digits and single underscores, at most {LONGEST} characters"
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


# The bill of materials of a library: its files with digests and licences, and what they need of others.

BILL = "sbom.cdx.json"
OF_OTHERS = ("weights.bin", "_weights.c", "_samples.h", "manifest.json", "README.md")
"""Ends of the files that hold weights, samples or names of the model, whose licence is not the compiler's to say."""
C_LIBRARY: Component = {
    "type": "library",
    "bom-ref": "c-library",
    "name": "C library",
    "description": "memcpy, memset, strcmp, and fmaf where the processor has it, of the toolchain that builds it",
    "scope": "required",
}


def library_bill(name: str, files: Mapping[str, str | bytes]) -> str:
    """The bill of a library's files, but for the manifest, which has this one's digest, and the bill itself."""
    contents = {
        path: text.encode() if isinstance(text, str) else text
        for path, text in files.items()
        if path not in (BILL, "manifest.json")
    }
    known = {path: LICENCE for path in contents if not path.endswith(OF_OTHERS)}
    whole = {"type": "library", "bom-ref": name, "name": name, "version": deployer.__version__, **licences(LICENCE)}
    return bill(whole, [*file_components(contents, known), C_LIBRARY], ["c-library"])
