"""ONNX files to raw graphs, without ONNX's own checker, which rejects real training graphs."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import AttributeProto, TensorProto

from deployer.core.errors import FileProblem, GraphProblem, ShapeMismatch
from deployer.core.files.reading import cause_of
from deployer.core.ir import AttrValue, Node
from deployer.core.operator import registry, unsupported
from deployer.core.signatures import value_fault
from deployer.frontend.model_file import WAY_OUT, load_model
from deployer.frontend.model_parts import check_ignored_fields, graphs_of, inlined, reads
from deployer.frontend.opsets import Imports, is_control, name_of, versions_of
from deployer.frontend.prepare import NO_AXES, Axes, Refusals, converted, notes_of, to_array
from deployer.frontend.quantized.model import pack
from deployer.frontend.quantized.values import EIGHT_BITS
from deployer.frontend.raw_graph import DeclaredTypes, FileInput, RawConstant, RawGraph

ELEMENTS: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float32",
    TensorProto.FLOAT16: "float32",
    TensorProto.BFLOAT16: "float32",
    TensorProto.INT64: "int32",
    TensorProto.INT32: "int32",
    TensorProto.BOOL: "int32",
    **dict.fromkeys((TensorProto.INT8, TensorProto.INT16, TensorProto.UINT8, TensorProto.UINT16), "int32"),
    **dict.fromkeys((TensorProto.UINT32, TensorProto.UINT64), "int32"),
}
"""Element types of ONNX that have a type on a target; numbers of wider ones have to fit it."""

_CONSTANT_FORMS = {
    **{"value": "TENSOR", "value_float": "FLOAT", "value_floats": "FLOATS"},
    **{"value_int": "INT", "value_ints": "INTS"},
}
"""The kinds of the attributes that hold a constant's numbers."""


Edit = Callable[[onnx.ModelProto], object]
"""Rewrite of a model in place before it is read."""


def read_graph(
    path: Path, name: str, sequences: bool = False, axes: Axes = NO_AXES, edit: Edit | None = None
) -> RawGraph:
    """The graph of an ONNX file; FileProblem, GraphProblem, ShapeMismatch or UnsupportedOperator if unfit.

    `sequences` says that values may be sequences of tensors, `axes` lengths that the file leaves open; `edit` changes
    the model first.
    """
    model = load_model(path)
    axes.fix(model)
    check_ignored_fields(model)
    if edit is not None:
        edit(model)
    pack(model)
    graph, calls = model.graph, inlined(model)
    constants: dict[str, RawConstant] = {}
    nodes: list[Node] = []
    domains: dict[str, str] = {}
    versions: dict[str, tuple[int, ...]] = {}
    graphs: dict[str, tuple[onnx.NodeProto, Imports]] = {}
    used = {i for n, _ in calls for i in reads(n)} | {o.name for o in graph.output}
    read = [tensor for tensor in graph.initializer if tensor.name in used]
    for tensor in read:
        _define(constants, tensor.name, tensor_constant(tensor.name, tensor), name)
    ends = (*(v for v in graph.input if v.name not in constants), *graph.output)
    notes = notes_of(filter(None, map(converted, read)), ends)
    refusals = Refusals()
    names = _unique_names(proto for proto, _ in calls)
    for (proto, imports), node_name in zip(calls, names, strict=True):
        if is_literal(proto):
            with refusals.of(literal := Node(node_name, proto.op_type, (), tuple(proto.output))):
                versions_of(proto, literal, imports)
                _define(constants, proto.output[0], constant_node(proto, node_name), name)
            continue
        nodes.append(node_of(proto, node_name))
        if is_control(proto):
            graphs[node_name] = proto, imports
        with refusals.of(nodes[-1]):
            versions[node_name] = versions_of(proto, nodes[-1], imports)
        if proto.domain not in ("", "ai.onnx"):
            domains[node_name] = proto.domain
    refusals.check()
    declared = _together(graph.value_info, _element_name)
    for value, end in _together(graph.output, _end).items():  # the output is right, as for ONNX Runtime
        declared[value] = _completed(end, declared.get(value, end))
    unused = {tensor.name for tensor in graph.initializer} - used
    inputs = tuple(_input(v, nodes) for v in graph.input if v.name not in unused)
    defaults = {tensor.name: tensor for tensor in graph.initializer if tensor.name in used}
    for declaration in graph.input:
        if declaration.name in defaults:
            _check_default(declaration, defaults[declaration.name])
    outputs = tuple(dict.fromkeys(v.name for v in graph.output))
    values = (*graph.input, *graph.output, *graph.value_info)
    found = tuple(dict.fromkeys(v.name for v in values if v.type.WhichOneof("value") == "sequence_type"))
    if not sequences:
        check_tensors(found)
    elements = _element_types(graph, (proto for proto, _ in calls))
    return RawGraph(
        name,
        tuple(nodes),
        inputs,
        outputs,
        constants,
        declared,
        domains,
        versions,
        found,
        elements,
        notes,
        graphs,
    )


