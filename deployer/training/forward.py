"""A forward ONNX model as autodiff needs it: sorted live nodes, its parameters and their names in C."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from onnx import ModelProto, NodeProto, TensorProto

from deployer.core.errors import DeployerWarning, GraphProblem
from deployer.core.ir import GraphNames, Node, TensorType
from deployer.core.operator import Array, numerics_of, registry, training_of
from deployer.core.safe_text import parameter_name
from deployer.core.signatures import family
from deployer.frontend import parse
from deployer.frontend.graph_inputs import inference_roles
from deployer.frontend.graph_sort import check_producers, live_nodes, topological
from deployer.frontend.model_file import load_model
from deployer.frontend.model_parts import inlined
from deployer.frontend.opsets import CUSTOM, domain_of, schema_version
from deployer.frontend.prepare import NO_AXES, Axes, GraphDraws, find_draws, with_keys, without_draws
from deployer.frontend.quantized.model import pack
from deployer.frontend.raw_graph import RawConstant, RawGraph
from deployer.frontend.reader import is_literal
from deployer.frontend.resolve import Resolved, by_body, resolve
from deployer.training.onnx_writer import input_form, node_proto
from deployer.training.tensors.edits import FLOATS, NO_EDITS, Edits
from deployer.training.tensors.origins import UNTOLD, Origins, origins_of

OPSET = 17
"""The lowest opset of a written graph."""


@dataclass(frozen=True)
class Forward:
    """A model with one output.

    `raw` holds only the nodes that the output needs, producers first; `protos` the file's node of each name,
    `inputs` the data inputs, `initializers` the float constants of the file, `literals` those among them that nodes
    hold, `hoisted` those that were inside of a node, by that node. `origins` is what exporters say of nodes, `shared`
    leads from constants of functions that are called several times to what they have in common, `parted` from each
    parameter that was merged with another one to that, `unused` has shapes of those that no node reads, `read` is the
    model as it was read, `draws` are the file's nodes that may draw random numbers, `notes` what is to be said of the
    model, `packed` constants that were made of numbers of 8 bits.
    """

    raw: RawGraph
    protos: dict[str, NodeProto]
    inputs: dict[str, TensorType]
    initializers: tuple[str, ...]
    opset: int
    draws: GraphDraws
    notes: tuple[DeployerWarning, ...] = ()
    literals: frozenset[str] = frozenset()
    hoisted: Mapping[str, str] = field(default_factory=dict)
    origins: Origins = UNTOLD
    shared: Mapping[str, str] = field(default_factory=dict)
    parted: Mapping[str, str] = field(default_factory=dict)
    unused: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    read: Resolved = field(default_factory=lambda: Resolved({}, {}))
    packed: frozenset[str] = frozenset()

    @property
    def output(self) -> str:
        """The model's only output."""
        return self.raw.outputs[0]

    def resolved(self, trained: Mapping[str, TensorType] | None = None) -> Resolved:
        """Types and compile-time constants, trained parameters being inputs; raises what `resolve` raises."""
        return resolve(self.raw, self.raw.nodes, {**self.inputs, **(trained or {})})

    def parameter_types(self, names: Mapping[str, str]) -> dict[str, TensorType]:
        """Types of parameters, under the values of `names`."""
        constants = self.raw.constants
        return {new: TensorType("float32", constants[old].shape) for old, new in names.items()}


def load(
    path: Path,
    seed: int = 0,
    dropout: bool = True,
    axes: Axes = NO_AXES,
    edits: Edits = NO_EDITS,
    is_step: bool = False,
) -> Forward:
    """Read a forward model, with keys of that seed for nodes that draw random numbers, or without drawing any.

    `axes` are lengths that the file leaves open, `edits` rewrite the model first. A whole training step has several
    outputs, and custom operators.
    Raises what reading raises, and GraphProblem where a forward model has not one output.
    """
    raw = parse.read_graphs(path, None, axes, edits.apply).main
    check_producers(raw)
    if len(raw.outputs) != 1 and not is_step:
        raise GraphProblem(
            f"{path} has {len(raw.outputs)} outputs, and the loss takes one",
            [("outputs", ", ".join(raw.outputs) or "none")],
            "leave the output that the loss reads",
        )
    inputs = inference_roles(raw).types
    model = load_model(path)
    hoisted, parted = edits.apply(model)
    packed = pack(model)
    calls = [n for n, _ in inlined(model)]
    protos = [n for n in calls if not is_literal(n)]
    proto_by_name = {node.name: proto for node, proto in zip(raw.nodes, protos, strict=True)}
    origins = origins_of(model.producer_name, proto_by_name.items())
    raw = replace(raw, nodes=live_nodes(topological(raw), raw.outputs, {}, lambda n: False))
    draws = find_draws(raw)
    raw = with_keys(raw, seed) if dropout else without_draws(raw)
    literals = [n.output[0] for n in calls if is_literal(n)]
    names = (*(t.name for t in model.graph.initializer), *literals)
    floats = [n for n in names if n in raw.constants and raw.constants[n].dtype == "float32" and n not in packed]
    left = [t for t in model.graph.initializer if t.name not in raw.constants and t.data_type in FLOATS]
    unused = {tensor.name: tuple(tensor.dims) for tensor in left}
    opset = max([OPSET, *(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))])
    told = frozenset(literals), hoisted, origins, _shared(model, calls), parted, unused
    source = Forward(raw, proto_by_name, inputs, tuple(floats), opset, draws, (), *told)
    state = source.resolved()
    return replace(_in_opset(source, state), notes=state.notes, read=state, packed=packed)


