"""Library folder with the size of its code on a core: in the manifest by function, on the page in total."""

import hashlib
from typing import Any

from deployer.core.files.reading import parse_json
from deployer.core.safe_text import json_text
from deployer.firmware.parts import BILL, library_bill
from deployer.sizing.boards import Core
from deployer.sizing.objects import Files, Objects, compile_library

MANIFEST, PAGE = "manifest.json", "README.md"
SECTIONS = ("text", "data", "bss")


def with_sizes(files: Files, name: str, core: Core) -> dict[str, str | bytes]:
    """The files with sizes of the core's compiler; ToolMissing without it.

    The same compiler gives the same bytes; another version may give others, so that it is named.
    """
    built = compile_library(files, name, core)
    page = f"{str(files[PAGE]).rstrip()}\n\n{_section(built)}"
    manifest: dict[str, Any] = parse_json(str(files[MANIFEST]))
    manifest["core"] = _record(built)
    manifest["files"][PAGE] = hashlib.sha256(page.encode()).hexdigest()
    materials = library_bill(name, {**files, PAGE: page})
    manifest["files"][BILL] = hashlib.sha256(materials.encode()).hexdigest()
    return {**files, PAGE: page, BILL: materials, MANIFEST: json_text(manifest)}


def _record(built: Objects) -> dict[str, object]:
    rows = {symbol: dict(zip(SECTIONS, row, strict=True)) for symbol, row in sorted(built.functions.items())}
    stack = built.stack
    bound = {"unbounded": stack.unbounded} if stack.unbounded else {"bytes": stack.bytes, "chain": list(stack.chain)}
    return {
        "name": built.core.name,
        "compiler": built.version,
        "flags": list(built.core.flags),
        **{section: built.total(place) for place, section in enumerate(SECTIONS)},
        "stack": {**bound, "outside": list(stack.outside)},
        "functions": rows,
    }


def _section(built: Objects) -> str:
    """The page's part."""
    text, data, bss = (built.total(place) for place in range(len(SECTIONS)))
    stack = built.stack
    deep = f"has no bound: {stack.unbounded}" if stack.unbounded else f"is at most {stack.bytes} B deep"
    names = [f"`{name.rpartition(':')[2]}`" for name in stack.chain]
    chain = f" ({', '.join(names)})" if names else ""
    outside = ", ".join(f"`{name}`" for name in stack.outside) or "nothing"
    return f"""## On a {built.core.name}

{built.core.description}, {built.version}: {text} B of code and constants, {data} B of data,
{bss} B without a first value; by function in `manifest.json`. The stack below the interface {deep}{chain};
frames of others come on top: {outside}.
"""
