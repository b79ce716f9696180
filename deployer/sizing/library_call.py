"""A library in its folder, compiled for this process: what its C predicts."""

import ctypes
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deployer.core import target as targets
from deployer.core.errors import DatasetMismatch, RunFailed
from deployer.core.files.reading import read_json, real_path
from deployer.core.operator import Array
from deployer.firmware.byte_inputs import InputScale
from deployer.firmware.common import library_tools
from deployer.firmware.prediction import FEATURES, OWN, PREDICT, SINGLE
from deployer.firmware.sources import library_rules
from deployer.running.build import compiler
from deployer.sizing.objects import run_tool

HINT = "package the library again"


class LibraryCall:
    """The functions of a library, and a struct that its `NAME_init` has prepared."""

    def __init__(self, folder: Path, name: str) -> None:
        """Compile the sources. ToolMissing and ToolFailed as for a library's test; RunFailed for a wrong machine."""
        manifest = read_json(folder / "manifest.json", "no manifest of a library", HINT)
        rules = library_rules()
        command = compiler(library_tools(targets.load(rules.target)))
        sources = sorted(str(path) for path in (folder / "src").glob("*.c"))
        with tempfile.TemporaryDirectory(prefix="deployer-") as place:
            words = [*command, f"-std=c{rules.standard}", rules.optimize, *rules.flags, "-shared", "-fPIC"]
            links = [f"-l{library}" for library in rules.libraries]
            words += [f"-I{real_path(folder) / 'include'}", *(str(real_path(Path(x))) for x in sources)]
            run_tool([*words, *links, "-o", "library.so"], Path(place))
            self._code = ctypes.CDLL(str(Path(place) / "library.so"))
        self.name, self._struct = name, ctypes.create_string_buffer(manifest["bytes"]["struct"] + 8)
        header = (folder / "include" / f"{name}.h").read_text()
        inputs = re.findall(rf"^\w+ \*({name}_input_\w+)\({name}_t \*model\);", header, re.MULTILINE)
        outputs = re.findall(rf"^const \w+ \*({name}_output\w*)\(const {name}_t \*model\);", header, re.MULTILINE)
        whole = [row for row in manifest["output"] if not row["name"].startswith(OWN[SINGLE])]
        rows = zip(inputs, manifest["inputs"], strict=True), zip(outputs, whole, strict=True)
        named = [(function, row["name"], *_kind(row)) for function, row in rows[0]]
        replay = manifest.get("replay", {})
        others = replay.get("latent"), replay.get("label")
        self.inputs = [
            row for row in named if not row[1].startswith((OWN[SINGLE], OWN[FEATURES])) and row[1] not in others
        ]
        self._scales = {
            row["name"]: InputScale(np.float32(row["scale"]), row["zero"], row["type"])
            for row in manifest["inputs"]
            if "scale" in row
        }
        self.outputs = [(function, *_kind(row)) for function, row in rows[1]]
        self._check("init")

    def _check(self, function: str) -> None:
        status = getattr(self._code, f"{self.name}_{function}")(self._struct)
        if status:
            text = getattr(self._code, f"{self.name}_status_text")
            text.restype = ctypes.c_char_p
            raise RunFailed(f"{self.name}_{function} ends with {text(status).decode()!r}")

    def _at(self, function: str, shape: Sequence[int], dtype: Any) -> Array:
        place = getattr(self._code, function)
        place.restype = ctypes.c_void_p
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        memory = (ctypes.c_char * size).from_address(place(self._struct))
        return np.frombuffer(memory, dtype).reshape(shape)

    def predict(self, given: Sequence[Any]) -> Array:
        """The first output for inputs of as many samples as a prediction has, or of several times as many.

        Floats for an input of 8 bits are quantized. DatasetMismatch for inputs of other shapes or types.
        """
        own = [row for row in self.inputs if row[1].startswith(OWN[PREDICT])] or self.inputs
        arrays = [np.asarray(x) for x in given]
        count, size = (len(x) if x.ndim else 0 for x in (arrays[0] if arrays else np.zeros(0), np.zeros(own[0][2])))
        fits = 0 < len(arrays) <= len(own) and size and count % size == 0
        if not fits or any(x.shape != (count, *row[2][1:]) for x, row in zip(arrays, own, strict=False)):
            facts = [("expected", ", ".join(f"{name} {list(shape)}" for _, name, shape, _ in own))]
            facts += [("found", ", ".join(str(list(x.shape)) for x in arrays) or "nothing")]
            raise DatasetMismatch("these are not the inputs of a prediction", facts, "arrays of these shapes")
        arrays = [self._fitting(x, name, dtype) for (_, name, _, dtype), x in zip(own, arrays, strict=False)]
        results = []
        for at in range(0, count, size):
            for (function, _, shape, dtype), x in zip(own, arrays, strict=False):
                self._at(function, shape, dtype)[...] = x[at : at + size]
            self._check("predict")
            results.append(self._at(*self.outputs[0]).copy())
        return results[0] if count == size else np.concatenate(results)

    def _fitting(self, x: Array, name: str, dtype: str) -> Array:
        """An array as an input takes it."""
        if dtype not in ("int8", "uint8"):
            return x
        if name in self._scales and x.dtype.kind == "f":
            return self._scales[name].numbers(x)
        if x.dtype.kind not in "iu" or (x != x.astype(dtype)).any():
            facts = [("expected", f"{name} {dtype}"), ("found", f"{x.dtype}, {x.min():g} to {x.max():g}")]
            raise DatasetMismatch(f"these are not numbers of {dtype}", facts, "whole numbers of that type")
        return x


def _kind(row: dict[str, Any]) -> tuple[tuple[int, ...], str]:
    return tuple(row["shape"]), row["type"]