def _input(value: onnx.ValueInfoProto, nodes: Iterable[Node]) -> FileInput:
    """A graph input; one of 8 bits keeps them where only kernels of this type read it."""
    declared, own = _declared(value, _end), EIGHT_BITS.get(value.type.tensor_type.elem_type)
    readers = [registry().get(node.op) for node in nodes if value.name in node.inputs]
    kernels = [operator.kernel for operator in readers if operator is not None and operator.kernel is not None]
    takes = [any(kind == own and not written for _, kind, written in kernel.pointers) for kernel in kernels]
    if own and readers and len(takes) == len(readers) and all(takes):
        declared = replace(declared, dtype=own)
    return FileInput(value.name, declared)


def holds_bools(proto: onnx.NodeProto) -> bool:
    """Whether a node's result is made of a tensor of bools that is one of its attributes."""
    return any(attribute.t.data_type == TensorProto.BOOL for attribute in proto.attribute)


def _check_default(item: onnx.ValueInfoProto, default: TensorProto) -> None:
    """Raise ShapeMismatch where a graph input has an initializer of another shape or element type than declared."""
    declared, kind = _declared(item, _kind), _kind(item.name, default.data_type)
    shape = declared.shape
    fits = shape is None or (
        len(shape) == len(default.dims) and all(n in (-1, m) for n, m in zip(shape, default.dims, strict=True))
    )
    if not fits or declared.dtype not in ("", kind):
        facts = [("declared", f"{declared.dtype}{list(shape or ())}"), ("initializer", f"{kind}{list(default.dims)}")]
        hint = "declare the initializer's type, or remove one of the two"
        raise ShapeMismatch(f"graph input {item.name!r} has an initializer of another type", facts, hint)


def _together(values: Iterable[onnx.ValueInfoProto], element: Callable[[str, int], str]) -> dict[str, DeclaredTypes]:
    """Merge all declarations of each value; raise ShapeMismatch if two contradict each other."""
    found: dict[str, DeclaredTypes] = {}
    for item in values:
        declared = _declared(item, element)
        before = found.get(item.name, declared)
        if not _both(before, declared):
            elements = " and ".join(_onnx_name(kind) for kind in (before.element, declared.element))
            facts = [("first", str(before)), ("then", str(declared)), ("element types", elements)]
            hint = "keep the declaration that is right, or drop both from the file"
            raise ShapeMismatch(f"{item.name!r} is declared twice, with different types", facts, hint)
        found[item.name] = _completed(before, declared)
    return found


def _both(one: DeclaredTypes, other: DeclaredTypes) -> bool:
    """Whether a value can have both declared types: what is unknown in one of them fits everything."""
    if one.element and other.element and one.element != other.element:
        return False
    if one.shape is None or other.shape is None:
        return True
    same_rank = len(one.shape) == len(other.shape)
    return same_rank and all(a == b or -1 in (a, b) for a, b in zip(one.shape, other.shape, strict=True))


def _completed(one: DeclaredTypes, other: DeclaredTypes) -> DeclaredTypes:
    """Fill the element type, shape and lengths that a declaration leaves open from another one."""
    typed = one if one.element else other
    if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
        shaped = other if one.shape is None else one
        return replace(typed, shape=shaped.shape, axes=shaped.axes)
    lengths = tuple(b if a < 0 else a for a, b in zip(one.shape, other.shape, strict=True))
    return replace(typed, shape=lengths, axes=tuple(a or b for a, b in zip(one.axes, other.axes, strict=True)))


def _kind(name: str, element: int) -> str:
    """ONNX's name of an element type; ShapeMismatch if no target has it."""
    _element(name, element)
    kind: str = TensorProto.DataType.Name(element)
    return kind.lower()


