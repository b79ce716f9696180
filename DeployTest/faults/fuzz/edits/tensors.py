"""Edits of a model's constants: values, element types, declared sizes, and where their bytes lie."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from DeployTest.faults.fuzz.draw import FLOATS, INTEGERS, Draw

from .graph import value_names
from .register import edits_of

LOCATIONS = ("weights.bin", "weights.bin", "../secret/secret.bin", "missing.bin", "", ".", "/etc/passwd", "link.bin")
LOCATIONS += ("sub/../../secret/secret.bin", "../case/weights.bin")


def tensor_of(model: onnx.ModelProto, draw: Draw) -> TensorProto | None:
    """A random tensor of an initializer or a Constant node, or None without any."""
    nodes = [n for n in model.graph.node if n.op_type == "Constant" and n.attribute]
    tensors = [*model.graph.initializer, *(n.attribute[0].t for n in nodes)]
    return draw.one(tensors) if tensors else None


def _array(tensor: TensorProto) -> np.ndarray | None:
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, onnx.checker.ValidationError):
        return None


@edits_of("graph")
def constant_values(model: onnx.ModelProto, draw: Draw) -> None:
    """Another element: NaN, infinite, huge, small, or an index out of range."""
    tensor = tensor_of(model, draw)
    array = _array(tensor) if tensor is not None else None
    if tensor is None or array is None or not array.size or array.dtype.kind not in "fiu":
        return
    array = array.copy()
    at = draw.number(0, array.size - 1)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            array.reshape(-1)[at] = draw.one(FLOATS)
    else:
        array.reshape(-1)[at : at + 1] = np.array([draw.integer()], np.int64).astype(array.dtype)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


@edits_of("graph")
def constant_retyped(model: onnx.ModelProto, draw: Draw) -> None:
    """The same numbers in another element type."""
    tensor = tensor_of(model, draw)
    array = _array(tensor) if tensor is not None else None
    if tensor is None or array is None or array.dtype.kind not in "fiub":
        return
    kind = draw.one(("float64", "float16", "float32", "int64", "int32", "int8", "uint8", "bool", "complex64"))
    with np.errstate(all="ignore"):
        tensor.CopyFrom(numpy_helper.from_array(array.astype(kind), tensor.name))


@edits_of("graph")
def constant_reshaped(model: onnx.ModelProto, draw: Draw) -> None:
    """Declared extents that may not fit the content."""
    tensor = tensor_of(model, draw)
    if tensor is None:
        return
    dims = list(tensor.dims)
    match draw.number(0, 4):
        case 0 if dims:
            dims[draw.number(0, len(dims) - 1)] = draw.integer()
        case 1:
            dims.append(draw.one((0, 1, 1, -1, 2**40)))
        case 2:
            dims.reverse()
        case 3:
            dims = []
        case _:
            dims = [1, *dims]
    tensor.dims[:] = dims


@edits_of("graph")
def constant_damaged(model: onnx.ModelProto, draw: Draw) -> None:
    """Content cut short, an element type changed without its content, or fields of several types."""
    tensor = tensor_of(model, draw)
    if tensor is None:
        return
    match draw.number(0, 3):
        case 0:
            tensor.raw_data = tensor.raw_data[: draw.number(0, len(tensor.raw_data))]
        case 1:
            tensor.data_type = draw.one((*TensorProto.DataType.values(), 99))
        case 2:
            tensor.float_data.append(draw.floating())
        case _:
            tensor.segment.begin, tensor.segment.end = 0, draw.integer()


@edits_of("graph")
def constant_moved(model: onnx.ModelProto, draw: Draw) -> None:
    """Remove, repeat or rename a constant, or make it a graph input too, a Constant node or a sparse initializer."""
    graph = model.graph
    if not graph.initializer:
        return
    at = draw.number(0, len(graph.initializer) - 1)
    tensor = graph.initializer[at]
    match draw.number(0, 5):
        case 0:
            del graph.initializer[at]
        case 1:
            graph.initializer.append(tensor)
        case 2:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
        case 3:
            graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))
            del graph.initializer[at]
        case 4:
            _sparse(graph, at)
        case _:
            tensor.name = draw.one(value_names(model))


def _sparse(graph: onnx.GraphProto, at: int) -> None:
    tensor = graph.initializer[at]
    array = _array(tensor)
    if array is None or array.dtype != np.float32:
        return
    flat = array.reshape(-1)
    where = np.flatnonzero(flat)
    values = numpy_helper.from_array(flat[where], tensor.name)
    indices = numpy_helper.from_array(where.astype(np.int64), f"{tensor.name}_indices")
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, array.shape))
    del graph.initializer[at]


@edits_of("graph")
def external_data(model: onnx.ModelProto, draw: Draw) -> None:
    """Content in another file: beside the model, missing, outside of its folder; offsets and lengths that lie."""
    tensor = tensor_of(model, draw)
    if tensor is None:
        return
    entries = {"location": draw.one(LOCATIONS)}
    if draw.chance(0.6):
        entries["offset"] = str(draw.one((0, 0, 4, 64, 4096, -1, *INTEGERS)))
    if draw.chance(0.6):
        entries["length"] = str(draw.one((len(tensor.raw_data), len(tensor.raw_data), *INTEGERS)))
    if draw.chance(0.1):
        entries[draw.one(("offset", "length", "evil"))] = draw.one(("x", "", "1e3", "0x10"))
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    if draw.chance(0.9):
        tensor.ClearField("raw_data")
