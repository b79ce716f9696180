"""An ONNX file as a protobuf message: sizes, names and external data are checked before they are used.

ONNX's own checker rejects real training graphs, so the reader does not call it.
"""

import hashlib
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped, unused-ignore]
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped, unused-ignore]
from onnx import ModelProto, TensorProto

from deployer.core.errors import FileProblem, GraphProblem
from deployer.core.files.reading import cause_of, content_of, real_path
from deployer.core.limits import MODEL_BYTES, NODES, TENSOR_BYTES

KEYS = ("location", "offset", "length", "checksum")
"""What a tensor may say about its external data."""
WAY_OUT = "export the graph again, or correct the path"


def load_model(path: Path) -> ModelProto:
    """The model of a file with its external data; raises FileProblem or GraphProblem for an invalid file.

    External data must be in regular files below the model's folder, and no link may lead out of it.
    """
    content = content_of(path, MODEL_BYTES, WAY_OUT, "a smaller model")
    facts = [("size", f"{len(content)} B")]
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        cause = [*facts, ("cause", cause_of(error))]
        raise FileProblem(f"{path} is truncated or not an ONNX file", cause, WAY_OUT) from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise FileProblem(f"{path} holds no ONNX graph", facts, WAY_OUT)
    if model.ir_version > onnx.IR_VERSION:
        limits = [("known", f"up to IR version {onnx.IR_VERSION}")]
        raise FileProblem(
            f"{path} is of IR version {model.ir_version}",
            limits,
            "export with an older IR version, or install a newer onnx",
        )
    if len(model.graph.node) > NODES:
        facts = [("nodes", str(len(model.graph.node))), ("at most", str(NODES))]
        raise GraphProblem(f"the graph of {path} has too many nodes", facts, "a smaller model")
    _check_text(path, model)
    _read_external(path, model)
    return model


def _messages(message: Message) -> Iterator[Message]:
    """A protobuf message and all messages inside of it."""
    waiting = [message]
    while waiting:
        current = waiting.pop()
        yield current
        for field, value in current.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                waiting += [value] if isinstance(value, Message) else value


def _check_text(path: Path, model: ModelProto) -> None:
    """Raise GraphProblem for a string that is not UTF-8; protobuf returns such a string as bytes."""
    for message in _messages(model):
        for field, value in message.ListFields():
            if field.type != FieldDescriptor.TYPE_STRING:
                continue
            for text in [value] if isinstance(value, (str, bytes)) else value:
                if isinstance(text, bytes):
                    facts = [("field", f"{field.name} of a {type(message).__name__}"), ("bytes", repr(text[:80]))]
                    raise GraphProblem(
                        f"{path} holds a name that is not UTF-8 text", facts, "rename it in the exporter"
                    )


def _read_external(path: Path, model: ModelProto) -> None:
    """Load external data into the tensors that refer to it."""
    tensors = [m for m in _messages(model) if isinstance(m, TensorProto) and m.data_location == TensorProto.EXTERNAL]
    places = [f"{path}: tensor {tensor.name!r}" for tensor in tensors]
    sizes = [_stored_bytes(place, tensor) for place, tensor in zip(places, tensors, strict=True)]
    if sum(sizes) > MODEL_BYTES:
        facts = [("bytes", str(sum(sizes))), ("at most", str(MODEL_BYTES))]
        raise FileProblem(f"{path} keeps too much data in other files", facts, "a smaller model")
    digests: dict[Path, str] = {}
    for tensor, place, size in zip(tensors, places, sizes, strict=True):
        fields = _fields(place, tensor)
        file = _inside(place, path.parent, fields.get("location", ""))
        if "checksum" in fields:
            _check_digest(place, file, fields["checksum"], digests)
        tensor.raw_data = _external_bytes(place, file, fields, size)
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]


def _fields(place: str, tensor: TensorProto) -> dict[str, str]:
    """Return a tensor's external data entries by key; raise FileProblem for an unknown or repeated key."""
    fields: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key not in KEYS or entry.key in fields:
            fault = "twice" if entry.key in fields else "which ONNX does not know"
            facts = [("keys of ONNX", ", ".join(KEYS))]
            raise FileProblem(f"{place}: its external data has the key {entry.key[:40]!r} {fault}", facts, WAY_OUT)
        fields[entry.key] = entry.value
    return fields


def _check_digest(place: str, file: Path, due: str, digests: dict[Path, str]) -> None:
    """Raise FileProblem where the SHA-1 digest of an external file is not the recorded one."""
    if file not in digests:
        content = content_of(file, MODEL_BYTES, f"{WAY_OUT}; it is of {place}", "data without a checksum")
        digests[file] = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    if digests[file] != due.lower():
        facts = [("recorded", due[:40]), ("SHA-1 of the file", digests[file])]
        raise FileProblem(f"{place}: {file.name!r} is not the file that was saved with the model", facts, WAY_OUT)


def _stored_bytes(place: str, tensor: TensorProto) -> int:
    """Bytes of a tensor by its dims and element type; raises FileProblem if no file can hold them."""
    dtypes = onnx.helper.get_all_tensor_dtypes()
    if tensor.data_type not in dtypes or tensor.data_type == TensorProto.STRING:
        raise FileProblem(f"{place} has no numbers in another file", hint=WAY_OUT)
    count = math.prod(tensor.dims) if all(d >= 0 for d in tensor.dims) else -1
    size = count * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    if not 0 <= size <= TENSOR_BYTES:
        facts = [("dims", str(list(tensor.dims)[:8])), ("at most", f"{TENSOR_BYTES} B")]
        raise FileProblem(f"{place} has dims that no file can fill", facts, WAY_OUT)
    return size


def _inside(place: str, folder: Path, location: str) -> Path:
    """The path of a regular file below the folder, links resolved; raises FileProblem for any other."""
    home = real_path(folder)
    if not location or "\0" in location or Path(location).is_absolute():
        file = None
    else:
        file = Path(os.path.realpath(home / location))
    if file is None or not file.is_relative_to(home):
        facts = [("location", repr(location)[:200]), ("folder", str(home))]
        hint = "put the data beside the model, and no link that leads out of its folder"
        raise FileProblem(f"{place} keeps its data outside of the model's folder", facts, hint)
    try:
        regular = stat.S_ISREG(file.stat().st_mode)
    except OSError:
        regular = False
    if not regular:
        hint = f"put the external data file into {home}"
        raise FileProblem(f"{place} keeps its data in {location!r}, which is not a file there", hint=hint)
    return file


def _external_bytes(place: str, file: Path, fields: dict[str, str], size: int) -> bytes:
    """The `size` bytes of a tensor from its external file, at the offset in `fields`."""
    try:
        offset, length = int(fields.get("offset", "0")), int(fields.get("length", str(size)))
    except ValueError:
        offset, length = -1, -1
    file_size = file.stat().st_size
    if length != size or not 0 <= offset <= file_size - size:
        extent = f"{fields.get('length', 'the rest')!s:.40} from {fields.get('offset', '0')!s:.40} of {file_size} B"
        facts = [("needed", f"{size} B"), ("found", extent)]
        raise FileProblem(f"{place}: its data is not in {file.name!r}, or of another length", facts, WAY_OUT)
    try:
        with file.open("rb") as stream:
            stream.seek(offset)
            return stream.read(size)
    except OSError as error:
        raise FileProblem(f"{place}: {file} cannot be read", [("cause", cause_of(error))], WAY_OUT) from None
