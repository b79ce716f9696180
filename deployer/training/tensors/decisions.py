"""Default choice of a forward model's trained tensors: parameters of layers, without helper constants of exporters.

The user decides about the rest.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.ir import (
    BIAS,
    CONSTANT,
    FROZEN,
    GAIN,
    SLOPE,
    START,
    STATE,
    STATISTIC,
    TABLE,
    TRAINED,
    WEIGHT,
    TensorRecord,
)
from deployer.core.operator import Array, training_of
from deployer.core.safe_text import one_line
from deployer.operators.elementwise import broadcast_grad as sums
from deployer.training.forward import Forward
from deployer.training.tensors.origins import BUFFER, LEARNED, NUMBER, Origins, is_invented, mentions, traced
from deployer.training.tensors.uses import FREE, SETTING, Use, is_uniform, summary, uses_of

OPEN = "undecided"
"""The role of a tensor about which somebody has to decide."""
OF_LAYERS = (WEIGHT, BIAS, GAIN, SLOPE, TABLE)
MASKED = -1e4
"""Largest number that a mask adds to a score to exclude it."""
UNIT = 1e-3
"""So far may the squares of a sine and a cosine be from 1."""


@dataclass(frozen=True)
class Decision:
    """Role of a tensor, and the reason; `values` sums up its numbers, `readers` are nodes in which it meets data."""

    name: str
    shape: tuple[int, ...]
    fate: str
    why: str
    values: str = ""
    readers: tuple[str, ...] = ()


UNREAD = "read by no node"
BESIDE_8_BITS = "a bias beside weights of 8 bits, which are frozen"
OWN_PART = "the exporter's own"
MASK, SINES, BUFFERED = "mask", "table of sines and cosines", "buffer of the module"


class Decider:
    """Decides the roles of a model's tensors from their readers, the exporter's metadata, and their numbers."""

    NEVER = (MASK, SINES, BUFFERED)
    """Why a tensor is trained only where somebody asks for it by name."""

    def __init__(self, model: Forward) -> None:
        self.model, self.origins = model, model.origins
        self.uses: dict[str, list[Use]] = uses_of(model)
        self.arrays: dict[str, Array] = {name: model.raw.constants[name].array for name in model.initializers}
        self.read = {name for node in model.read.whole for name in node.inputs}
        self.pairs = _sines(self.arrays, self.uses)

    def decisions(self) -> list[Decision]:
        """A decision about each tensor, in file order."""
        unread = [Decision(name, shape, FROZEN, UNREAD) for name, shape in self.model.unused.items()]
        return [*(self.decision(name) for name in self.model.initializers), *unread]

    def decision(self, name: str) -> Decision:
        """The decision about one tensor."""
        fate, why = self._fate(name)
        readers = tuple(dict.fromkeys(str(use) for use in self.uses[name]))
        return Decision(name, self.model.raw.constants[name].shape, fate, why, summary(self.arrays[name]), readers)

    def roles(self, name: str) -> set[str]:
        """Purpose of a tensor where it is read."""
        return {use.role for use in self.uses[name]}

    def _fate(self, name: str) -> tuple[str, str]:
        uses, array = self.uses[name], self.arrays[name]
        roles = self.roles(name)
        if name not in self.read and not self.is_literal(name):
            return FROZEN, UNREAD
        if not uses:
            return CONSTANT, "no value of the model's inputs meets it"
        if STATISTIC in roles:
            return STATE, "running statistic"
        if roles <= {SETTING}:
            return CONSTANT, "setting of a node"
        if self._said(name, BUFFER):
            return CONSTANT, BUFFERED
        if self._said(name, NUMBER):
            return CONSTANT, "number of the module's program"
        learned = sorted(roles.intersection(OF_LAYERS), key=OF_LAYERS.index)
        if roles == {BIAS} and all(map(self._is_beside_8_bits, uses)):
            return FROZEN, BESIDE_8_BITS
        if learned and not self._is_own(name, learned):
            return self._of_layer(name, learned[0])
        if self.names_parameter(name):
            return TRAINED, "parameter of the module"
        if learned:
            return CONSTANT, OWN_PART
        return self._free(name, roles, array)

    def _is_beside_8_bits(self, use: Use) -> bool:
        """Whether the weight of a layer was made of numbers of 8 bits, which nothing trains."""
        packed = self.model.packed.intersection(use.at.inputs)
        return any(len(self.model.raw.constants[name].shape) > 1 for name in packed)

    def _of_layer(self, name: str, role: str) -> tuple[str, str]:
        """The decision where a layer reads a tensor as its weight, bias, gain, slope or table."""
        uses = [use for use in self.uses[name] if use.role in OF_LAYERS]
        if self.names_parameter(name) or LEARNED.fullmatch(name):
            return TRAINED, f"{role} of {uses[0].at.op}"
        if not any(use.moved for use in uses):
            return OPEN, f"a weight of {uses[0].at.op} is computed from it"
        array = self.arrays[name]
        if role == TABLE and name in self.pairs:
            return CONSTANT, SINES
        if role == WEIGHT and (_is_pattern(array) or (uses[0].at.op == sums.PRODUCT and _axes(array) > 2)):
            return OPEN, f"factor in {uses[0].at.op} that need not be a weight"
        return TRAINED, f"{role} of {uses[0].at.op}"

    def _is_own(self, name: str, roles: Sequence[str]) -> bool:
        """Whether a tensor is ones or zeros that an exporter put into a norm which has no gain or no bias."""
        array = self.arrays[name]
        norms = [use for use in self.uses[name] if use.role in (GAIN, BIAS) and GAIN in _learned(use)]
        if len(norms) < len(self.uses[name]) or not norms or not is_uniform(array):
            return False
        usual = float(array.flat[0]) == (1.0 if GAIN in roles else 0.0)
        return usual and self.is_anonymous(name) and not any(self.unclaimed(use) for use in norms if _alone(use))

    def _free(self, name: str, roles: set[str], array: Array) -> tuple[str, str]:
        """The decision where no layer reads a tensor."""
        if START in roles and is_uniform(array) and not array.flat[0]:
            return STATE, "initial state of zeros"
        if _is_mask(array):
            return CONSTANT, MASK
        if name in self.pairs:
            return CONSTANT, SINES
        if array.size == 1 and (self.is_anonymous(name) or not self.origins.by_pytorch):
            return CONSTANT, "one number"
        if self.is_literal(name) and self.origins.by_pytorch:
            return CONSTANT, "constant of the program"
        if LEARNED.fullmatch(name) and not self.is_anonymous(name):
            return TRAINED, "parameter by its name"
        if self._is_exporters(name):
            return CONSTANT, OWN_PART
        return OPEN, "an initial state" if START in roles else f"read by {self.uses[name][0].at.op}, no part of a layer"

    def is_literal(self, name: str) -> bool:
        """Whether a tensor is the output of a Constant node."""
        return name in self.model.literals

    def names_parameter(self, name: str) -> bool:
        """Whether the traced call of a node says that a tensor is a parameter of the module."""
        return traced(name) in self.origins.parameters

    def _said(self, name: str, prefix: str) -> bool:
        """Whether the call of each node that reads a tensor says that it is none of the module's parameters."""
        origins = [self.origins.of(use.node) for use in self.uses[name]]
        return bool(origins) and all(mentions(origin, name, prefix) for origin in origins)

    def tells(self, name: str) -> bool:
        """Whether the exporter is one that says which parameters the readers of a tensor read, or that they share it:
        what it merged has tensors of its own.
        """
        by_path = all(use.node.startswith("/") for use in self.uses[name])
        return self.origins.by_pytorch and (bool(self.origins.parameters) or by_path)

    def is_anonymous(self, name: str) -> bool:
        """Whether a name is none that the module, or whoever wrote the file, has for a tensor."""
        if self.names_parameter(name):
            return False
        if self.origins.parameters:
            return not any(mentions(o, name, p) for o in self.origins.nodes.values() for p in (BUFFER, NUMBER))
        return is_invented(name) or self.is_literal(name)

    def unclaimed(self, use: Use) -> frozenset[str]:
        """The parameters that the call of a node read, and that no tensor of the file has the name of."""
        return left_over(self.origins, use.node, self.model.initializers)

    def _is_exporters(self, name: str) -> bool:
        """Whether the calls of the nodes that read a tensor read nothing but values that the file computes."""
        values = {*self.model.inputs, *(o for node in self.model.read.whole for o in node.outputs)}
        for use in self.uses[name]:
            read = self.origins.of(use.node).read
            if not read or name in read or not all(argument in values for argument in read):
                return False
        return self.is_anonymous(name)


