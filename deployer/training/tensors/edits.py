"""Rewrites of a forward model before it is read: weights inside of nodes come out, copies of a weight become one."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from deployer.core.ir import STATISTIC, GraphNames
from deployer.core.operator import Array, registry
from deployer.core.traits.training import NO_TRAINING
from deployer.frontend.model_parts import graphs_of
from deployer.frontend.opsets import is_control
from deployer.frontend.reader import ELEMENTS, is_literal
from deployer.operators.elementwise.broadcast_grad import SUMS, UNIT_NORM
from deployer.training.tensors.origins import PARAMETER, Origin, mentions, origins_of, traced

FLOATS = tuple(kind for kind, name in ELEMENTS.items() if name == "float32")


@dataclass(frozen=True)
class WeightCopy:
    """A tensor that is another one reshaped to `before`, with its axes in the order `order`, reshaped to `after`, and
    expanded to `full`.
    """

    source: str
    before: tuple[int, ...]
    order: tuple[int, ...]
    after: tuple[int, ...]
    full: tuple[int, ...]

    def made(self, array: Array) -> Array:
        """The copy of these numbers."""
        return np.broadcast_to(array.reshape(self.before).transpose(self.order).reshape(self.after), self.full)


@dataclass(frozen=True)
class Edits:
    """`copies` become nodes that read their source; of each tensor in `repeated` a part of that shape stays, which is
    expanded.
    """

    copies: Mapping[str, WeightCopy] = field(default_factory=dict)
    repeated: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything is rewritten."""
        return bool(self.copies or self.repeated)

    def apply(self, model: ModelProto) -> tuple[dict[str, str], dict[str, str]]:
        """Rewrite a model in place, weights inside of nodes first; what `hoist` and `split_merged` give."""
        hoisted, separated = hoist(model), split_merged(model)
        literals_out(model, {*self.copies, *self.repeated, *(copy.source for copy in self.copies.values())})
        graph, nodes = model.graph, list[NodeProto]()
        names = GraphNames(_values(graph))
        kept = [tensor for tensor in graph.initializer if tensor.name not in self.copies]
        for name, copy in self.copies.items():
            nodes += _copy_nodes(name, copy, names, kept)
        for tensor in kept:
            if tensor.name in self.repeated:
                nodes.append(_expansion(graph, tensor, self.repeated[tensor.name], names, kept))
        del graph.initializer[:]
        graph.initializer.extend(kept)
        read = [*graph.node]
        del graph.node[:]
        graph.node.extend([*nodes, *read])
        return hoisted, separated


NO_EDITS = Edits()


def hoist(model: ModelProto) -> dict[str, str]:
    """Make float tensors inside of nodes initializers of the model, which all turns of the nodes read; their names.

    A tensor keeps its name where the model has no other value of it; each new name leads to the node's name.
    """
    controls = [node for node in model.graph.node if is_control(node)]
    counts = Counter(name for node in controls for graph in graphs_of(node).values() for name in _made(graph))
    names, places = GraphNames(_values(model.graph)), dict[str, str]()
    unique = {name for name, count in counts.items() if count == 1} - names.reserved
    names.reserved |= counts.keys()
    found: list[TensorProto] = []
    for node in controls:
        label, before = node.name or f"{node.op_type}_{next((o for o in node.output if o), 'none')}", len(found)
        for key, graph in graphs_of(node).items():
            _take(graph, f"{label}/{key}", names, unique, found)
        places |= {tensor.name: label for tensor in found[before:]}
    model.graph.initializer.extend(found)
    return places


def split_merged(model: ModelProto) -> dict[str, str]:
    """Give each parameter a tensor of its own that an exporter merged with an equal one or, a bias of zeros, left out,
    where the file shows it.

    One of PyTorch's exporters reads the tensor by an Identity that has the other parameter's name, the other one writes
    beside each node which parameters it reads. Gives the tensor that each new one was merged with.
    """
    _statistics(model.graph)
    graph, origins = model.graph, origins_of(model.producer_name, [(str(i), n) for i, n in enumerate(model.graph.node)])
    if not origins.by_pytorch:
        return {}
    tensors = {t.name: t for t in graph.initializer if t.data_type in FLOATS and len(t.dims)}
    names, merged = GraphNames(_values(graph)), dict[str, str]()
    calls = _Calls({traced(name) for name in tensors} & origins.parameters)
    for index, node in [*enumerate(graph.node)]:
        if node.op_type == "Identity" and not origins.parameters and node.input[0] in tensors:
            _own(graph, tensors[node.input[0]], node.output[0])
            merged[node.output[0]] = node.input[0]
            graph.node.remove(node)
            continue
        origin = origins.of(str(index))
        if origin.lost_bias and not origin.folds_norm:
            _with_bias(graph, node, calls.bias(node, origin), tensors)
        for position, name in enumerate(node.input):
            other = calls.other(name, node, origin) if name in tensors else ""
            if other and other not in merged and other not in names.reserved:
                _own(graph, tensors[name], other)
                merged[other] = name
            if other in merged:
                node.input[position] = other
    return merged


