"""A raw graph to typed nodes with kernels: static inputs, types, constant folding, lowering, views, in-place."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from onnx import TensorProto

from deployer.core.errors import DeployerError, DeployerWarning, ShapeMismatch, UnsupportedOperator
from deployer.core.ir import AttrValue, GraphNames, Node, TensorType
from deployer.core.limits import check_type
from deployer.core.operator import (
    Array,
    Operator,
    execution_of,
    file_of,
    numerics_of,
    registry,
    training_of,
    unsupported,
)
from deployer.core.signatures import has_body
from deployer.core.traits.execution import with_carry
from deployer.core.traits.training import Accumulator
from deployer.frontend.data_numbers import check_indices
from deployer.frontend.functions.bodies import BodyNode, Scope, body, without_empty
from deployer.frontend.functions.control import control_nodes
from deployer.frontend.model_parts import ValueNames
from deployer.frontend.node_checks import (
    agrees,
    check_counted,
    check_elements,
    check_wide,
    element_types,
    inferred,
    refusing_malformed,
    two_elements,
    within_types,
    wrapped,
)
from deployer.frontend.opsets import current_form
from deployer.frontend.prepare import Refusals, absent
from deployer.frontend.raw_graph import DeclaredTypes, RawGraph
from deployer.frontend.rests import Rests

FOLD_LIMIT = 1 << 20
"""Bytes up to which the result of a node with constant inputs replaces the node; views always fold."""


@dataclass
class Resolved:
    """Types, constants and storage of every value met so far, and the nodes that remain.

    `storage` leads from a view to its source and from an in-place output to the operand it overwrites. `dropped` are
    the outputs that a node may have though no kernel computes them, each with its node. `read` are the file's nodes
    in the newest form of their operators, `whole` the same before composite ones became others. `warnings` holds each
    warning by the name of its value.

    `bodies` holds the operator of each node of the file that a function's body replaces, `fixed` the constants of
    bodies, `empty` the values of theirs that have no elements, `elements` ONNX's element types of values, where known.
    `rests` are what means lack.
    """

    types: dict[str, TensorType]
    constants: dict[str, Array]
    nodes: list[Node] = field(default_factory=list)
    storage: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, Node] = field(default_factory=dict)
    read: list[Node] = field(default_factory=list)
    whole: list[Node] = field(default_factory=list)
    warnings: dict[str, DeployerWarning] = field(default_factory=dict)
    elements: dict[str, int] = field(default_factory=dict)
    fixed: dict[str, Array] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)
    empty: set[str] = field(default_factory=set)
    rests: Rests = field(default_factory=Rests)

    @property
    def notes(self) -> tuple[DeployerWarning, ...]:
        """Notes on the graph: its warnings, and the nodes that are computed by function bodies."""
        found = tuple(self.warnings.values())
        if not self.bodies:
            return found
        facts = [
            (op, ", ".join(n for n, of in self.bodies.items() if of == op)) for op in sorted({*self.bodies.values()})
        ]
        count = f"{len(facts)} operators of ONNX have" if len(facts) > 1 else f"{facts[0][0]} of ONNX has"
        cause = f"{count} no implementation here for these nodes, which their ONNX function bodies compute"
        return (*found, DeployerWarning(cause, facts))

    def check_computed(self, name: str, reader: str) -> None:
        """Raise UnsupportedOperator if `name` is an output that no node computes; `reader` names the node or graph."""
        if name in self.dropped:
            node = self.dropped[name]
            why = f"{reader} reads its output {node.outputs.index(name)} ({name!r}), which nothing here computes"
            raise unsupported(node, why, "the first output alone")

    def root(self, name: str) -> str:
        """The tensor whose memory `name` uses."""
        while self.storage.get(name, name) != name:
            name = self.storage[name]
        return name


def resolve(graph: RawGraph, nodes: tuple[Node, ...], inputs: Mapping[str, TensorType]) -> Resolved:
    """Resolve sorted nodes; raises UnsupportedOperator for all nodes without a supported form, else ShapeMismatch."""
    constants: dict[str, Array] = {n: c.array for n, c in graph.constants.items() if n not in inputs}
    for name, array in constants.items():
        check_type(f"constant {name!r}", _type_of(array))
    state = Resolved({**inputs, **{n: _type_of(c) for n, c in constants.items()}}, constants)
    state.elements.update(graph.elements)
    names = {*state.types, *(name for node in nodes for name in (*node.inputs, *node.outputs))}
    state.warnings.update({key: DeployerWarning(cause, facts) for key, (cause, facts) in graph.notes.items()})
    known = state.types, state.elements, state.constants
    own = ValueNames(names), GraphNames({node.name for node in nodes}), {**graph.graphs}
    scope = Scope(*known, *own, state.warnings, graph.graphs)
    refusals = Refusals()
    try:
        for node in nodes:
            if not refusals.passes(node):
                with refusals.of(node):
                    _read(state, graph, node, graph.versions.get(node.name, ()), scope)
    except DeployerError:
        refusals.check()
        raise
    refusals.check()
    return state


def _read(state: Resolved, graph: RawGraph, node: Node, versions: tuple[int, ...], scope: Scope) -> None:
    """Type a node of the file, or of a function's body, and what it stands for."""
    if node.name in scope.graphs:
        for inner in control_nodes(node, scope):
            _read_body_node(state, graph, inner, scope)
        return
    elements = element_types(node, versions, state.elements)
    state.elements |= elements
    if by_body(node, versions, state.constants, state.elements) and _read_body(state, graph, node, versions, scope):
        _check_elements(state, node, versions)
        return
    _find(node, graph.domains.get(node.name, ""))
    known = _with_shape(graph, _with_sources(state, node))
    kept, wraps = within_types(known, elements)
    for item in (*_in_current_form(state, kept, versions), *wraps):
        state.whole.append(item)
        _read_pieces(state, graph, item)
    check_wide(known, elements, state.constants)
    state.constants |= wrapped(known, elements, state.constants)
    _check_elements(state, node, versions)