def check_tensors(sequences: Iterable[str]) -> None:
    """ShapeMismatch where there is a sequence of tensors, which only optimizers of all weights take."""
    for name in sequences:
        raise ShapeMismatch(f"{name!r} is a sequence_type, not a tensor", hint="pass tensors one by one")


def read_initializers(path: Path, names: Collection[str]) -> dict[str, npt.NDArray[np.generic]]:
    """The initializers of an ONNX file that have one of these names; FileProblem or ShapeMismatch if unfit."""
    initializers: dict[str, npt.NDArray[np.generic]] = {}
    for tensor in load_model(path).graph.initializer:
        if tensor.name in initializers:
            raise GraphProblem(f"{path} has two initializers {tensor.name!r}", hint="rename one of them")
        if tensor.name in names:
            initializers[tensor.name] = tensor_constant(tensor.name, tensor).array
    return initializers


def is_literal(proto: onnx.NodeProto) -> bool:
    """Whether a node is a Constant, which the reader turns into a constant of the graph."""
    operator = registry().get(proto.op_type)
    return operator is not None and operator.file is not None and operator.file.literal and bool(proto.output)


def _define(constants: dict[str, RawConstant], name: str, value: RawConstant, graph: str) -> None:
    if name in constants:
        cause = f"{name!r} has two producers in the {graph} graph"
        raise GraphProblem(cause, [("both", "constants")], "rename one of them")
    constants[name] = value