def _shared(model: ModelProto, calls: Sequence[NodeProto]) -> dict[str, str]:
    """The constants of functions that several calls have, each with a text that is the same for all calls."""
    own = {node.output[0] for node in model.graph.node if is_literal(node)}
    labels = {
        n.output[0]: f"{n.output[0].rpartition('/')[2]} {hash(tuple(a.SerializeToString() for a in n.attribute))}"
        for n in calls
        if is_literal(n) and n.output[0] not in own
    }
    counts = Counter(labels.values())
    return {name: label for name, label in labels.items() if counts[label] > 1}


def _in_opset(model: Forward, state: Resolved) -> Forward:
    """The model with each node in the form of the opset of the training graph; `state` is the resolved model."""
    raw, read = model.raw, _unwrapped(state.read)
    if all(_keeps(model, node) for node in raw.nodes) and read == list(raw.nodes):
        return replace(model, raw=replace(raw, versions={}))
    names = GraphNames(
        {*raw.constants, *model.inputs, *(n for node in raw.nodes for n in (*node.inputs, *node.outputs))}
    )
    nodes, protos, constants = [], {}, dict(raw.constants)
    as_read = {node.name: node for node in raw.nodes}
    constants |= {name: _raw(state.fixed[name]) for node in read for name in node.inputs if name in state.fixed}
    for node in read:
        if node == as_read.get(node.name) and _keeps(model, node):
            nodes.append(node)
            protos[node.name] = model.protos[node.name]
            continue
        written, arrays = input_form(node, model.opset, names.fresh)
        nodes.append(written)
        protos[node.name] = node_proto(written)
        constants |= {name: _raw(array) for name, array in arrays.items()}
    known = {name: state.elements.get(name, TensorProto.INT64) for name in constants.keys() - raw.constants.keys()}
    elements = {name: kind for name, kind in known.items() if family(kind) != TensorProto.INT64}
    raw = replace(raw, nodes=tuple(nodes), constants=constants, elements=raw.elements | elements, versions={})
    return replace(model, raw=raw, protos=protos)


def _unwrapped(nodes: Sequence[Node]) -> list[Node]:
    """The nodes without those by which integers wrap, which come of the integers' types where the graph is read."""
    results = {node.inputs[0]: node.outputs[0] for node in nodes if numerics_of(node).wraps}
    own = [node for node in nodes if not numerics_of(node).wraps]
    return [replace(node, outputs=tuple(results.get(name, name) for name in node.outputs)) for node in own]


def _raw(array: Array) -> RawConstant:
    return RawConstant(array.dtype.name, array.shape, array.tobytes())


def _keeps(model: Forward, node: Node) -> bool:
    """Whether the file's node has the same schema under the opset of the training graph, stands for itself, and draws
    no random numbers.
    """
    operator, versions = registry().get(node.op), model.raw.versions.get(node.name, ())
    if operator is None or operator.composite or training_of(node).passes is not None:
        return False
    if by_body(node, versions, model.raw.constants, model.raw.elements):
        return False
    return versions == (CUSTOM if domain_of(model.protos[node.name].domain) else schema_version(node.op, model.opset),)


def matches(expression: re.Pattern[str], parameter: str) -> bool:
    """Whether an expression is found in a parameter's name, or in its name in C."""
    return bool(expression.search(parameter) or expression.search(parameter_name(parameter)))


def renamed(model: Forward, names: Mapping[str, str]) -> Forward:
    """The model with values renamed; `names` holds those that change."""

    def new(name: str) -> str:
        return names.get(name, name)

    def proto_of(node: Node) -> NodeProto:
        proto = NodeProto()
        proto.CopyFrom(model.protos[node.name])
        proto.name = node.name
        proto.input[:] = map(new, proto.input)
        return proto

    raw = model.raw
    nodes = tuple(replace(n, inputs=tuple(map(new, n.inputs))) for n in raw.nodes)
    constants = {new(n): c for n, c in raw.constants.items()}
    declared = {new(n): d for n, d in raw.declared.items()}
    protos = {n.name: proto_of(n) for n in raw.nodes}
    initializers = tuple(map(new, model.initializers))
    raw = replace(raw, nodes=nodes, constants=constants, declared=declared)
    return replace(model, raw=raw, protos=protos, initializers=initializers)


def training_forms(model: Forward, names: GraphNames) -> Forward:
    """The model with its nodes in the form that saves what their gradients read."""
    nodes = tuple(training_of(n).training_form(n, names.fresh) for n in model.raw.nodes)
    protos = {new.name: node_proto(new) for old, new in zip(model.raw.nodes, nodes, strict=True) if new != old}
    return replace(model, raw=replace(model.raw, nodes=nodes), protos=model.protos | protos)
