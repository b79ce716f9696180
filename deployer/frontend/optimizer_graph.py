"""The optimizer graph of a file in the one form that is compiled: a node per weight, a known rate, a counted update."""

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from deployer.core.errors import GraphProblem, OptionProblem
from deployer.core.ir import GraphNames, Node
from deployer.core.operator import (
    Operator,
    accumulator_of,
    file_of,
    optimizers,
    registry,
    sequence_optimizers,
    unsupported,
    update_counter,
)
from deployer.core.traits.training import Counter, Optimizer, Sequences
from deployer.frontend.graph_inputs import BUFFER_SUFFIX
from deployer.frontend.opsets import limiters
from deployer.frontend.raw_graph import FileInput, RawGraph
from deployer.frontend.reader import check_tensors
from deployer.operators.update.accumulation import by_norm

UPDATED = "_updated"
"""Behind the name of a weight or a state, that of its value after the update."""


def prepared(optimizer: RawGraph, train: RawGraph, rate: float | None) -> RawGraph:
    """The graph over tensors alone, with `rate` where that is given, and with a node that counts where one is read.

    Raises GraphProblem, OptionProblem, ShapeMismatch and UnsupportedOperator.
    """
    joint = [node for node in optimizer.nodes if node.op in sequence_optimizers()]
    if len(joint) > 1:
        facts = [("nodes", ", ".join(f"{n.name!r} ({n.op})" for n in joint))]
        raise GraphProblem(f"the optimizer graph updates all weights {len(joint)} times", facts, "leave one of them")
    graph = _expanded(optimizer, joint[0], train, rate) if joint else optimizer
    check_tensors(graph.sequences)
    return _counted(_with_rate(graph, rate), train)


def _expanded(graph: RawGraph, node: Node, train: RawGraph, rate: float | None) -> RawGraph:
    """The graph with a node for each weight in place of the one over sequences, and with its states as inputs.

    A sequence has no names: its elements are the weights whose gradients the training graph accumulates. Inputs that
    nothing reads go: ONNX Runtime declares the same ones for every optimizer.
    """
    operator = sequence_optimizers()[node.op]
    declared, sequences = _declarations(operator)
    node, limit, rest = _unlimited(graph, node)
    _check_sequences(graph, node, rest)
    types = {item.name: item.declared for item in train.inputs}
    names = GraphNames({*types, *train.constants, *(name for other in train.nodes for name in other.outputs)})
    inputs = {item.name: item for item in graph.inputs if item.name not in graph.sequences}
    shared = {ours: node.inputs[theirs] for theirs, ours in sequences.places.items() if ours == declared.count}
    for position, name in shared.items():
        if name in inputs:
            shared[position] = names.fresh(name)
            inputs[shared[position]] = replace(inputs.pop(name), name=shared[position])
    attrs = {**node.attrs, declared.rate: _rate(graph, node, sequences.rate, rate)}
    trained = _trained(train)
    nodes, gradients = ([], trained) if limit is None else by_norm(trained, limit, names.fresh)
    updates = list[Node]()
    for weight, buffer in trained.items():
        states = {i: names.fresh(f"{weight}{state.suffix}") for i, state in sorted(declared.states.items())}
        operands = {declared.weight: weight, declared.gradient: gradients[weight]} | states
        inputs |= {name: FileInput(name, types[weight]) for name in (weight, buffer, *states.values())}
        results = {i: names.fresh(f"{operands[source]}{UPDATED}") for i, source in sorted(operator.inplace.items())}
        lists = _listed(operands | shared), _listed(results)
        updates.append(Node(f"{node.name}/{weight}", operator.name, *lists, dict(sorted(attrs.items()))))
    nodes = [*rest, *nodes, *updates]
    read = {name for other in nodes for name in other.inputs}
    return replace(
        graph,
        nodes=tuple(nodes),
        inputs=tuple(item for item in inputs.values() if item.name in read),
        outputs=tuple(name for update in updates for name in update.outputs if name),
        sequences=(),
    )