def _check_elements(state: Resolved, node: Node, versions: tuple[int, ...]) -> None:
    """Check the types of a node's inputs; a list without elements has none of a wrong type."""
    empty = {name for name in node.inputs if name in state.constants and not state.constants[name].size}
    inputs = set(node.inputs) - empty
    known = {name: state.elements[name] for name in inputs & state.elements.keys()}
    floats = {name for name in inputs & state.types.keys() if state.types[name].dtype == "float32"}
    check_elements(node, versions, known | dict.fromkeys(floats, int(TensorProto.FLOAT)))


def by_body(node: Node, versions: tuple[int, ...], constants: Collection[str], elements: Mapping[str, int]) -> bool:
    """Whether the node is a function of ONNX without operator here, or with one that has not its form, or wants what
    is no constant.
    """
    if not versions or not all(version and has_body(node.op, version) for version in versions):
        return False
    operator = registry().get(node.op)
    if operator is None:
        return True
    file = file_of(operator)
    if file.by_body(node, elements):
        return True
    given = {position: name for position, name in enumerate(node.inputs) if name and position in file.static_inputs}
    return any(n not in constants and file.is_static(p, None) for p, n in given.items())


def _read_body(state: Resolved, graph: RawGraph, node: Node, versions: tuple[int, ...], scope: Scope) -> bool:
    """Type the nodes of a function's body; False where that fails, and an operator of that name has a better reason.

    An operator that has not the node's form has none: it would compute something else.
    """
    for name in node.inputs:
        state.check_computed(name, f"node {node.name!r} ({node.op})")
    before = len(state.read), len(state.whole)
    try:
        for item in body(node, versions, scope):
            _read_body_node(state, graph, item, scope)
    except UnsupportedOperator:
        _forget(state, before)
        operator = registry().get(node.op)
        if operator is not None and not file_of(operator).by_body(node, state.elements):
            return False
        raise
    if node.name in graph.versions:
        state.bodies[node.name] = node.op
    return True


