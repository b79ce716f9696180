"""A library in its folder: generated, measured for a core, compiled on this machine, and written."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from deployer.core.files.reading import read_json
from deployer.core.operator import Array
from deployer.firmware.library import Material, library_files
from deployer.firmware.model_library import ModelMaterial, model_files
from deployer.running import output
from deployer.sizing.boards import Core
from deployer.sizing.fits import with_sizes
from deployer.sizing.library_call import LibraryCall
from deployer.sizing.objects import compile_here

MANIFEST = "manifest.json"
Status = Callable[[str], AbstractContextManager[object]]
SIZES = 'library.manifest["bytes"]; with core=..., library.manifest["core"] has its code and stack'
"""Places of a library's sizes, by the names of attributes that other tools have."""


@dataclass(frozen=True)
class Library:
    """A library that was written: its folder, its files, and the compiler that has compiled it, if one has."""

    folder: Path
    name: str
    files: tuple[str, ...]
    compiler: str = ""

    @property
    def manifest(self) -> dict[str, Any]:
        """Content of manifest.json: sizes in bytes, tensors, code and stack of a core, digests of files."""
        return dict(read_json(self.folder / MANIFEST, "no manifest of a library", "package the library again"))

    @cached_property
    def _call(self) -> LibraryCall:
        return LibraryCall(self.folder, self.name)

    def predict(self, *inputs: Any) -> Array:
        """The prediction of the library's C on this machine, for arrays of one or several predictions.

        The sources in the folder are compiled for this process at the first call, with the weights that the library
        begins with. DatasetMismatch for arrays of other shapes.
        """
        return self._call.predict(inputs)

    def __getattr__(self, name: str) -> Any:
        """AttributeError with the place of the sizes."""
        hint = "" if name.startswith("_") else f"; try {SIZES}"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __str__(self) -> str:
        """A line for a person."""
        tried = f", compiled with {self.compiler}" if self.compiler else ""
        return f"{self.folder}: library {self.name}, {len(self.files)} files{tried}; see README.md"


def write_library(
    made: Material | ModelMaterial,
    folder: Path,
    core: Core | None = None,
    compiled: bool = True,
    force: bool = False,
    status: Status = lambda text: nullcontext(),
    python: bool = False,
) -> Library:
    """Write a library to a folder, with sizes for a `core`; it is `compiled` before that.

    With `python` it has a module of Python, too, which `check_module` has allowed.

    ToolMissing without a compiler, ToolFailed where it does not compile it, OptionProblem where the folder has files
    that something else wrote, unless `force` says to replace them.
    """
    made = replace(made, python=python)
    files = model_files(made) if isinstance(made, ModelMaterial) else library_files(made)
    if core:
        files = with_sizes(files, made.name, core)
    compiler = ""
    if compiled:
        with status("compile"):
            compiler = compile_here(files, made.name)
    with output.opened(folder, files, force):
        output.write(folder, files, force)
        output.discard(folder, set(output.listed(folder)) - files.keys())
    return Library(folder, made.name, tuple(sorted(files)), compiler)
