"""Numbers of other widths that a file holds and float32 represents: their count, and their rounding errors."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, ValueInfoProto, numpy_helper

from deployer.core.operator import Array
from deployer.frontend.raw_graph import Note

OTHER: dict[int, str] = {
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
}
"""Element types of floats beside float32."""


@dataclass(frozen=True)
class Converted:
    """A tensor of a file: its name, its element type, its elements, and the largest rounding error of one of them."""

    name: str
    kind: str
    count: int
    error: float


def converted(tensor: TensorProto) -> Converted | None:
    """Return the conversion of an initializer; None if it is unchanged. Its numbers are known to be in range."""
    if tensor.data_type not in OTHER:
        return None
    array = numpy_helper.to_array(tensor).astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.nan_to_num(np.abs(array - array.astype(np.float32)), nan=0.0, posinf=0.0)
    return Converted(tensor.name, OTHER[tensor.data_type], array.size, float(error.max(initial=0.0)))


def notes_of(tensors: Iterable[Converted], values: Iterable[ValueInfoProto]) -> dict[str, Note]:
    """A note for each element type, by its name: initializers, and inputs and outputs of the graph."""
    by_kind: dict[str, list[Converted]] = {}
    ends: dict[str, list[str]] = {}
    for tensor in tensors:
        by_kind.setdefault(tensor.kind, []).append(tensor)
    for value in values:
        kind = OTHER.get(value.type.tensor_type.elem_type)
        if kind is not None:
            ends.setdefault(kind, []).append(value.name)
    notes: dict[str, Note] = {}
    for kind in sorted(by_kind.keys() | ends.keys()):
        found, facts = by_kind.get(kind, []), []
        if found:
            worst = max(found, key=lambda tensor: tensor.error)
            text = f"at most {worst.error:.3g}, in {worst.name!r}" if worst.error else "none"
            elements = sum(tensor.count for tensor in found)
            facts = [("initializers", f"{len(found)}, {elements} elements"), ("rounding error", text)]
        facts += [("inputs, outputs", ", ".join(ends[kind]))] if kind in ends else []
        notes[f"{kind} of the file"] = (f"what the file has in {kind} is float32 here", tuple(facts))
    return notes


def to_array(tensor: TensorProto) -> Array:
    """The tensor's numbers, those of bfloat16 as float32, which numpy does not have.

    ValueError for bytes that are no numbers of its type: a bool is 0 or 1, so others come from another place of a file.
    """
    array = numpy_helper.to_array(tensor)
    if array.dtype == np.bool_ and (array.view(np.uint8) > 1).any():
        raise ValueError(f"{int(array.view(np.uint8).max())} in a byte of a bool, which is 0 or 1")
    return np.asarray(array.astype(np.float32) if tensor.data_type == onnx.TensorProto.BFLOAT16 else array)
