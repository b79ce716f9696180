"""Reverse-mode differentiation of a graph by the operators' own gradient rules."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from deployer.core.errors import GraphProblem, InternalError, NotDifferentiable
from deployer.core.ir import AttrValue, GraphNames, Node, TensorType
from deployer.core.operator import Array, operator_of
from deployer.frontend.graph_sort import live_nodes
from deployer.frontend.resolve import Resolved, static_form
from deployer.operators.elementwise.broadcast_grad import SUM, sum_to

_WAY_OUT = "freeze these weights (leave them out of --trainable), or write the node with other operators"


@dataclass(frozen=True)
class Backward:
    """The backward nodes in execution order, the constants they read, and the gradient of each parameter."""

    nodes: tuple[Node, ...]
    constants: dict[str, Array]
    types: dict[str, TensorType]
    gradients: dict[str, str]


@dataclass
class Tape:
    """The backward graph under construction, over the types and constants of the forward graph."""

    state: Resolved
    names: GraphNames
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    constant_names: dict[tuple[object, ...], str] = field(default_factory=dict)

    def append(
        self, owner: str, op: str, inputs: Sequence[str], outputs: Sequence[str], attrs: dict[str, AttrValue]
    ) -> None:
        """Add a node and type its outputs; raises what the operator's `infer` raises."""
        node = Node(self.names.fresh(f"{owner}_Grad/{op}"), op, tuple(inputs), tuple(outputs), attrs)
        operator = operator_of(node)
        fixed = static_form(self.state, node, operator)
        types = operator.infer(fixed, [self.state.types[n] if n else None for n in fixed.inputs])
        self.state.types.update({n: kind for n, kind in zip(outputs, types, strict=False) if n})
        self.nodes.append(node)

    def constant(self, label: str, value: Array) -> str:
        """A constant's name; equal constants of one label share it."""
        key = (label, value.dtype.str, value.shape, value.tobytes())
        if key not in self.constant_names:
            name = self.names.fresh(label)
            self.constant_names[key], self.constants[name], self.state.constants[name] = name, value, value
            dtype = "float32" if value.dtype.kind == "f" else "int32"
            self.state.types[name] = TensorType(dtype, value.shape)
        return self.constant_names[key]


@dataclass
class GradientRule:
    """The GradientBuilder of one node: `targets` maps each input that needs a gradient to the gradient's name."""

    tape: Tape
    node: Node
    targets: dict[int, str]

    def type(self, name: str) -> TensorType:
        """dtype and shape of any value."""
        return self.tape.state.types[name]

    def needs_grad(self, index: int) -> bool:
        """Whether the gradient of this input is needed."""
        return index in self.targets

    def grad(self, index: int) -> str:
        """Name of the gradient that the rule must produce for this input; nobody reads an unwanted one."""
        return self.targets.get(index) or self.temp("unwanted")

    def temp(self, label: str) -> str:
        """A fresh name for an intermediate value."""
        return self.tape.names.fresh(f"{self.node.name}_Grad/{label}")

    def emit(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: AttrValue) -> None:
        """Append a node to the backward graph."""
        self.tape.append(self.node.name, op, inputs, outputs, attrs)

    def constant(self, label: str, value: Array) -> str:
        """A constant tensor."""
        return self.tape.constant(f"grad_{label}", np.asarray(value))

    def reduce_to(self, name: str, shape: tuple[int, ...], out: str) -> None:
        """Produce `out` as the sum of `name` over the axes along which `shape` was broadcast."""
        sum_to(self, name, shape, out)


def differentiate(
    nodes: Sequence[Node],
    state: Resolved,
    loss: str,
    parameters: Sequence[str],
    names: GraphNames,
    first: Array | str | None = None,
) -> Backward:
    """The gradients of `loss` with respect to `parameters`.

    `nodes` is the forward graph in execution order, `state` its types and constants, `names` those in use. `first` is
    the gradient of the loss itself or the name of a value that is it; its node takes it for one where there is none.
    A value used several times gets `<value>_grad_0`, `<value>_grad_1`, ... and their sum `<value>_grad`.
    Raises NotDifferentiable with the node, and GraphProblem for a parameter that the loss does not depend on.
    """
    tape = Tape(Resolved(dict(state.types), dict(state.constants)), names)
    begin = first if first is None or isinstance(first, str) else tape.constant(f"{loss}_grad", first)
    totals = pull_back(tape, nodes, {loss: begin}, parameters)
    for name in parameters:
        if name not in totals:
            raise unreachable(name, [n for n in (fixed_form(state, node) for node in nodes) if name in n.inputs])
    live = live_nodes(tape.nodes, list(totals.values()), {}, lambda n: False)
    read = {name for node in live for name in node.inputs}
    constants = {name: value for name, value in tape.constants.items() if name in read}
    types = {n: tape.state.types[n] for node in live for n in node.outputs if n}
    return Backward(live, constants, types, totals)