def _unlimited(graph: RawGraph, node: Node) -> tuple[Node, float | None, list[Node]]:
    """The optimizer over sequences as it reads gradients without a limit, the limit of their norm, and the other nodes.

    UnsupportedOperator where the node that limits them is not between the graph's input and the optimizer alone.
    """
    declared, sequences = _declarations(sequence_optimizers()[node.op])
    rest = [other for other in graph.nodes if other is not node]
    place = next(theirs for theirs, ours in sequences.places.items() if ours == declared.gradient)
    found = [other for other in rest if other.op in limiters() and node.inputs[place] in other.outputs]
    if not found:
        return node, None, rest
    [limiter] = found
    limits = limiters()[limiter.op]
    rest.remove(limiter)
    for other in (node, *rest):
        if limiter.outputs[0] in (n for i, n in enumerate(other.inputs) if other is not node or i != place):
            raise unsupported(other, f"it reads gradients that {limiter.op} has limited", "the optimizer alone")
    limit = float(np.float32(limiter.attr_float(limits.attribute, limits.limit)))
    if not 0 < limit < math.inf:
        raise unsupported(limiter, f"{limits.attribute} is {limit:g}", "a number above 0")
    inputs = tuple(limiter.inputs[0] if i == place else name for i, name in enumerate(node.inputs))
    form = replace(node, inputs=inputs)
    return form, limit, rest


def _declarations(operator: Operator) -> tuple[Optimizer, Sequences]:
    declared = operator.role(Optimizer)
    assert declared is not None
    assert declared.sequences is not None
    return declared, declared.sequences


def _listed(names: Mapping[int, str]) -> tuple[str, ...]:
    """Operands by position as a list."""
    return tuple(names.get(i, "") for i in range(max(names) + 1))


def _check_sequences(graph: RawGraph, node: Node, rest: list[Node]) -> None:
    """The sequences are inputs of the graph, which nothing else works on, and the results all its outputs."""
    declared, sequences = _declarations(sequence_optimizers()[node.op])
    inputs = {item.name for item in graph.inputs}
    for position, ours in sequences.places.items():
        name = node.inputs[position]
        if ours != declared.count and not (name in graph.sequences and name in inputs):
            raise unsupported(
                node, f"input {position} ({name!r}) is not a sequence that the graph has as an input", node.op
            )
    for name in node.inputs:
        if node.inputs.count(name) > 1:
            raise unsupported(node, f"input {name!r} is given {node.inputs.count(name)} times", "one each")
    for other in rest:
        if not {*graph.sequences, *node.outputs}.isdisjoint((*other.inputs, *other.outputs)):
            raise unsupported(other, f"it works on what {node.op} updates or has updated", f"{node.op} alone")
    for name in graph.outputs:
        if name not in node.outputs:
            facts = [("outputs", ", ".join(graph.outputs)), ("optimizer", f"node {node.name!r} ({node.op})")]
            raise GraphProblem(f"optimizer output {name!r} overwrites no weight", facts, "drop it from the outputs")


def _trained(train: RawGraph) -> dict[str, str]:
    """The accumulator of each weight that is trained, in the order of the training graph's inputs."""
    inputs = [item.name for item in train.inputs]
    places = [(node, accumulator) for node in train.nodes if (accumulator := accumulator_of(node))]
    buffers = {node.inputs[accumulator.buffer] for node, accumulator in places if len(node.inputs) > accumulator.buffer}
    if not buffers:
        raise GraphProblem("no weight is trained", hint="export the training graph with trainable parameters")
    trained = {}
    for buffer in sorted(buffers, key=lambda name: inputs.index(name) if name in inputs else -1):
        weight = buffer.removesuffix(BUFFER_SUFFIX)
        if weight == buffer or not {weight, buffer} <= {*inputs}:
            raise GraphProblem(
                f"accumulator {buffer!r} belongs to no weight of the training graph",
                [("training inputs", ", ".join(inputs))],
                f"an accumulator <weight>{BUFFER_SUFFIX} for each weight, which the optimizer cannot name",
            )
        trained[weight] = buffer
    return trained


def _rate(graph: RawGraph, node: Node, position: int, rate: float | None) -> float:
    """The rate that is given, else the constant at that input; OptionProblem where that has no value."""
    name = node.inputs[position]
    if rate is not None:
        return rate
    if name not in graph.constants:
        raise _no_rate(node, name)
    array = graph.constants[name].array
    if array.size != 1:
        raise unsupported(node, f"input {position} ({name!r}), its learning rate, has {array.size} elements", "one")
    return float(array.reshape(()))


