"""Uses of a forward model's float tensors: the nodes that combine them with input-dependent values, and the roles."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from deployer.core.errors import NotDifferentiable
from deployer.core.ir import BIAS, GAIN, WEIGHT, GraphNames, Node
from deployer.core.operator import Array, execution_of, file_of, operator_of, training_of
from deployer.frontend.resolve import Resolved
from deployer.operators.elementwise import broadcast_grad as sums
from deployer.training.autodiff import GradientRule, Tape, fixed_form
from deployer.training.forward import Forward

SETTING, FREE = "setting", "free"
"""Roles beside those of layers: an operand that is no factor or addend of values, and one of which nothing is known."""


@dataclass(frozen=True)
class Use:
    """Node that combines a tensor with an input-dependent value: the tensor's role and position there.

    `moved`: the tensor comes there as it is, but for the order and number of its elements. `node` is the first node
    that reads it, `at` the one where it meets the data.
    """

    node: str
    at: Node
    position: int
    role: str
    moved: bool = True

    def __str__(self) -> str:
        """The node and the operator."""
        return f"{self.at.name!r} ({self.at.op})"


def uses_of(model: Forward) -> dict[str, list[Use]]:
    """The uses of each of the model's float tensors; none where no input's value depends on it."""
    return _Search(model).run()


class _Search:
    """The way from tensors to uses, over the model's nodes in order."""

    def __init__(self, model: Forward) -> None:
        self.model, self.state = model, model.read
        self.changed = set(model.inputs)
        self.makers = {output: node for node in self.state.whole for output in node.outputs}
        self.origins: dict[str, dict[str, tuple[str, bool]]] = {name: {name: ("", True)} for name in model.initializers}

    def run(self) -> dict[str, list[Use]]:
        found: dict[str, list[Use]] = {name: [] for name in self.model.initializers}
        for node in self.state.whole:
            kept = {name for name in node.outputs if name in self.state.constants}
            drawing = training_of(node).passes is not None or not any(node.inputs)
            joined = drawing or not self.changed.isdisjoint(node.inputs)
            if joined:
                self.changed.update(name for name in node.outputs if name and name not in kept)
                if kept >= {name for name in node.outputs if name}:
                    continue
                roles = self._roles(node)
                for position, name in enumerate(node.inputs):
                    for tensor, (first, moved) in self.origins.get(name, {}).items():
                        use = Use(first or node.name, node, position, roles.get(position, FREE), moved)
                        found[tensor].append(use)
                continue
            read = [name for name in node.inputs if name in self.origins]
            moves = self._moves(node)
            for output in filter(None, node.outputs):
                self.origins[output] = {
                    tensor: (first or node.name, moved and moves)
                    for name in read
                    for tensor, (first, moved) in self.origins[name].items()
                }
        return found

    @staticmethod
    def _moves(node: Node) -> bool:
        operator = operator_of(node)
        return operator.view or bool(execution_of(operator).moved) or node.op in sums.PASSING

    def _roles(self, node: Node) -> dict[int, str]:
        """The role of each input of a node that reads what changes."""
        places = [i for i, name in enumerate(node.inputs) if name and name not in self.changed]
        if not any(self.origins.get(node.inputs[i]) for i in places):
            return {}
        operator, fans = operator_of(node), _fans(node, self.state)
        learned = training_of(node).learned
        fixed = fixed_form(self.state, node)
        differentiable = set(node.inputs) if operator.composite else gradient_places(fixed, self.state)
        roles = {}
        for position in places:
            name = node.inputs[position]
            if position in learned:
                roles[position] = learned[position]
            elif position in fans:
                roles[position] = WEIGHT
            elif position in file_of(operator).static_inputs or name not in differentiable:
                roles[position] = SETTING
            elif node.op in (*sums.SUMS, *sums.FACTORS) and len(node.inputs) == 2:
                roles[position] = self._beside(node, 1 - position, self.state.types[name].shape)
        return roles

    def _beside(self, node: Node, other: int, shape: tuple[int, ...]) -> str:
        """The role of a factor or addend of what a layer gave: a bias, or the gain of a norm."""
        maker, vector = self._maker(node.inputs[other]), sum(length != 1 for length in shape) <= 1
        if maker is None:
            return FREE
        if node.op in sums.FACTORS:
            return GAIN if self._normalizes(maker) else FREE
        if self._normalizes(maker) or (maker.op in sums.FACTORS and self._scales_norm(maker)):
            return BIAS
        layer = any(maker.inputs[i] not in self.changed for i in _fans(maker, self.state) if i < len(maker.inputs))
        lengths = self.state.types[maker.outputs[0]].shape
        size = int(np.prod(shape, dtype=np.int64))
        return BIAS if layer and vector and size in lengths[-1:] + lengths[1:2] else FREE

    def _scales_norm(self, product: Node) -> bool:
        """Whether a Mul has the values of a norm and a tensor as its factors."""
        for index, name in enumerate(product.inputs):
            maker = self._maker(product.inputs[1 - index])
            if name not in self.changed and name in self.origins and maker and self._normalizes(maker):
                return True
        return False

    def _normalizes(self, node: Node) -> bool:
        """Whether a node is a norm, or divides by the root of a mean, as decomposed ones do."""
        if GAIN in training_of(node).learned.values() or "Normalization" in operator_of(node).name:
            return True
        divides = node.op in sums.QUOTIENTS
        sides = node.inputs[1:2] if divides else node.inputs if node.op in sums.FACTORS else ()
        return any(name in self.changed and self._is_spread(name, divides) for name in sides)

    def _is_spread(self, name: str, divides: bool) -> bool:
        """Whether a value is the root of a mean of squares or, as a factor, the inverse of one."""
        maker = self._maker(name)
        if maker is None:
            return False
        if maker.op == sums.ROOT:
            return divides and self._has_mean(maker.inputs[0])
        if maker.op == sums.POWER:
            return self._has_mean(maker.inputs[0])
        if maker.op in sums.INVERSES:
            return not divides and self._is_spread(maker.inputs[-1], divides=True)
        return False

    def _has_mean(self, name: str) -> bool:
        """Whether a value is a mean, but for what was added to it."""
        maker = self._maker(name)
        if maker is not None and maker.op in sums.SUMS:
            return any(self._has_mean(i) for i in maker.inputs if i in self.changed)
        return maker is not None and maker.op.startswith(sums.MEANS)

    def _maker(self, name: str) -> Node | None:
        """The node that computed a value, before it was moved."""
        maker = self.makers.get(name)
        while maker is not None and self._moves(maker) and maker.inputs[0] in self.makers:
            maker = self.makers[maker.inputs[0]]
        return None if maker is None or self._moves(maker) else maker


def _fans(node: Node, state: Resolved) -> Mapping[int, object]:
    """The positions of inputs that may be weights of products."""
    fixed = fixed_form(state, node)
    return training_of(node).fans(fixed, state.types)


def gradient_places(node: Node, state: Resolved) -> set[str]:
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
            operator_of(node).gradient(node, douts, GradientRule(tape, node, {index: target}))
        except NotDifferentiable:
            names.add(name)
        if target in tape.state.types:
            names.add(name)
    return names


def is_uniform(array: Array) -> bool:
    """Whether all numbers of a tensor are the same one."""
    return bool(array.size) and bool((array == array.flat[0]).all())


def summary(array: Array) -> str:
    """The numbers of a tensor in short."""
    if not array.size:
        return "no numbers"
    if is_uniform(array):
        return f"all {array.flat[0]:g}"
    distinct = np.unique(array)
    if len(distinct) <= 3:
        return " and ".join(f"{number:g}" for number in distinct)
    return f"{distinct[0]:.3g} to {distinct[-1]:.3g}"
