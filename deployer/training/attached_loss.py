"""The loss behind a model: a node over its output and a target, or the output itself."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from deployer.core.errors import DeployerWarning, GraphProblem, OptionProblem, ShapeMismatch, Warn
from deployer.core.ir import GraphNames, Node, TensorType
from deployer.core.operator import Array, Operator, losses, numerics_of, operator_of
from deployer.core.traits.training import Loss
from deployer.frontend.resolve import Resolved
from deployer.training.forward import Forward
from deployer.training.samples import Bounds
from deployer.training.settings import Attributes

OWN_LOSS = "model"
"""The choice for a model whose output is the loss."""
WEIGHTS = "class_weights"


@dataclass(frozen=True)
class OutputChoice:
    """A loss with its attributes and class weights; without an operator the model's output is the loss."""

    operator: Operator | None
    attributes: Attributes = field(default_factory=dict)
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Raise OptionProblem for class weights that nothing reads, or that are no weights."""
        if not self.weights:
            return
        if self.operator is None or self.declared.weights is None:
            known = [name for name, op in losses().items() if (loss := op.role(Loss)) and loss.weights is not None]
            raise OptionProblem("--class-weights has no effect here", hint=f"a loss of {', '.join(known)}")
        with np.errstate(over="ignore"):
            narrow = np.array(self.weights, np.float32)
        if not (np.isfinite(narrow).all() and (narrow >= 0).all() and narrow.any()):
            facts = [("weights", ", ".join(f"{w:g}" for w in self.weights))]
            raise OptionProblem("--class-weights are not all numbers from 0 on, with one above", facts)

    @property
    def declared(self) -> Loss:
        """The loss that the operator declares."""
        assert self.operator is not None
        loss = self.operator.role(Loss)
        assert loss is not None, f"{self.operator.name} is not a loss"
        return loss

    @property
    def target(self) -> tuple[str, ...]:
        """The name of the target, if there is one."""
        return () if self.operator is None else (self.declared.target,)


@dataclass(frozen=True)
class AttachedLoss:
    """The loss in a training graph: its value, the nodes that are added for it, their target, and their constants."""

    output: str
    nodes: tuple[Node, ...] = ()
    targets: Mapping[str, TensorType] = field(default_factory=dict)
    constants: Mapping[str, Array] = field(default_factory=dict)


def loss_choices() -> tuple[str, ...]:
    """The names of losses on the command line."""
    return (*losses(), OWN_LOSS)


def attach(choice: OutputChoice, model: Forward, state: Resolved, names: GraphNames, warn: Warn) -> AttachedLoss:
    """The loss behind the model; adds its types to `state`, and warns of an operator that the loss applies again."""
    output = state.types[model.output]
    operator = choice.operator
    if operator is None:
        if output.dtype != "float32" or output.size != 1:
            facts = [("output", str(output)), ("needs", "one float")]
            raise ShapeMismatch(
                f"output {model.output!r} is not a loss",
                facts,
                f"a loss of {', '.join(losses())}, or a mean in the model",
            )
        return AttachedLoss(model.output)
    loss = choice.declared
    target = loss.target_type(output) if output.dtype == "float32" else None
    if target is None:
        raise ShapeMismatch(
            f"output {model.output!r} does not fit {operator.name}",
            [("output", str(output)), ("needs", loss.needs)],
            f"another loss ({', '.join(losses())}), or the scores as the model's output",
        )
    _warn_of_twice(model, loss, warn)
    outputs, constants = tuple(map(names.fresh, loss.outputs)), dict[str, Array]()
    inputs = [model.output, loss.target]
    if choice.weights and loss.weights is not None:
        assert loss.class_axis is not None
        classes = output.shape[loss.class_axis]
        if len(choice.weights) != classes:
            counts = [("weights", str(len(choice.weights))), ("classes", f"{classes}, of output {model.output!r}")]
            raise OptionProblem("--class-weights needs one weight per class", counts, "one for each class")
        inputs += [""] * (loss.weights + 1 - len(inputs))
        inputs[loss.weights] = names.fresh(WEIGHTS)
        constants[inputs[loss.weights]] = np.array(choice.weights, np.float32)
    attrs = {**loss.attrs, **choice.attributes}
    node = Node(names.fresh(operator.name), operator.name, tuple(inputs), outputs, attrs)
    state.types.update({n: TensorType("float32", a.shape) for n, a in constants.items()} | {loss.target: target})
    state.constants.update(constants)
    types = operator.infer(node, [state.types[n] if n else None for n in inputs])
    state.types.update(dict(zip(outputs, types, strict=True)))
    return AttachedLoss(outputs[0], (node,), {loss.target: target}, constants)


def _warn_of_twice(model: Forward, loss: Loss, warn: Warn) -> None:
    """Warn where the model ends with an operator that the loss applies itself, views behind it or not."""
    makers = {output: node for node in model.raw.nodes for output in node.outputs}
    node = makers.get(model.output)
    while node is not None and operator_of(node).view:
        node = makers.get(node.inputs[0])
    if node is not None and operator_of(node).name in loss.contains:
        cause = f"node {node.name!r} ({node.op}) is the model's last, and loss {loss.choice!r} applies it again"
        facts = [("output", model.output), ("scores", node.inputs[0])]
        behind = "model's output" if node.outputs[0] == model.output else f"input of what reads {node.outputs[0]!r}"
        warn(DeployerWarning(cause, facts, f"remove the node, so that {node.inputs[0]!r} is the {behind}"))


def check_added_names(choice: OutputChoice, added: Sequence[str], names: GraphNames, inputs: Sequence[str]) -> None:
    """Reserve the names that the training graph adds; GraphProblem where the model has one of them."""
    for name in (*added, *choice.target):
        if name in names.reserved:
            raise GraphProblem(
                f"the model already has a value {name!r}, which the training graph adds",
                [("inputs", ", ".join(inputs))],
                "rename it in the model",
            )
    names.reserved |= {*added, *choice.target}


def class_counts(nodes: Sequence[Node], types: Mapping[str, TensorType]) -> dict[str, int]:
    """For each value that a loss takes for class numbers, how many classes there are."""
    counts = {}
    for node, loss in _losses(nodes):
        if loss.class_axis is not None:
            counts[node.inputs[1]] = types[node.inputs[0]].shape[loss.class_axis]
    return counts


def target_bounds(nodes: Sequence[Node]) -> dict[str, Bounds]:
    """For each value that a loss takes from a range, that range."""
    return {node.inputs[i]: limits for node, _ in _losses(nodes) for i, limits in numerics_of(node).bounded.items()}


def _losses(nodes: Sequence[Node]) -> Iterator[tuple[Node, Loss]]:
    for node in nodes:
        if (loss := operator_of(node).role(Loss)) is not None:
            yield node, loss


def first_gradient(nodes: Sequence[Node], output: str, kind: TensorType) -> Array | None:
    """Return the gradient of the loss: ones, or None for a scalar loss operator, which takes absence for one."""
    computes = next((loss for node, loss in _losses(nodes) if output == node.outputs[0]), None)
    return None if computes and math.prod(kind.shape) == 1 else np.ones(kind.shape, np.float32)