@dataclass
class _Calls:
    """Parameters that traced calls read; those in `claimed` have a tensor of their name.

    `first` are the parameters of the first call that reads a tensor without such a name.
    """

    claimed: set[str]
    first: dict[str, frozenset[str]] = field(default_factory=dict)

    def bias(self, node: NodeProto, origin: Origin) -> str:
        """The name of the bias that a call read and no tensor has the name of; empty where there is none."""
        left = {read for read in origin.parameters - self.claimed if read.endswith("_bias")}
        name = _named(node.input[1], origin, left, "bias") if len(left) == 1 else ""
        self.claimed |= {traced(name)} if name else set()
        return name

    def other(self, name: str, node: NodeProto, origin: Origin) -> str:
        """The name of the parameter that a node reads where it reads a tensor; empty where it is the tensor's own."""
        left = origin.parameters - self.claimed
        if traced(name) in self.claimed:
            if not left or mentions(origin, name):
                return ""
            return _named(name, origin, left, name.rpartition(".")[2])
        if not left or node.op_type == UNIT_NORM:
            return ""
        if self.first.setdefault(name, left) == left:
            return ""
        return _named(name, origin, left, "bias" if node.op_type in SUMS else "weight") or f"{name}/{origin.scope}"


def _with_bias(graph: GraphProto, node: NodeProto, name: str, tensors: Mapping[str, TensorProto]) -> None:
    """Give a layer the bias of zeros that an exporter left out, where there is a name for it."""
    if not name or len(node.input) != 2 or node.input[1] not in tensors:
        return
    is_transposed = node.op_type == "Gemm" and not any(a.name == "transB" and a.i for a in node.attribute)
    zeros = np.zeros(tensors[node.input[1]].dims[1 if is_transposed else 0], np.float32)
    graph.initializer.append(numpy_helper.from_array(zeros, name))
    node.input.append(name)


def _named(name: str, origin: Origin, left: Collection[str], last: str) -> str:
    """The module's name of one of the parameters that a call read, whose name ends with `last` as that of the tensor
    `name` that it was merged with does; empty where it may be several.
    """
    ends = [read for read in left if read.endswith(f"_{last}")]
    found = ends if len(ends) == 1 else [*left]
    if len(found) != 1:
        return ""
    scope = traced(origin.scope) + "_" if origin.scope else PARAMETER
    rest = found[0].removeprefix(scope)
    tails = [name[index + 1 :] for index, letter in enumerate(name) if letter == "."]
    rest = next((tail for tail in tails if traced(tail, "") == rest), rest)
    return f"{origin.scope}.{rest}".removeprefix(".") if found[0].startswith(scope) else rest.removeprefix(PARAMETER)


def _statistics(graph: GraphProto) -> None:
    """Give norms statistics of their own, which exporters merge with gains and biases that begin with equal numbers."""
    tensors = {t.name: t for t in graph.initializer if t.data_type in FLOATS}
    counts = Counter(name for node in graph.node for name in node.input)
    names = GraphNames(_values(graph))
    for node in graph.node:
        operator = registry().get(node.op_type)
        training = (operator.training if operator else None) or NO_TRAINING
        for position, role in training.learned.items():
            name = node.input[position] if position < len(node.input) else ""
            if role == STATISTIC and name in tensors and counts[name] > 1:
                counts[name] -= 1
                node.input[position] = names.fresh(f"{node.name or node.output[0]}/{name}")
                _own(graph, tensors[name], node.input[position])


def _own(graph: GraphProto, tensor: TensorProto, name: str) -> None:
    """A further initializer with the numbers of a tensor."""
    own = graph.initializer.add()
    own.CopyFrom(tensor)
    own.name = name


def literals_out(model: ModelProto, wanted: Collection[str]) -> None:
    """Make those of the graph's Constant nodes initializers that have one of these names."""
    found = [node for node in model.graph.node if is_literal(node) and node.output[0] in wanted]
    for node in found:
        array = _literal(node)
        if array is not None:
            model.graph.node.remove(node)
            model.graph.initializer.append(numpy_helper.from_array(array, node.output[0]))


def _values(graph: GraphProto) -> set[str]:
    """The names of a graph's values, those inside of its nodes left out."""
    names = {value.name for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer)}
    return names.union(*((*node.input, *node.output) for node in graph.node)) - {""}


