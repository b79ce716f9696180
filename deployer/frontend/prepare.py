"""Preparation of a file's nodes before their types are resolved: axes, conversions, random draws, losses, refusals."""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, TensorShapeProto, ValueInfoProto, numpy_helper

from deployer.core.errors import OptionProblem, UnsupportedOperator
from deployer.core.ir import GraphNames, Node
from deployer.core.operator import Array, registry, training_of, unsupported, update_counter
from deployer.core.traits.file import SoleOutput
from deployer.core.traits.training import Counter
from deployer.frontend.node_checks import refusing_malformed
from deployer.frontend.opsets import current_form
from deployer.frontend.raw_graph import DeclaredTypes, FileInput, Note, RawGraph
from deployer.operators.base.unsupported import ABSENT
from deployer.operators.control import controls

# Lengths for axes that a file leaves open: of the first axis of all inputs, and of axes by name.

Axis = TensorShapeProto.Dimension


@dataclass(frozen=True)
class Axes:
    """`batch` is the length of the first axis of inputs where the file does not say it, `lengths` is that of axes by
    their names in the file.
    """

    batch: int | None = None
    lengths: Mapping[str, int] = field(default_factory=dict)

    def fix(self, model: ModelProto) -> None:
        """Write the lengths into the model, wherever an axis has one of these names.

        Raises OptionProblem for a length that no input takes, and for two lengths of one axis.
        """
        if self == NO_AXES:
            return
        constants = {tensor.name for tensor in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in constants]
        lengths, first = dict(self.lengths), [axes[0] for value in inputs if (axes := _axes(value)) and _open(axes[0])]
        named = {axis.dim_param for value in inputs for axis in _axes(value)}
        listing = [("open axes", ", ".join(f"{value.name}{shown(value)}" for value in inputs) or "none")]
        for name in lengths:
            if name not in named:
                raise OptionProblem(f"--axis {name} names no axis of an input", listing, "a name that an input has")
        if self.batch is not None:
            if not first:
                raise OptionProblem(
                    "--batch-size has no effect here", listing, "leave it out: all first axes have fixed lengths"
                )
            for axis in first:
                if axis.dim_param and lengths.setdefault(axis.dim_param, self.batch) != self.batch:
                    cause = f"axis {axis.dim_param!r} has the lengths {lengths[axis.dim_param]} and {self.batch}"
                    raise OptionProblem(cause, listing, "leave out --batch-size or --axis")
                axis.dim_value = self.batch
        for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
            for axis in _axes(value):
                if _open(axis) and axis.dim_param in lengths:
                    axis.dim_value = lengths[axis.dim_param]


NO_AXES = Axes()


def shown(value: ValueInfoProto) -> str:
    """The shape as the file has it, with names or question marks for axes without length."""
    return f"[{','.join(str(axis.dim_param or '?') if _open(axis) else str(axis.dim_value) for axis in _axes(value))}]"


def _axes(value: ValueInfoProto) -> list[Axis]:
    return list(value.type.tensor_type.shape.dim)


def _open(axis: Axis) -> bool:
    return not axis.HasField("dim_value") or axis.dim_value < 0


# Numbers of other widths that a file holds and float32 represents: their count, and their rounding errors.

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


# Nodes that draw random numbers: their keys, and the number of the pass, which a program counts.

SEED, STREAM = "seed", "stream"
PASS = "pass"
"""The graph input with the number of the pass; its value in the pass that runs has COUNTED behind the name."""
COUNTED = "_counted"
_STREAMS = 1 << 32


@dataclass(frozen=True)
class GraphDraws:
    """Of the nodes of a graph that may draw random numbers, those that do, and the others."""

    drawing: tuple[Node, ...]
    idle: tuple[Node, ...]


