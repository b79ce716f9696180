"""The bill of materials of a library: its files with digests and licences, and what they need of others."""

from collections.abc import Mapping

import deployer
from deployer.core.files.bill import LICENCE, Part, bill, file_parts, licences

BILL = "sbom.cdx.json"
OF_OTHERS = ("weights.bin", "_weights.c", "_samples.h", "manifest.json", "README.md")
"""Ends of the files that hold weights, samples or names of the model, whose licence is not the compiler's to say."""
C_LIBRARY: Part = {
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
    return bill(whole, [*file_parts(contents, known), C_LIBRARY], ["c-library"])