def _read_body_node(state: Resolved, graph: RawGraph, item: BodyNode, scope: Scope) -> None:
    """Type a node of a body; where its results are the same for any values, they are constants, and it is no node."""
    if item.bools:
        state.elements |= dict.fromkeys(item.node.outputs, TensorProto.BOOL)
    if item.constant is not None:
        name, array = item.node.outputs[0], item.constant.array
        state.types[name], state.constants[name], state.fixed[name] = _type_of(array), array, array
        return
    before = len(state.read), len(state.whole)
    node = without_empty(item.node, item.versions, state.empty)
    if not state.empty.isdisjoint(node.inputs):
        name = next(name for name in node.inputs if name in state.empty)
        raise unsupported(node, f"its input {name!r} has no elements", "a call whose body computes no empty values")
    node = _with_elements(state, node)
    check_counted(node, state.constants)
    _read(state, graph, node, item.versions, scope)
    if _is_fixed(state, item.node):
        _forget(state, before)
        state.fixed |= {name: state.constants[name] for name in item.node.outputs if name}


def _forget(state: Resolved, counts: tuple[int, int]) -> None:
    """Drop the nodes that were read since there were so many."""
    del state.read[counts[0] :]
    del state.whole[counts[1] :]


def _with_elements(state: Resolved, node: Node) -> Node:
    """The node without outputs that have no elements, where it may leave out outputs; these are `empty`."""
    operator = registry().get(node.op)
    if operator is None or not file_of(operator).counts_outputs:
        return node
    fixed = static_form(state, node, operator)
    types = inferred(operator, fixed, [state.types[n] if n else None for n in fixed.inputs])
    floats = {n for n, kind in zip(node.outputs, types, strict=False) if kind.dtype == "float32" and not kind.size}
    state.empty |= floats
    return replace(node, outputs=tuple("" if name in floats else name for name in node.outputs))


def _is_fixed(state: Resolved, node: Node) -> bool:
    """Whether a node of a body gives constants that depend on types and on the body alone."""
    operator = registry().get(node.op)
    by_type = operator is not None and file_of(operator).type_only
    known = by_type or all(name in state.fixed for name in node.inputs if name)
    return known and all(name in state.constants for name in node.outputs if name)


def _read_pieces(state: Resolved, graph: RawGraph, node: Node) -> None:
    """Type the node, or those that a composite operator stands for, which may be composite again.

    An output that these do not compute is dropped.
    """
    operator = _find(node, "")
    lowered = None
    if operator.composite:
        fixed = static_form(state, replace(node, op=operator.name), operator)
        inputs = [state.types[n] if n else None for n in fixed.inputs]
        inferred(operator, fixed, inputs)
        with refusing_malformed(fixed):
            lowered = operator.lower(fixed, inputs)
        node = fixed
    if not lowered:
        state.read.append(node)
        _add(state, graph, node, operator)
        return
    results = {name for lowered_node in lowered for name in lowered_node.outputs}
    state.dropped.update((name, node) for name in node.outputs if name and name not in results)
    for lowered_node in lowered:
        _read_pieces(state, graph, lowered_node)


def _with_sources(state: Resolved, node: Node) -> Node:
    """The node with what it recomputes an absent output from, and that output's attributes, in place of the output."""
    inputs, attrs = list(node.inputs), dict(node.attrs)
    for position, declared in training_of(node).recomputed.items():
        name = inputs[position] if position < len(inputs) else ""
        maker = state.dropped.get(name)
        if maker is not None and (maker.op, maker.outputs.index(name)) == (declared.op, declared.output):
            inputs[position] = maker.inputs[declared.source]
            attrs |= maker.attrs
    return replace(node, inputs=tuple(inputs), attrs=attrs)