def find_draws(graph: RawGraph) -> GraphDraws:
    """The nodes in the order of the file."""
    arrays = {name: constant.array for name, constant in graph.constants.items()}
    able = [node for node in graph.nodes if node.op in registry() and training_of(node).passes is not None]

    def draws(node: Node) -> bool:
        with refusing_malformed(node):
            current, *_ = current_form(node, graph.versions.get(node.name, ()), [None] * len(node.inputs))
            return training_of(current).draws(current, arrays)

    drawing = tuple(node for node in able if draws(node))
    return GraphDraws(drawing, tuple(node for node in able if node not in drawing))


def _uncounted(graph: RawGraph) -> list[Node]:
    """The nodes that draw and have no number of the pass."""
    drawing = find_draws(graph).drawing
    return [node for node in drawing if not any(node.inputs[training_of(node).passes or 0 :])]


def with_keys(graph: RawGraph, seed: int = 0) -> RawGraph:
    """The graph with a seed and a stream for each node that draws and has none; no two get the same stream.

    Nodes of a file that have the same key draw the same, as those of a backward pass do.
    """
    drawing = {node.name for node in find_draws(graph).drawing}
    taken = {node.attrs[STREAM] for node in graph.nodes if node.name in drawing and STREAM in node.attrs}
    free = (number for number in range(_STREAMS) if number not in taken)
    nodes = []
    for node in graph.nodes:
        if node.name in drawing:
            given = {SEED: seed, **node.attrs}
            node = replace(node, attrs=given if STREAM in given else {**given, STREAM: next(free)})
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def check_drawless(graph: RawGraph) -> None:
    """UnsupportedOperator where an inference graph draws."""
    for node in _uncounted(graph):
        why = "it drops elements at random, and nothing counts passes in an inference graph"
        raise unsupported(node, why, "training_mode false, or ratio 0")