def _made(graph: GraphProto) -> Iterator[str]:
    """The names of the values that a graph inside of a node makes, and graphs inside of it, as often as they do."""
    yield from (value.name for value in (*graph.input, *graph.initializer))
    for node in graph.node:
        yield from filter(None, node.output)
        for inner in graphs_of(node).values():
            yield from _made(inner)


def _take(graph: GraphProto, prefix: str, names: GraphNames, unique: Collection[str], found: list[TensorProto]) -> None:
    """Take the float tensors out of a graph, and out of those inside of it, in place; `unique` keep their names."""
    given = {value.name for value in graph.output}
    renamed: dict[str, str] = {}

    def take(tensor: TensorProto, old: str) -> None:
        taken = TensorProto()
        taken.CopyFrom(tensor)
        taken.name = renamed[old] = old if old in unique else names.fresh(f"{prefix}/{old}")
        found.append(taken)

    for tensor in [t for t in graph.initializer if t.data_type in FLOATS and t.name not in given]:
        take(tensor, tensor.name)
        graph.initializer.remove(tensor)
    for node in [n for n in graph.node if is_literal(n) and n.output[0] not in given]:
        array = _literal(node)
        if array is not None:
            take(numpy_helper.from_array(array, node.output[0]), node.output[0])
            graph.node.remove(node)
    for node in graph.node:
        _rename(node, renamed)
        for key, inner in graphs_of(node).items():
            _take(inner, f"{prefix}/{node.name or node.op_type}/{key}", names, unique, found)


def _literal(node: NodeProto) -> Array | None:
    """The numbers of a Constant node that holds floats."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if "value" in attributes and attributes["value"].t.data_type in FLOATS:
        return np.asarray(numpy_helper.to_array(attributes["value"].t))
    for name in ("value_float", "value_floats"):
        if name in attributes:
            return np.asarray(helper.get_attribute_value(attributes[name]), np.float32)
    return None


def _rename(node: NodeProto, names: Mapping[str, str]) -> None:
    """Let a node, and the graphs inside of it, read values under other names."""
    node.input[:] = [names.get(name, name) for name in node.input]
    for graph in graphs_of(node).values():
        own = {*(v.name for v in graph.input), *(t.name for t in graph.initializer)}
        own.update(o for inner in graph.node for o in inner.output)
        left = {old: new for old, new in names.items() if old not in own}
        for inner in graph.node:
            _rename(inner, left)
        for value in graph.output:
            value.name = left.get(value.name, value.name)


def _copy_nodes(name: str, copy: WeightCopy, names: GraphNames, kept: list[TensorProto]) -> list[NodeProto]:
    """The nodes that make a copy of its source; shapes become initializers."""
    steps: list[tuple[str, tuple[int, ...]]] = []
    if copy.order != tuple(range(len(copy.order))):
        steps += [("Reshape", copy.before), ("Transpose", copy.order)]
    steps.append(("Reshape", copy.after))
    steps += [("Expand", copy.full)] if copy.full != copy.after else []
    nodes, value = [], copy.source
    for index, (op, numbers) in enumerate(steps):
        last = index == len(steps) - 1
        result = name if last else names.fresh(f"{name}/{op}")
        label = names.fresh(f"{name}/{op}_node")
        if op == "Transpose":
            nodes.append(helper.make_node(op, [value], [result], label, perm=numbers))
        else:
            shape = names.fresh(f"{name}/shape")
            kept.append(numpy_helper.from_array(np.array(numbers, np.int64), shape))
            nodes.append(helper.make_node(op, [value, shape], [result], label))
        value = result
    return nodes


def _expansion(
    graph: GraphProto, tensor: TensorProto, box: tuple[int, ...], names: GraphNames, kept: list[TensorProto]
) -> NodeProto:
    """Leave one part of a tensor, and expand it for those that read it."""
    array = numpy_helper.to_array(tensor)
    name, full, shape = tensor.name, names.fresh(f"{tensor.name}/expanded"), names.fresh(f"{tensor.name}/shape")
    one = np.ascontiguousarray(array[tuple(slice(0, length) for length in box)])
    assert math.prod(one.shape) == math.prod(box)
    tensor.CopyFrom(numpy_helper.from_array(one, name))
    kept.append(numpy_helper.from_array(np.array(array.shape, np.int64), shape))
    for node in graph.node:
        _rename(node, {name: full})
    for value in graph.value_info:
        value.name = full if value.name == name else value.name
    return helper.make_node("Expand", [name, shape], [full], names.fresh(f"{name}/Expand"))