def _unique_names(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """The node names, made distinct: a missing one becomes op and first output, a repeated one gets a number."""
    names: dict[str, None] = {}
    repeats = Counter[str]()
    for node in nodes:
        base = node.name or f"{node.op_type}_{next((o for o in node.output if o), 'none')}"
        name = base
        while name in names:
            repeats[base] += 1
            name = f"{base}_{repeats[base] + 1}"
        names[name] = None
    return list(names)


def node_of(proto: onnx.NodeProto, name: str) -> Node:
    """A file's node under a name of its own, with its attributes as values, and what graphs inside read as inputs."""
    node = Node(name, name_of(proto), reads(proto), tuple(proto.output))
    inner = graphs_of(proto) if is_control(proto) else ()
    attrs = {a.name: _attribute(node, a) for a in proto.attribute if a.name not in inner}
    return Node(name, node.op, node.inputs, node.outputs, attrs)


def _attribute(node: Node, attr: onnx.AttributeProto) -> AttrValue:
    """The attribute's value; a tensor of one element becomes a scalar, a list tensor a tuple."""
    match attr.type:
        case AttributeProto.FLOAT:
            return float(attr.f)
        case AttributeProto.INT:
            return int(attr.i)
        case AttributeProto.STRING:
            return attr.s.decode(errors="replace")
        case AttributeProto.INTS:
            return tuple(int(i) for i in attr.ints)
        case AttributeProto.FLOATS:
            return tuple(float(f) for f in attr.floats)
        case AttributeProto.STRINGS:
            return tuple(s.decode(errors="replace") for s in attr.strings)
        case AttributeProto.TENSOR if len(attr.t.dims) <= 1:
            array = tensor_constant(f"{node.name}.{attr.name}", attr.t).array
            values = tuple(array.reshape(-1).tolist())
            return values[0] if len(values) == 1 else values
    kind = AttributeProto.AttributeType.Name(attr.type)
    raise unsupported(node, f"attribute {attr.name!r} is of kind {kind}", "numbers, strings and lists of them")


def constant_node(proto: onnx.NodeProto, name: str) -> RawConstant:
    """The value of a node that is a constant."""
    node = Node(name, proto.op_type, (), tuple(proto.output))
    values = [attr for attr in proto.attribute if attr.name != "description"]
    if len(values) != 1:
        raise unsupported(node, f"it has {len(values)} values", f"one of {', '.join(_CONSTANT_FORMS)}")
    (attr,) = values
    if attr.name not in _CONSTANT_FORMS:
        raise unsupported(node, f"its value is none of {', '.join(_CONSTANT_FORMS)}", "a dense tensor of numbers")
    fault = value_fault(attr, (_CONSTANT_FORMS[attr.name],))
    if fault is not None:
        raise unsupported(node, *fault)
    if attr.name == "value":
        return tensor_constant(proto.output[0], attr.t)
    value = onnx.helper.get_attribute_value(attr)
    return _packed(proto.output[0], np.asarray(value, np.float32 if "float" in attr.name else np.int64))


def tensor_constant(name: str, tensor: TensorProto) -> RawConstant:
    """A file's tensor as a constant of that name; FileProblem or ShapeMismatch where it is unfit."""
    _element(name, tensor.data_type)
    try:
        if any(d < 0 for d in tensor.dims):
            raise ValueError("a negative length")
        array = to_array(tensor)
    except (ValueError, TypeError, OverflowError) as error:
        facts = [("declared", str(list(tensor.dims)[:40])), ("cause", cause_of(error))]
        raise FileProblem(f"constant {name!r} does not hold the numbers it declares", facts, WAY_OUT) from None
    return _packed(name, array)


def _packed(name: str, array: npt.NDArray[np.generic]) -> RawConstant:
    """The array as float32 or int64; raises ShapeMismatch for a float64 beyond float32."""
    if array.dtype == np.uint64 and (array.view(np.int64) < 0).any():
        raise ShapeMismatch(f"constant {name!r} holds numbers outside the range of int64", hint="smaller numbers")
    if array.dtype.kind != "f":
        return RawConstant("int64", array.shape, array.astype("<i8").tobytes())
    with np.errstate(over="ignore"):
        narrow = array.astype("<f4")
    overflow = np.isfinite(array) & ~np.isfinite(narrow)
    if overflow.any():
        value = array[overflow].reshape(-1)[0]
        raise ShapeMismatch(f"constant {name!r} holds {value}, which float32 cannot hold", hint="scale the constant")
    return RawConstant("float32", array.shape, narrow.tobytes())


def _element(name: str, element: int) -> str:
    """The target's dtype for an ONNX element type; raises ShapeMismatch if there is none."""
    if element not in ELEMENTS:
        raise ShapeMismatch(
            f"{name!r} has element type {_element_name(name, element)}, which no target has",
            hint="cast it to float32, float64, float16, an integer of 8 to 64 bits or bool in the exporter",
        )
    return ELEMENTS[element]


def _end(name: str, element: int) -> str:
    """The target's dtype of an input or output of the graph, whose numbers an npz must be able to hold."""
    if element == TensorProto.BFLOAT16:
        cause = f"{name!r} has element type BFLOAT16, which no target has"
        raise ShapeMismatch(cause, hint="cast it to float32 or float16 in the exporter; weights may be of bfloat16")
    return _element(name, element)


def _element_name(name: str, element: int) -> str:
    """The target's dtype for an ONNX element type, or ONNX's name of it if there is none."""
    return ELEMENTS.get(element, _onnx_name(element))


def _onnx_name(element: int) -> str:
    """ONNX's name of an element type, or its number where ONNX has none."""
    return TensorProto.DataType.Name(element) if element in TensorProto.DataType.values() else str(element)


def _declared(value: onnx.ValueInfoProto, element: Callable[[str, int], str]) -> DeclaredTypes:
    """The declared dtype, as `element` names it, and shape of a value; those of a sequence are unknown.

    Raises ShapeMismatch for other kinds.
    """
    kind = value.type.WhichOneof("value")
    if kind in ("sequence_type", None):
        return DeclaredTypes()
    if kind != "tensor_type":
        raise ShapeMismatch(f"{value.name!r} is a {kind}, not a tensor", hint="pass tensors one by one")
    tensor = value.type.tensor_type
    dtype = element(value.name, tensor.elem_type) if tensor.elem_type else ""
    if not tensor.HasField("shape"):
        return DeclaredTypes(dtype, element=tensor.elem_type)
    lengths = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim)
    return DeclaredTypes(dtype, lengths, tuple(str(d.dim_param) for d in tensor.shape.dim), tensor.elem_type)


def _element_types(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> dict[str, int]:
    """ONNX's element types of graph inputs and constants that are integers or bools by their declarations."""
    types = {v.name: v.type.tensor_type.elem_type for v in graph.input}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    for proto in nodes:
        if is_literal(proto):
            types[proto.output[0]] = next((a.t.data_type for a in proto.attribute if a.name == "value"), 0)
        elif holds_bools(proto):
            types |= dict.fromkeys(proto.output, TensorProto.BOOL)
    return {name: kind for name, kind in types.items() if ELEMENTS.get(kind) == "int32"}