def without_draws(graph: RawGraph) -> RawGraph:
    """The graph with nodes that draw nothing in place of those that do."""
    drawing = {node.name for node in find_draws(graph).drawing}
    nodes = (training_of(n).drawless(n) if n.name in drawing else n for n in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


def with_passes(graph: RawGraph) -> RawGraph:
    """The graph with the number of the pass for all nodes that draw, and a node that counts it; else the same graph."""
    drawing = {node.name for node in _uncounted(graph)}
    if not drawing:
        return graph
    keyed = with_keys(graph)
    name, counted = _names(graph)
    counter = update_counter()
    declared = counter.role(Counter)
    assert declared is not None
    operands = ["" if i != declared.operand else name for i in range(declared.operand + 1)]
    results = ["" if i not in counter.inplace else counted for i in range(max(counter.inplace) + 1)]
    count = Node(f"{name}/count", counter.name, tuple(operands), tuple(results))
    nodes = [_with_count(node, counted) if node.name in drawing else node for node in keyed.nodes]
    inputs = (*graph.inputs, FileInput(name, DeclaredTypes("int32", (1,))))
    return replace(keyed, nodes=(count, *nodes), inputs=inputs)


def _with_count(node: Node, counted: str) -> Node:
    position = training_of(node).passes
    assert position is not None
    inputs = [*node.inputs, *[""] * (position + 1 - len(node.inputs))]
    inputs[position] = counted
    return replace(node, inputs=tuple(inputs))


def _names(graph: RawGraph) -> tuple[str, str]:
    """Names that the graph does not have."""
    reserved = {*graph.constants, *(item.name for item in graph.inputs), *(n for x in graph.nodes for n in x.outputs)}
    name = PASS
    while not reserved.isdisjoint((name, name + COUNTED)):
        name += "_"
    return name, name + COUNTED


# Losses of training graphs whose only output is the logarithms of probabilities, from which the gradient follows.


def with_losses(graph: RawGraph) -> RawGraph:
    """The graph with the loss as first output of such nodes, and in the place of their output as one of the graph."""
    values = {*graph.constants, *(item.name for item in graph.inputs), *(o for n in graph.nodes for o in n.outputs)}
    names = GraphNames(values)
    nodes, losses = [], dict[str, str]()
    for node in graph.nodes:
        file = registry()[node.op].file if node.op in registry() else None
        declared = file.sole_output if file else None
        named = [name for name in node.outputs if name]
        if declared is not None and len(named) == 1 and _is_sole(graph, node, named[0], declared):
            losses[named[0]] = names.fresh(f"{node.name}_loss")
            between = [""] * (declared.position - 1)
            node = replace(node, outputs=(losses[named[0]], *between, named[0]))
        nodes.append(node)
    if not losses:
        return graph
    outputs = tuple(losses.get(name, name) for name in graph.outputs)
    return replace(graph, nodes=tuple(nodes), outputs=outputs)


def _is_sole(graph: RawGraph, node: Node, name: str, declared: SoleOutput) -> bool:
    """Whether a node's only output is the one of the declaration, by its place, a reader or its declared shape."""
    if node.outputs.index(name) == declared.position:
        return True
    if any(other.op == declared.reader and name in other.inputs for other in graph.nodes):
        return True
    shapes = [graph.declared[value].shape if value in graph.declared else None for value in (name, node.inputs[0])]
    return shapes[0] is not None and shapes[0] == shapes[1] and len(shapes[0]) > 1


# One error with everything that a model uses and the compiler does not support.

ONNX = ("", "ai.onnx", "ai.onnx.preview.training")
"""Domains whose operators ONNX defines."""
SHOWN = 8
"""So many nodes of a kind are named."""


@dataclass
class Refusals:
    """Refused nodes, each with its error, and the values that have no type for this reason."""

    found: list[tuple[Node, UnsupportedOperator]] = field(default_factory=list)
    untyped: set[str] = field(default_factory=set)

    @contextmanager
    def of(self, node: Node) -> Iterator[None]:
        """Note that the node is refused, instead of raising the error."""
        try:
            yield
        except UnsupportedOperator as error:
            self.found.append((node, error))
            self.untyped.update(filter(None, node.outputs))

    def passes(self, node: Node) -> bool:
        """Whether the node reads what has no type, so that its form cannot be judged; its operator is."""
        if self.untyped.isdisjoint(node.inputs):
            return False
        if node.op not in registry() and node.op not in controls():
            self.found.append((node, absent(node)))
        self.untyped.update(filter(None, node.outputs))
        return True

    def check(self) -> None:
        """Raise the only error, or one that lists the nodes of each kind with the nearest supported form."""
        if not self.found:
            return
        if len(self.found) == 1:
            raise self.found[0][1]
        kinds: dict[tuple[str, str, str], list[str]] = {}
        for node, error in self.found:
            reason = error.reason or error.cause
            kinds.setdefault((node.op, reason, error.hint), []).append(node.name)
        facts = [(op, _line(reason, hint, names)) for (op, reason, hint), names in kinds.items()]
        cause = f"{len(self.found)} nodes of the model are not supported, of {len(kinds)} kinds"
        raise UnsupportedOperator(cause, facts, "other nodes in the model, or operators in a package of your own")


def _line(reason: str, hint: str, names: Collection[str]) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:SHOWN])
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    count = f"{len(names)} node{'s' if len(names) > 1 else ''}"
    return f"{count}, {shown}{more}: {reason}; {hint}"


def absent(node: Node, domain: str = "") -> UnsupportedOperator:
    """The error for an operator that is not there; it names the nearest that a file may hold, if any is near."""
    facts = [("domain", domain or "default"), ("inputs", ", ".join(node.inputs) or "none")]
    if node.op in ABSENT and domain in ONNX:
        reason, hint = ABSENT[node.op]
        return UnsupportedOperator(f"node {node.name!r} ({node.op}): {reason}", facts, hint, reason)
    operators = [name for name, operator in registry().items() if operator.file and operator.file.in_files]
    names = {name.lower(): name for name in operators}
    near = [names[text] for text in difflib.get_close_matches(node.op.lower(), list(names), 3)]
    reason = "there is no such operator"
    hint = f"similar: {', '.join(near)}" if near else "`deployer operators` lists all"
    return UnsupportedOperator(f"node {node.name!r} ({node.op}): {reason}", facts, hint, reason)
