"""A forward ONNX model as autodiff needs it: sorted live nodes, its parameters and their names in C."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from onnx import NodeProto, TensorProto

from deployer.core.errors import DeployerWarning, GraphProblem, NotDifferentiable, OptionProblem
from deployer.core.forms import family
from deployer.core.ir import GraphNames, Node, TensorType
from deployer.core.operator import Array, operator_of, registry
from deployer.core.safe_text import parameter_name
from deployer.frontend import parse
from deployer.frontend.graph_inputs import inference_roles
from deployer.frontend.graph_sort import check_producers, live_nodes, topological
from deployer.frontend.model_file import load_model
from deployer.frontend.model_parts import inlined
from deployer.frontend.opsets import CUSTOM, domain_of, schema_version
from deployer.frontend.prepare.axes import NO_AXES, Axes
from deployer.frontend.prepare.draws import Draws, find_draws, with_keys, without_draws
from deployer.frontend.raw_graph import RawConstant, RawGraph
from deployer.frontend.reader import ELEMENTS, is_literal
from deployer.frontend.resolve import Resolved, by_body, resolve
from deployer.training.autodiff import Rule, Tape, fixed_form, unreachable
from deployer.training.onnx_writer import input_form, node_proto

OPSET = 17
"""The lowest opset of a written graph."""


@dataclass(frozen=True)
class Forward:
    """A model with one output.

    `raw` holds only the nodes that the output needs, producers first; `protos` the file's node of each name,
    `inputs` the data inputs, `initializers` the float initializers in file order, `draws` the file's nodes that may
    draw random numbers, `notes` what is to be said of it.
    """

    raw: RawGraph
    protos: dict[str, NodeProto]
    inputs: dict[str, TensorType]
    initializers: tuple[str, ...]
    opset: int
    draws: Draws
    notes: tuple[DeployerWarning, ...] = ()

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


def load(path: Path, seed: int = 0, dropout: bool = True, axes: Axes = NO_AXES, is_step: bool = False) -> Forward:
    """Read a forward model, with keys of that seed for nodes that draw random numbers, or without drawing any.

    `axes` are lengths that the file leaves open. A whole training step has several outputs, and custom operators.
    Raises what reading raises, and GraphProblem where a forward model has not one output.
    """
    raw = parse.read_graphs(path, None, axes).main
    check_producers(raw)
    if len(raw.outputs) != 1 and not is_step:
        raise GraphProblem(
            f"{path} has {len(raw.outputs)} outputs, and the loss takes one",
            [("outputs", ", ".join(raw.outputs) or "none")],
            "leave the output that the loss reads",
        )
    inputs = inference_roles(raw).types
    model = load_model(path)
    protos = [n for n, _ in inlined(model) if not is_literal(n)]
    proto_by_name = {node.name: proto for node, proto in zip(raw.nodes, protos, strict=True)}
    raw = replace(raw, nodes=live_nodes(topological(raw), raw.outputs, {}, lambda n: False))
    draws = find_draws(raw)
    raw = with_keys(raw, seed) if dropout else without_draws(raw)
    floats = [t.name for t in model.graph.initializer if ELEMENTS.get(t.data_type) == "float32"]
    opset = max([OPSET, *(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))])
    source = Forward(raw, proto_by_name, inputs, tuple(floats), opset, draws)
    state = source.resolved()
    return replace(_in_opset(source, state), notes=state.notes)


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
        form, arrays = input_form(node, model.opset, names.fresh)
        nodes.append(form)
        protos[node.name] = node_proto(form)
        constants |= {name: _raw(array) for name, array in arrays.items()}
    known = {name: state.elements.get(name, TensorProto.INT64) for name in constants.keys() - raw.constants.keys()}
    elements = {name: kind for name, kind in known.items() if family(kind) != TensorProto.INT64}
    raw = replace(raw, nodes=tuple(nodes), constants=constants, elements=raw.elements | elements, versions={})
    return replace(model, raw=raw, protos=protos)


def _unwrapped(nodes: Sequence[Node]) -> list[Node]:
    """The nodes without those by which integers wrap, which come of the integers' types where the graph is read."""
    results = {node.inputs[0]: node.outputs[0] for node in nodes if registry()[node.op].wraps}
    own = [node for node in nodes if not registry()[node.op].wraps]
    return [replace(node, outputs=tuple(results.get(name, name) for name in node.outputs)) for node in own]


