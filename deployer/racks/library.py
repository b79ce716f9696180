"""A packaged library as a rack needs it: sources, sizes, inputs with their places in a sample, and its state."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from deployer.codegen.generate import rendered
from deployer.codegen.kernel_headers import C_TYPES
from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.core.files.reading import read_json, real_path
from deployer.core.operator import Array
from deployer.core.safe_text import CText, code, identifier
from deployer.firmware.prediction import OWN

HINT = "package the library again"
ALIGNMENT = 4
"""Bytes to which the places of inputs in a sample are rounded."""
_STATUS = re.compile(r"^    \w+?_(OK|MORE|ERROR_[A-Z]+)\b(?: = 0)?,? +(?:/\* (.*) \*/)?", re.MULTILINE)


@dataclass(frozen=True)
class SampleInput:
    """An input of passes: its name in the model, function, type, shape, and its first byte in a sample."""

    name: str
    function: CText
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class StateTensor:
    """A tensor of the state: its name, type, shape, and its first byte in an image of the state."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    at: int
    is_weight: bool


class RackLibrary:
    """A folder that `deployer package` wrote."""

    def __init__(self, folder: Path) -> None:
        """Read its manifest and header. OptionProblem for a library that only predicts or has a ring of latents."""
        self.folder = real_path(folder)
        manifest = read_json(self.folder / "manifest.json", "no manifest of a library", HINT)
        self.name = str(manifest["name"])
        if "accumulate" not in manifest:
            raise OptionProblem(f"library {self.name} only predicts", hint="package a training case")
        if "replay" in manifest:
            cause = f"library {self.name} trains on latents from a ring, and a rack gives samples"
            raise OptionProblem(cause, hint="package it without --latent-replay")
        self.struct_bytes = int(manifest["bytes"]["struct"])
        self.accumulate = int(manifest["accumulate"])
        self.header = (self.folder / "include" / f"{self.name}.h").read_text()
        self.groups = self._number("RATES", 0)
        self.state_bytes = self._number("STATE_BYTES")
        self.inputs, self.sample_bytes = _inputs(self.name, self.header, manifest["inputs"])
        self.state = tuple(
            StateTensor(row["name"], row["type"], tuple(row["shape"]), row["at"], row["weight"])
            for row in manifest["state"]
        )

    def _number(self, name: str, default: int | None = None) -> int:
        """A constant of the header."""
        found = re.search(rf"^#define {self.name.upper()}_{name} (\d+)u", self.header, re.MULTILINE)
        if found is None and default is not None:
            return default
        if found is None:
            raise DatasetMismatch(f"the header of library {self.name} has no {name}", hint=HINT)
        return int(found[1])

    @cached_property
    def statuses(self) -> tuple[tuple[str, str], ...]:
        """Names and meanings of results, by their numbers."""
        listed = self.header[self.header.index("typedef enum {") :].partition("}")[0]
        return tuple((found[1], found[2] or "") for found in _STATUS.finditer(listed))

    @property
    def sources(self) -> list[Path]:
        """C files but that of the steps, which the rack's own source includes; those of constants come last."""
        found = sorted((self.folder / "src").glob("*.c"))
        own = [path for path in found if path.stem != self.name]
        return sorted(own, key=lambda path: path.stem == f"{self.name}_weights")

    def glue(self) -> str:
        """The header that tells the rack's source the library's names and inputs."""
        return rendered("racks/library.h", _View(self))

    def packed(self, samples: Mapping[str, Array]) -> bytes:
        """Samples one behind the other, from an array per input with a first axis of samples.

        DatasetMismatch for other inputs, types or shapes.
        """
        names = {row.name for row in self.inputs}
        if samples.keys() != names:
            facts = [("expected", ", ".join(sorted(names))), ("found", ", ".join(sorted(samples)) or "none")]
            raise DatasetMismatch("these are not the inputs of the library", facts, "an array per input")
        count = len(next(iter(samples.values())))
        records = np.zeros((count, self.sample_bytes), np.uint8)
        for row in self.inputs:
            array = np.ascontiguousarray(samples[row.name])
            if array.shape != (count, *row.shape) or array.dtype != row.dtype:
                facts = [("expected", f"{row.name} {row.dtype}{[count, *row.shape]}")]
                facts += [("found", f"{array.dtype}{list(array.shape)}")]
                raise DatasetMismatch("samples do not have the shape of an input", facts, "arrays of this shape")
            content = array.reshape(count, -1).view(np.uint8)
            records[:, row.offset : row.offset + content.shape[1]] = content
        return records.tobytes()

    def tensors(self, image: bytes) -> dict[str, Array]:
        """The weights in an image of the state, by name."""
        return {
            row.name: np.frombuffer(image, row.dtype, int(np.prod(row.shape, dtype=np.int64)), row.at).reshape(
                row.shape
            )
            for row in self.state
            if row.is_weight
        }


class _View:
    """All that the template prints."""

    def __init__(self, library: RackLibrary) -> None:
        self.name, self.upper = identifier(library.name), identifier(library.name.upper())
        self.groups, self.sample_bytes = library.groups, library.sample_bytes
        rows = (f"TAKE({C_TYPES[x.dtype]}, {x.function}, {x.offset}u, {x.size}u)" for x in library.inputs)
        self.takes = code(" ".join(rows))


def _inputs(name: str, header: str, described: Sequence[Mapping[str, Any]]) -> tuple[tuple[SampleInput, ...], int]:
    """The inputs of passes, and the bytes of a sample."""
    functions = re.findall(rf"^\w+ \*{name}_(input_\w+)\({name}_t \*model\);", header, re.MULTILINE)
    rows, at = list[SampleInput](), 0
    for function, row in zip(functions, described, strict=True):
        if row["name"].startswith(tuple(OWN.values())):
            continue
        found = SampleInput(row["name"], identifier(function), row["type"], tuple(row["shape"]), at)
        rows.append(found)
        at += -(-found.size * np.dtype(found.dtype).itemsize // ALIGNMENT) * ALIGNMENT
    return tuple(rows), at