def pull_back(
    tape: Tape, nodes: Sequence[Node], seeds: Mapping[str, str | None], sources: Sequence[str]
) -> dict[str, str]:
    """Write the gradients of those `sources` on which the seeds depend to the tape; their names.

    `seeds` are results of the nodes with their own gradients, of which None stands for one.
    """
    state = Resolved(dict(tape.state.types), dict(tape.state.constants))
    fixed = [fixed_form(state, node) for node in nodes]
    dependents = _dependents(fixed, state, sources)
    active, uses = _between(fixed, dependents, seeds)
    gradients = _Gradients(tape, uses)
    for name, seed in seeds.items():
        if seed is not None and uses[name]:
            gradients.terms[name] = [seed]
            uses[name] += 1
        elif seed is not None:
            gradients.totals[name] = seed
    for node in reversed(active):
        douts = tuple(gradients.total(name) for name in node.outputs)
        targets = {i: gradients.new_term(name) for i, name in enumerate(node.inputs) if name in dependents}
        try:
            apply_rule(tape, node, douts, targets)
        except NotDifferentiable as problem:
            behind = ", ".join(p for p in sources if _feeds(fixed, p, node))
            facts = [*problem.facts, ("weights behind it", behind)]
            raise NotDifferentiable(problem.cause, facts, problem.hint or _WAY_OUT) from None
    return {name: gradients.total(name) for name in sources if uses[name]}


def fixed_form(state: Resolved, node: Node) -> Node:
    """The node under its operator's own name, with static inputs as attributes."""
    operator = operator_of(node)
    return static_form(state, replace(node, op=operator.name), operator)


def apply_rule(tape: Tape, node: Node, douts: tuple[str, ...], targets: dict[int, str]) -> None:
    """Run the operator's gradient rule; raises NotDifferentiable if it leaves out the gradient of a target."""
    operator_of(node).gradient(node, douts, GradientRule(tape, node, targets))
    for index, target in targets.items():
        source = node.inputs[index]
        if target not in tape.state.types:
            raise NotDifferentiable(
                f"node {node.name!r} ({node.op}) has no gradient with respect to input {index}, {source!r}"
            )
        actual, expected = tape.state.types[target], tape.state.types[source]
        if actual != expected:
            raise InternalError(
                f"the gradient rule of {node.op} gives input {index} of node {node.name!r} another type",
                [("gradient", str(actual)), ("input", str(expected))],
            )


def unreachable(name: str, readers: Sequence[Node]) -> GraphProblem:
    """The error for a trainable parameter that the loss does not depend on."""
    listing = ", ".join(f"{n.name!r} ({n.op})" for n in readers) or "no node that the model's output needs"
    return GraphProblem(
        f"the loss does not depend on the trainable parameter {name!r}",
        [("read by", listing)],
        "freeze it (a --trainable expression that does not match it), or use it in the model",
    )


@dataclass
class _Gradients:
    """The parts of each value's gradient, one per consumer, and their sum."""

    tape: Tape
    uses: Counter[str]
    terms: dict[str, list[str]] = field(default_factory=dict)
    totals: dict[str, str] = field(default_factory=dict)

    def new_term(self, value: str) -> str:
        """The name for the next consumer's part."""
        terms = self.terms.setdefault(value, [])
        suffix = "" if self.uses[value] == 1 else f"_{len(terms)}"
        terms.append(self.tape.names.fresh(f"{value}_grad{suffix}"))
        return terms[-1]

    def total(self, value: str) -> str:
        """The name of the summed gradient, empty without parts; parts are added in the order of their creation."""
        if value not in self.totals:
            terms = self.terms.get(value, [""])
            total, fresh = terms[0], self.tape.names.fresh
            for i, term in enumerate(terms[1:], 2):
                out = fresh(f"{value}_grad" if i == len(terms) else f"{value}_grad_sum")
                self.tape.append(value, SUM, (total, term), (out,), {})
                total = out
            self.totals[value] = total
        return self.totals[value]


def _dependents(nodes: Sequence[Node], state: Resolved, sources: Sequence[str]) -> set[str]:
    """The float values that depend on `sources`, compile-time constants excluded."""
    dependents = set(sources)
    for node in nodes:
        if dependents.isdisjoint(node.inputs):
            continue
        outputs = (n for n in node.outputs if n and n not in state.constants)
        dependents.update(n for n in outputs if state.types[n].dtype == "float32")
    return dependents


def _between(nodes: Sequence[Node], dependents: set[str], results: Collection[str]) -> tuple[list[Node], Counter[str]]:
    """The nodes on a path from a source to a result, and the number of times they use each value of `dependents`."""
    live, uses, active = set(results) & dependents, Counter[str](), []
    for node in reversed(nodes):
        if live.isdisjoint(node.outputs):
            continue
        used = [name for name in node.inputs if name in dependents]
        live.update(used)
        uses.update(used)
        active.append(node)
    return active[::-1], uses


def _feeds(nodes: Sequence[Node], source: str, target: Node) -> bool:
    dependents = {source}
    for node in nodes:
        if not dependents.isdisjoint(node.inputs):
            dependents.update(filter(None, node.outputs))
    return not dependents.isdisjoint(target.inputs)