def _raw(array: Array) -> RawConstant:
    return RawConstant(array.dtype.name, array.shape, array.tobytes())


def _keeps(model: Forward, node: Node) -> bool:
    """Whether the file's node has the same schema under the opset of the training graph, stands for itself, and draws
    no random numbers.
    """
    operator, versions = registry().get(node.op), model.raw.versions.get(node.name, ())
    if operator is None or operator.composite or operator.passes is not None:
        return False
    if by_body(node, versions, model.raw.constants):
        return False
    return versions == (CUSTOM if domain_of(model.protos[node.name].domain) else schema_version(node.op, model.opset),)


def matches(expression: re.Pattern[str], parameter: str) -> bool:
    """Whether an expression is found in a parameter's name, or in its name in C."""
    return bool(expression.search(parameter) or expression.search(parameter_name(parameter)))


def choose_parameters(model: Forward, pattern: str) -> tuple[str, ...]:
    """The initializers to train, in file order.

    `pattern` is searched for (`re.search`) in the initializer's name and in its name in C. Empty: every
    initializer with at least one axis for which an operator that reads it gives a gradient.
    Raises OptionProblem where nothing matches, GraphProblem where a match is unused.
    """
    if not pattern:
        parameters = _default_parameters(model)
        if not parameters:
            raise OptionProblem(
                "the model has no initializer that can be trained",
                [("initializers", ", ".join(model.initializers) or "none")],
                "export the weights as float initializers",
            )
        return parameters
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise OptionProblem(f"--trainable {pattern!r} is no regular expression", [("cause", str(error))]) from None
    parameters = tuple(n for n in model.initializers if matches(expression, n))
    if not parameters:
        raise OptionProblem(
            f"--trainable {pattern!r} matches no initializer",
            [("initializers", ", ".join(model.initializers) or "none")],
            "an expression that is found in one of these names",
        )
    for name in parameters:
        if not any(name in node.inputs for node in model.raw.nodes):
            raise unreachable(name, ())
    return parameters


def _default_parameters(model: Forward) -> tuple[str, ...]:
    state = model.resolved()
    names = set(model.initializers)
    nodes = [n for n in model.raw.nodes if not names.isdisjoint(n.inputs)]
    candidates = {name for node in nodes for name in _places(fixed_form(state, node), state) if name in names}
    return tuple(n for n in model.initializers if n in candidates and model.raw.constants[n].shape)


def _places(node: Node, state: Resolved) -> set[str]:
    """The float inputs for which the gradient rule gives a gradient or raises; the user sees that error later."""
    names = set()
    for index, name in enumerate(node.inputs):
        if not name or state.types[name].dtype != "float32":
            continue
        tape = Tape(Resolved(dict(state.types), dict(state.constants)), GraphNames(set(state.types)))
        douts = tuple(tape.names.fresh(f"{output}_grad") if output else "" for output in node.outputs)
        tape.state.types.update({d: state.types[o] for d, o in zip(douts, node.outputs, strict=True) if d})
        target = tape.names.fresh(f"{name}_grad")
        try:
            operator_of(node).gradient(node, douts, Rule(tape, node, {index: target}))
        except NotDifferentiable:
            names.add(name)
        if target in tape.state.types:
            names.add(name)
    return names


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
    nodes = tuple(operator_of(n).training_form(n, names.fresh) for n in model.raw.nodes)
    protos = {new.name: node_proto(new) for old, new in zip(model.raw.nodes, nodes, strict=True) if new != old}
    return replace(model, raw=replace(model.raw, nodes=nodes), protos=model.protos | protos)