def left_over(origins: Origins, node: str, names: Sequence[str]) -> frozenset[str]:
    """The parameters that the traced call of a node read, but for those that tensors have the names of."""
    return frozenset(origins.of(node).parameters) - {traced(name) for name in names}


def _learned(use: Use) -> set[str]:
    return set(training_of(use.at).learned.values())


def _alone(use: Use) -> bool:
    """Whether the norm's own operator has gain and bias of each channel, so that ones in it may be the module's."""
    return use.at.op != sums.UNIT_NORM


def _axes(array: Array) -> int:
    return sum(length != 1 for length in array.shape)


def _is_mask(array: Array) -> bool:
    """Whether numbers say of each place whether it counts: 0 and 1, or 0 and a number below all scores."""
    if array.size < 2:
        return bool(array.size) and bool(array.flat[0] <= MASKED)
    low = array <= MASKED
    if low.any():
        return bool((low | (array == 0)).all())
    return bool(((array == 0) | (array == 1)).all()) and not is_uniform(array)


def _is_pattern(array: Array) -> bool:
    """Whether a matrix is of zeros and ones, both of them, as those that add up or reorder are."""
    return array.size > 1 and not is_uniform(array) and bool(((array == 0) | (np.abs(array) == 1)).all())


def _sines(arrays: Mapping[str, Array], uses: Mapping[str, Sequence[Use]]) -> set[str]:
    """The tensors that are sines and cosines of the same angles: factors of which the squares add up to 1."""
    found: set[str] = set()
    tables = [name for name, array in arrays.items() if array.size > 1 and _is_table(name, array, uses[name])]
    for index, one in enumerate(tables):
        for other in tables[index + 1 :]:
            a, b = arrays[one].reshape(-1), arrays[other].reshape(-1)
            if a.size == b.size and bool((np.abs(a * a + b * b - 1) <= UNIT).all()):
                found |= {one, other}
    return found