def _no_rate(node: Node, name: str) -> OptionProblem:
    """The error for a rate that the runtime of another framework would set."""
    cause = f"the learning rate {name!r} is an input of the optimizer graph and has no value"
    return OptionProblem(cause, [("read by", f"node {node.name!r} ({node.op})")], "--lr, for example 0.01")


def _with_rate(optimizer: RawGraph, rate: float | None) -> RawGraph:
    """The graph with another rate, which no input gives any more."""
    open_inputs = {item.name for item in optimizer.inputs} - set(optimizer.constants)
    rate_inputs = {name for node in optimizer.nodes for name in _rate_inputs(node)} & open_inputs
    if rate is None:
        for node in optimizer.nodes:
            for name in rate_inputs.intersection(_rate_inputs(node)):
                raise _no_rate(node, name)
        return optimizer
    _check_one_rate(optimizer)
    nodes = tuple(_node_with_rate(node, rate) for node in optimizer.nodes)
    if nodes == optimizer.nodes and not any(_optimizer_of(node) for node in nodes):
        facts = [("nodes", ", ".join(sorted({n.op for n in nodes}))), ("optimizers", _shown_optimizers())]
        cause = "the optimizer graph has no node whose learning rate can be set"
        raise OptionProblem(cause, facts, "leave --lr out")
    unread = rate_inputs - {name for node in nodes for name in node.inputs}
    return replace(optimizer, nodes=nodes, inputs=tuple(i for i in optimizer.inputs if i.name not in unread))


def _check_one_rate(optimizer: RawGraph) -> None:
    """Raise OptionProblem where nodes have rates of their own, which one rate cannot replace."""
    rates: dict[object, str] = {}
    for node in optimizer.nodes:
        if (declared := _optimizer_of(node)) and declared.rate in node.attrs:
            rates.setdefault(node.attrs[declared.rate], node.name)
    if len(rates) > 1:
        facts = [(name, str(rate)) for rate, name in rates.items()]
        hint = "leave --lr out, or make the case with other rates"
        raise OptionProblem("the optimizer graph has several learning rates, and one is given", facts, hint)


def _optimizer_of(node: Node) -> Optimizer | None:
    operator = registry().get(node.op)
    return operator.role(Optimizer) if operator else None


def _shown_optimizers() -> str:
    return ", ".join(operator.name for operator in optimizers().values())


def _rate_inputs(node: Node) -> Collection[str]:
    """The inputs of an optimizer that give its rate."""
    optimizer = _optimizer_of(node)
    static = file_of(registry()[node.op]).static_inputs if optimizer else {}
    return {name for i, name in enumerate(node.inputs) if optimizer and name and static.get(i) == optimizer.rate}


def _node_with_rate(node: Node, rate: float) -> Node:
    """The node with another rate, which its input gives no more."""
    optimizer = _optimizer_of(node)
    if optimizer is None:
        return node
    inputs = tuple("" if name in _rate_inputs(node) else name for name in node.inputs)
    return replace(node, inputs=inputs, attrs={**node.attrs, optimizer.rate: rate})


def _counted(optimizer: RawGraph, train: RawGraph) -> RawGraph:
    """The graph with a counter for each of its own inputs that optimizers read the number of the update from.

    In a file that input is what the framework's runtime counts; here it is a state like any other.
    """
    own = {item.name for item in optimizer.inputs} - set(optimizer.constants) - {item.name for item in train.inputs}
    places = {n.name: o.count for n in optimizer.nodes if (o := _optimizer_of(n)) and o.count is not None}
    count_inputs = (name for n in optimizer.nodes for i, name in enumerate(n.inputs) if i == places.get(n.name))
    read = [name for name in dict.fromkeys(count_inputs) if name in own]
    if not read:
        return optimizer
    counter = update_counter()
    places_of_count = counter.role(Counter)
    assert places_of_count is not None
    counters = []
    after = {name: f"{name}{UPDATED}" for name in read}
    for name, updated in after.items():
        operands, results = {places_of_count.operand: name}, {i: updated for i in counter.inplace}
        counters.append(Node(f"{name}/count", counter.name, _listed(operands), _listed(results)))
    nodes = [
        replace(n, inputs=tuple(after.get(x, x) if i == places.get(n.name) else x for i, x in enumerate(n.inputs)))
        for n in optimizer.nodes
    ]
    outputs = (*optimizer.outputs, *after.values())
    return replace(optimizer, nodes=(*counters, *nodes), outputs=outputs)