def _with_shape(graph: RawGraph, node: Node) -> Node:
    """The node with the declared shape of its result, where its inputs leave that open and no attribute says it."""
    attribute = file_of(registry()[node.op]).open_shape
    declared = graph.declared.get(node.outputs[0]) if attribute and node.outputs else None
    if declared is None or attribute in node.attrs or not declared.static:
        return node
    return replace(node, attrs={**node.attrs, attribute: declared.shape or ()})


def _in_current_form(state: Resolved, node: Node, versions: tuple[int, ...]) -> list[Node]:
    """The file's node in the newest form of its operator."""
    for name in node.inputs:
        state.check_computed(name, f"node {node.name!r} ({node.op})")
    return current_form(node, versions, [state.types[name] if name else None for name in node.inputs])


def _find(node: Node, domain: str) -> Operator:
    operators = registry()
    if node.op in operators:
        return operators[node.op]
    raise absent(node, domain)


def _add(state: Resolved, graph: RawGraph, raw: Node, operator: Operator) -> None:
    """Type one node and fold, lower, alias or keep it."""
    for name in raw.inputs:
        state.check_computed(name, f"node {raw.name!r} ({raw.op})")
    node = state.rests.completed(static_form(state, replace(raw, op=operator.name), operator), numerics_of(raw).centre)
    inputs = [state.types[n] if n else None for n in node.inputs]
    types = inferred(operator, node, inputs)
    if len(types) < len(node.outputs):
        raise unsupported(node, f"it has {len(node.outputs)} outputs", f"at most {len(types)} outputs")
    for name, kind in zip(node.outputs, types, strict=False):
        if name:
            state.types[name] = kind
            if not operator.role(Accumulator):  # whose output exporters declare as the flag
                _compare(state, graph, node, name)
    if _folded(state, node, operator, types):
        state.dropped.update((name, node) for name in node.outputs if name and name not in state.constants)
        return
    with refusing_malformed(node):
        lowered = operator.lower(node, inputs)
    if lowered is not None:
        results = {name for lowered_node in lowered for name in lowered_node.outputs}
        state.dropped.update((name, node) for name in node.outputs if name and name not in results)
        for lowered_node in lowered:
            _add(state, graph, lowered_node, _find(lowered_node, ""))
        return
    if operator.view:
        state.storage[node.outputs[0]] = node.inputs[0]
        state.rests.see_view(node)
        return
    if operator.kernel is None:
        raise unsupported(node, "it has no kernel, and its inputs are not constant", "computing it in the exporter")
    for output, source in operator.inplace.items():
        state.storage[node.outputs[output]] = node.inputs[source]
    with refusing_malformed(node):
        node, carried = with_carry(execution_of(operator).sums, node, partial(operator.access, node, state.types))
    state.types |= carried
    _narrow(state, node, operator)
    state.nodes.append(node)


def _narrow(state: Resolved, node: Node, operator: Operator) -> None:
    """Give constants that a kernel reads as 8 bits that type; a file's integers have 64 bits so far."""
    if operator.kernel is None or "int8" not in {dtype for _, dtype, _ in operator.kernel.pointers}:
        return
    pointers = {arg: dtype for arg, dtype, _ in operator.kernel.pointers}
    with refusing_malformed(node):
        operands = operator.access(node, state.types).operands
    for operand in operands:
        kind = state.types[operand.tensor]
        if pointers[operand.arg] == "int8" and operand.tensor in state.constants and kind.dtype == "int32":
            array = state.constants[operand.tensor]
            if array.size and not (array.min() >= -128 and array.max() <= 127):
                far = array.min() if array.min() < -128 else array.max()
                raise unsupported(node, f"its constant {operand.tensor!r} holds {far}", "numbers from -128 to 127")
            state.types[operand.tensor] = TensorType("int8", kind.shape)


