"""ONNX Runtime's checkpoint file, a flatbuffer: the parameters in it, read with every offset judged."""

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deployer.core.errors import DatasetMismatch, FileProblem
from deployer.core.files.arrays import Arrays
from deployer.core.files.reading import content_of, damage
from deployer.core.limits import MODEL_BYTES
from deployer.core.operator import Array

IDENTIFIER = b"ODTC"
"""What a checkpoint has behind the offset of its root table."""
LONGEST_NAME = 4096
"""Bytes of a parameter's name: names may lie over each other, so that a small file could hold many long ones."""
_ELEMENTS = {1: "<f4", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8"}
"""numpy's types by ONNX's numbers of element types."""
_MODULE, _OPTIMIZERS = 1, 2
"""Fields of the root table."""
_TRAINED, _FROZEN, _NOMINAL, _EXTERNAL = 0, 1, 2, 3
"""Fields of the module's table."""
_NAME, _DIMS, _ELEMENT, _RAW = 0, 2, 3, 4
"""Fields of a tensor."""
_WAY_OUT = "write it again with CheckpointState.save_checkpoint or generate_artifacts"


def read_checkpoint(path: Path) -> Arrays:
    """All parameters by name, trained and frozen ones.

    FileProblem where the file is damaged or holds names alone, DatasetMismatch where it holds an optimizer's state.
    """
    data = content_of(path, MODEL_BYTES, _WAY_OUT, "a smaller model")
    facts = [("size", f"{len(data)} B")]
    if data[4:8] != IDENTIFIER:
        raise FileProblem(f"{path} is not a checkpoint of ONNX Runtime", facts, _WAY_OUT)
    with damage(f"{path} is truncated or not a checkpoint", _WAY_OUT, facts):
        return _parameters(path, data)


def _parameters(path: Path, data: bytes) -> Arrays:
    root = _Table.behind(data, 0)
    module = root.table(_MODULE)
    if module is None:
        raise ValueError("it contains no module")
    if module.flag(_NOMINAL) or module.flag(_EXTERNAL):
        kind = (
            "names alone, no values (a nominal checkpoint)" if module.flag(_NOMINAL) else "its values in another file"
        )
        raise FileProblem(f"{path} holds {kind}", hint="the full checkpoint beside it, in one file")
    if root.tables(_OPTIMIZERS):
        raise DatasetMismatch(
            f"{path} holds the state of an optimizer, which is not supported: states start at their initial values",
            hint="save it with include_optimizer_state=False",
        )
    parameters: Arrays = {}
    for tensor in (*module.tables(_TRAINED), *module.tables(_FROZEN)):
        name = tensor.text(_NAME)
        if name in parameters:
            raise ValueError(f"{name!r} is defined twice")
        parameters[name] = _array(name, tensor)
    return parameters


def _array(name: str, tensor: "_Table") -> Array:
    start, count = tensor.vector(_DIMS, 8)
    dims = struct.unpack_from(f"<{count}q", tensor.data, start)
    element = tensor.number(_ELEMENT, "<i")
    if element not in _ELEMENTS or any(d < 0 for d in dims):
        raise ValueError(f"{name!r} has element type {element} and dims {list(dims)[:8]}")
    kind = np.dtype(_ELEMENTS[element])
    at, length = tensor.vector(_RAW, 1)
    if length != math.prod(dims) * kind.itemsize:
        raise ValueError(f"{name!r} has {length} B, {math.prod(dims) * kind.itemsize} B by its dims")
    return np.frombuffer(tensor.data, kind, math.prod(dims), at).reshape(dims)


@dataclass(frozen=True)
class _Table:
    """Table of a flatbuffer: its start, and the start of its vtable, the list of its fields' offsets."""

    data: bytes
    start: int
    layout: int

    @staticmethod
    def behind(data: bytes, at: int) -> "_Table":
        """The table to which the offset at a place leads."""
        start = at + struct.unpack_from("<I", data, at)[0]
        layout = start - struct.unpack_from("<i", data, start)[0]
        if not 0 <= layout < len(data):
            raise ValueError(f"a table at {start} has its layout at {layout}")
        return _Table(data, start, layout)

    def _place(self, field: int) -> int | None:
        entry, size = 4 + 2 * field, struct.unpack_from("<H", self.data, self.layout)[0]
        offset = struct.unpack_from("<H", self.data, self.layout + entry)[0] if entry < size else 0
        return self.start + offset if offset else None

    def number(self, field: int, code: str) -> int:
        """A number, 0 where it is absent."""
        place = self._place(field)
        return 0 if place is None else int(struct.unpack_from(code, self.data, place)[0])

    def flag(self, field: int) -> bool:
        """A truth value, false where it is absent."""
        return self.number(field, "<B") != 0

    def table(self, field: int) -> "_Table | None":
        """The table behind a field."""
        place = self._place(field)
        return None if place is None else _Table.behind(self.data, place)

    def vector(self, field: int, each: int) -> tuple[int, int]:
        """Return a vector's first offset and its count of elements of `each` bytes; (0, 0) if it is absent."""
        place = self._place(field)
        if place is None:
            return 0, 0
        start = place + struct.unpack_from("<I", self.data, place)[0]
        count = struct.unpack_from("<I", self.data, start)[0]
        if start + 4 + count * each > len(self.data):
            raise ValueError(f"a vector of {count} elements at {start} is longer than the file")
        return start + 4, count

    def tables(self, field: int) -> list["_Table"]:
        """The tables of a vector."""
        start, count = self.vector(field, 4)
        return [_Table.behind(self.data, start + 4 * i) for i in range(count)]

    def text(self, field: int) -> str:
        """A string; ValueError where it is no UTF-8, or longer than any name."""
        start, count = self.vector(field, 1)
        if count > LONGEST_NAME:
            raise ValueError(f"a name at {start} has {count} B")
        return self.data[start : start + count].decode()
