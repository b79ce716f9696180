"""Files of the safetensors format: eight bytes of length, a header in JSON, and the packed arrays behind it.

The format is Hugging Face's, described at github.com/huggingface/safetensors; `__metadata__` holds texts by name.
"""

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deployer.core.files.reading import content_of, damage, parse_json
from deployer.core.limits import ARCHIVE_BYTES, RANK
from deployer.core.operator import Array
from deployer.core.safe_text import json_line, shortened

HEADER_BYTES = 1 << 24
"""The longest header that is read: thousands of tensors, and the history of a run."""
ALIGNMENT = 8
DTYPES = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}
DTYPES |= {"U16": "<u2", "U32": "<u4", "U64": "<u8", "BOOL": "?"}
METADATA = "__metadata__"
LENGTH = 8
"""Bytes of the header's length at the start of a file."""


def safetensors_bytes(arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file with these arrays, in their order; the same arrays give the same bytes."""
    codes = {np.dtype(code): name for name, code in DTYPES.items()}
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    blocks, at = [], 0
    for name, array in arrays.items():
        packed = np.ascontiguousarray(array).astype(np.asarray(array).dtype.newbyteorder("<")).tobytes()
        kind = codes[np.asarray(array).dtype.newbyteorder("<")]
        header[name] = {"dtype": kind, "shape": list(np.shape(array)), "data_offsets": [at, at + len(packed)]}
        blocks.append(packed)
        at += len(packed)
    text = json_line(header).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return b"".join([len(text).to_bytes(LENGTH, "little"), text, *blocks])


def read_safetensors(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and the metadata of a file; FileProblem where it is missing, damaged, too large or of another kind."""
    content = content_of(path, ARCHIVE_BYTES, "the path of a .safetensors file", "fewer or smaller arrays")
    cause = f"{path} is truncated or no safetensors file"
    with damage(cause, "write the file again", [("size", f"{len(content)} B")]):
        return parse_safetensors(content)


def parse_safetensors(content: bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and the metadata; ValueError and others where the bytes are no such file."""
    if len(content) < LENGTH:
        raise ValueError(f"{len(content)} B hold no header")
    length = int.from_bytes(content[:LENGTH], "little")
    if length > min(HEADER_BYTES, len(content) - LENGTH):
        raise ValueError(f"the header has {length} B, the file {len(content)} B")
    header = parse_json(content[LENGTH : LENGTH + length])
    if not isinstance(header, dict):
        raise ValueError("the header is not an object")
    metadata = {str(k): str(v) for k, v in header.pop(METADATA, {}).items()}
    body = memoryview(content)[LENGTH + length :]
    arrays, spans = {}, []
    for name, entry in header.items():
        begin, end = _wholes(entry["data_offsets"])
        shape, dtype = _wholes(entry["shape"]), np.dtype(DTYPES[entry["dtype"]])
        if len(shape) > RANK or end - begin != math.prod(shape) * dtype.itemsize or end > len(body):
            raise ValueError(f"{name!r} of shape {list(shape)} does not fit bytes {begin} to {end} of {len(body)}")
        arrays[name] = np.frombuffer(body[begin:end], dtype).reshape(shape)
        spans.append((begin, end))
    if sum(end - begin for begin, end in spans) != len(body) or _overlap(sorted(spans)):
        raise ValueError(f"the arrays do not cover the {len(body)} B behind the header once each")
    return arrays, metadata


def _wholes(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(value) is int and value >= 0 for value in values):
        raise ValueError(f"{shortened(repr(values), 60)} are not counts")
    return tuple(values)


def _overlap(spans: list[tuple[int, int]]) -> bool:
    return any(begin < last for (_, last), (begin, _) in itertools.pairwise(spans))