def static_form(state: Resolved, node: Node, operator: Operator) -> Node:
    """The node with static inputs as attributes, a name for each in-place output, and no empty names at the end."""
    inputs, attrs, file = list(node.inputs), dict(node.attrs), file_of(operator)
    for position, attribute in file.static_inputs.items():
        name = inputs[position] if position < len(inputs) else ""
        if not name or not file.is_static(position, state.constants.get(name)):
            continue
        if name not in state.constants:
            raise unsupported(
                node,
                f"input {position} ({name!r}), its {attribute!r}, is computed at run time",
                f"a constant, an initializer, or a {_type_only()} of a tensor with static shape",
            )
        if state.constants[name].ndim > 1:
            shape = list(state.constants[name].shape)
            cause = f"input {position} ({name!r}), its {attribute!r}, has shape {shape}"
            raise unsupported(node, cause, "a list of numbers, or one number")
        attrs[attribute] = _attribute(state.constants[name])
        inputs[position] = ""
    outputs = list(node.outputs)
    for position in operator.inplace:
        outputs += [""] * (position + 1 - len(outputs))
        outputs[position] = outputs[position] or f"{node.name}/overwritten"
    if not file.counts_outputs:
        outputs = list(_trimmed(outputs))
    return replace(node, inputs=_trimmed(inputs), outputs=tuple(outputs), attrs=attrs)


def _type_only() -> str:
    return " or ".join(name for name, operator in registry().items() if file_of(operator).type_only)


def _attribute(array: Array) -> AttrValue:
    value: AttrValue = array.item() if array.ndim == 0 else tuple(array.reshape(-1).tolist())
    return value


def _trimmed(names: list[str]) -> tuple[str, ...]:
    while names and not names[-1]:
        names.pop()
    return tuple(names)


def _folded(state: Resolved, node: Node, operator: Operator, types: tuple[TensorType, ...]) -> bool:
    """Replace a node with constant inputs by the constants it computes; False if it stays."""
    if operator.inplace or training_of(node).passes is not None:
        return False
    if file_of(operator).type_only:
        shape = state.types[node.inputs[0]].shape
        operands: list[Array | None] = [np.broadcast_to(np.float32(0), shape)]
    elif all(n in state.constants for n in node.inputs if n):
        if not operator.view and sum(t.bytes for t in types) > FOLD_LIMIT:
            return False
        operands = [state.constants[n] if n else None for n in node.inputs]
        indices = numerics_of(node).indices(node, state.types)
        if indices:
            check_indices(node, indices, state.constants[indices.input], f"constant {indices.input!r}")
    else:
        return False
    with refusing_malformed(node):
        results = operator.reference(node, operands)
    for name, result, kind in zip(node.outputs, results, types, strict=False):
        if name:
            wide = np.float32 if kind.dtype == "float32" else np.int64
            state.constants[name] = np.asarray(result).astype(wide).reshape(kind.shape)
    return True


def _type_of(array: Array) -> TensorType:
    return TensorType("float32" if array.dtype.kind == "f" else "int32", array.shape)


def _compare(state: Resolved, graph: RawGraph, node: Node, name: str) -> None:
    """Compare the type of a value with its declaration in the file.

    Where they differ, a graph output raises ShapeMismatch; any other value gets a warning and keeps its inferred type.
    """
    kind, declared = state.types[name], graph.declared.get(name, DeclaredTypes())
    elements = two_elements(state.elements.get(name, 0), declared)
    if agrees(kind, declared) and not elements:
        return
    shape = "?" if declared.shape is None else ",".join("?" if a < 0 else str(a) for a in declared.shape)
    cause = f"node {node.name!r} ({node.op}): {name!r} is declared with another type than its inputs give it"
    facts = [("declared", f"{declared.dtype or '?'}[{shape}]"), ("inferred", str(kind)), *elements]
    hint = "correct the declaration, or drop it from the file"
    if name in graph.outputs:
        raise ShapeMismatch(cause, facts, hint)
    state.warnings.setdefault(name, DeployerWarning(f"{cause}, and the latter is used", facts, hint))