def _is_table(name: str, array: Array, uses: Sequence[Use]) -> bool:
    factors = bool(uses) and all(use.role in (FREE, TABLE) for use in uses)
    return factors and bool((np.abs(array) <= 1 + UNIT).all()) and not is_uniform(array)


def pattern_of(names: Sequence[str]) -> str:
    """A regular expression that finds these names and no others."""
    return "^(" + "|".join(map(re.escape, names)) + ")$"


LABELS = {TRAINED: "trained", FROZEN: "frozen", CONSTANT: "constants", STATE: "states"}
"""Heading before the names of tensors in a text for a person."""


LINKED = re.compile(r"one with |parameter (?!of the module|by its name)")


def told(tensors: Sequence[TensorRecord]) -> list[str]:
    """A line for each role with the names of its tensors, and why where it is not plain."""
    lines = []
    for role, label in LABELS.items():
        own = [tensor for tensor in tensors if tensor.role == role]
        names = [one_line(f"{t.name} ({t.why})" if LINKED.match(t.why) else t.name) for t in own]
        lines.append(f"{label}: {', '.join(names) or 'none'}")
    return lines


def records(decisions: Sequence[Decision]) -> tuple[TensorRecord, ...]:
    """The decisions for a report."""
    return tuple(TensorRecord(d.name, d.shape, d.fate, d.why) for d in decisions)
