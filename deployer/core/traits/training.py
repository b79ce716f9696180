"""The part of an operator in training: loss, optimizer, accumulator, counter, or layer."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.signatures import Signature

FLOAT32_MAX = float(np.finfo(np.float32).max)


Fresh = Callable[[str], str]
"""Returns a name that no value has, beginning with the given one."""


@dataclass(frozen=True)
class Hyperparameter:
    """Hyper-parameter of a loss or an optimizer: the command-line option `name`, an attribute of the node.

    The attribute has the option's name unless another is given; where it is absent it is `default`, if that is not
    None. It lies between `least` and `most`, which `ends` includes by a square bracket and leaves out by a round one;
    a `switch` is 0 or 1, and a `whole` one an integer.
    """

    name: str
    text: str
    default: float | None
    attribute: str = ""
    least: float = 0.0
    most: float = math.inf
    ends: str = "[)"
    switch: bool = False
    whole: bool = False

    @property
    def place(self) -> str:
        """The attribute."""
        return self.attribute or self.name.replace("-", "_")

    @property
    def integer(self) -> bool:
        """Whether the attribute is stored as an integer."""
        return self.switch or self.whole

    @property
    def kind(self) -> str:
        """The attribute's kind, as a form has it."""
        return "INT" if self.integer else "FLOAT"

    @property
    def range(self) -> str:
        """Valid range of the number, as text."""
        if self.switch:
            return "0 or 1"
        if self.whole:
            return f"[{self.least:.0f}, {self.most:.0f}{')' if math.isinf(self.most) else ']'}"
        return f"{self.ends[0]}{self.least:g}, {self.most:g}{self.ends[1]}"

    def fits(self, value: float) -> bool:
        """Whether the value has the parameter's type and lies in its range."""
        if self.switch:
            return value in (0, 1)
        if self.whole:
            return isinstance(value, int) and self.least <= value <= self.most
        number = float(np.float32(value)) if abs(value) <= FLOAT32_MAX else math.nan
        above = number >= self.least if self.ends[0] == "[" else number > self.least
        below = number <= self.most if self.ends[1] == "]" else number < self.most
        return above and below and (number != 0 or value == 0)

    def of(self, node: Node) -> float:
        """The node's number; one from a file is a float32, a captured step has the module's own."""
        if self.integer:
            return node.attr_int(self.place, int(self.default or 0))
        return node.attr_float(self.place, float(np.float32(self.default or 0.0)))


@dataclass(frozen=True)
class Recomputed:
    """Input that no kernel computes, such as the indices of a MaxPool: `output` of operator `op`.

    The operator that declares this finds it again, from that node's input at `source` and by its attributes.
    """

    op: str
    output: int
    source: int


@dataclass(frozen=True)
class Fans:
    """Fan-in (`inputs`) and fan-out (`outputs`) of a weight, as `torch.nn.init` defines them."""

    inputs: int
    outputs: int


@dataclass(frozen=True)
class Tracked:
    """A node that reads its running state, and the node behind it that updates the state in place."""

    node: Node
    update: Node


@dataclass(frozen=True, kw_only=True)
class Training:
    """Trait: the operator's part in training. Default: none. A Loss, Optimizer, Accumulator or Counter is one as well.

    `learned` are the roles of inputs, by position, that a layer learns or keeps and that are no weights of its
    products. `fans` returns, for a node and types, fan-in and fan-out of each input that may be a weight, by position.
    `training_form` returns the node with the outputs that its gradient reads, under names from a source of fresh ones.
    `recomputed` says what inputs stand for that no kernel computes.

    In training an operator may draw random numbers: `passes` is the position of the input with the number of the pass.
    `draws` returns whether a node does, given the constants of its graph; its attributes `seed` and `stream` say which
    numbers. `drawless` returns the node that draws nothing.

    A layer may differ in training and in inference. `evaluated` returns the node of a model in use, where others renew
    the given values, and by outputs that it lacks what stands for them. `is_in_use` says whether a node has the form of
    use, where there is another for training: what it keeps stands still. `tracked` returns a node in the form that its
    gradient reads, in two parts, where it keeps something from pass to pass. `renewing` returns those parts of a node
    of ONNX Runtime's training graphs, which renews inputs in place; it takes a source of fresh names as well.

    The gradient of a mean divides by the elements of the batch. `sample_mean` is the attribute with the number of
    samples of which each has a mean of its own, so that it divides by the elements of one.
    """

    learned: Mapping[int, str] = field(default_factory=dict)
    fans: Callable[[Node, Mapping[str, TensorType]], Mapping[int, Fans]] = lambda node, types: {}
    training_form: Callable[[Node, Fresh], Node] = lambda node, fresh: node
    recomputed: Mapping[int, Recomputed] = field(default_factory=dict)

    passes: int | None = None
    draws: Callable[[Node, Mapping[str, npt.NDArray[Any]]], bool] = lambda node, constants: False
    drawless: Callable[[Node], Node] = lambda node: node

    evaluated: Callable[[Node, Collection[str]], tuple[Node, dict[str, str]]] = lambda node, renewed: (node, {})
    is_in_use: Callable[[Node], bool] = lambda node: False
    tracked: Callable[[Node, Mapping[str, TensorType]], Tracked | None] = lambda node, types: None
    renewing: Callable[[Node, Fresh], Tracked | None] = lambda node, fresh: None

    sample_mean: str = ""


NO_TRAINING = Training()
"""The part in training of an operator that declares none."""


@dataclass(frozen=True)
class Loss(Training):
    """A loss for training graphs; its inputs are the model's output and the target with which it is compared.

    `choice` is its name on the command line, `target` the name of its second input. `target_type` maps the type of the
    output to that of the target, or to None if the output does not fit; `needs` then says which does. Integer targets
    are class numbers along `class_axis` of the output. A new node gets `outputs`, the loss first, and `attrs`; its
    `settings` are options of the command line. Class weights may be the input at `weights`. `contains` are operators
    that the loss applies itself, so that an output of one is applied twice. `function` of torch.nn.functional, by
    default the choice with or without `_loss`, means the same with `arguments`. Of a loss over truths from 0 to 1 an
    element above `decision` is taken for 1. `spoken` are other names that people write in Python.
    """

    choice: str
    target: str
    target_type: Callable[[TensorType], TensorType | None]
    needs: str
    class_axis: int | None = None
    outputs: tuple[str, ...] = ("loss",)
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    weights: int | None = None
    contains: tuple[str, ...] = ()
    settings: tuple[Hyperparameter, ...] = ()
    function: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)
    decision: float | None = None
    spoken: tuple[str, ...] = ()


@dataclass(frozen=True)
class State:
    """An operand of the weight's type that an optimizer keeps from update to update.

    The name of its tensor is the weight's with `suffix`; every element is `initial` before the first update. PyTorch's
    optimizer of the same formula has it under the name `elsewhere`.
    """

    suffix: str
    initial: float = 0.0
    elsewhere: str = ""


@dataclass(frozen=True)
class Sequences:
    """File operator that updates all weights at once: a node over sequences, with one element per weight.

    It is `name` in MICROSOFT's domain, of that form. `places` leads from its inputs to those of the node of one weight,
    `rate` is the position of the learning rate, and attributes are the same.
    """

    name: str
    signature: Signature
    places: Mapping[int, int]
    rate: int = 0


@dataclass(frozen=True)
class Optimizer(Training):
    """An operator that updates a weight in place from its gradient.

    `choice` is its name on the command line; the `usual` one is the default. `weight` and `gradient` are positions of
    inputs, and the keys of `states` are the positions of its states. `count` is the position of the number of updates,
    this one included, which all weights share. `rate` is the attribute with the learning rate, which may also come from
    an input if the operator's `static_inputs` say so; where a node has none, it is `default_rate`. `rated` are the
    scalars of the kernel that depend on the rate, by default the one of its name. `sequences` is the form over all
    weights that files may have.
    `settings` are further options of the command line. Several operators may be one choice with different settings, so
    that a state is kept only where it is needed: the one with the fewest that has all that are given is taken.
    """

    choice: str
    rate: str
    weight: int = 0
    gradient: int = 1
    states: Mapping[int, State] = field(default_factory=dict)
    usual: bool = False
    count: int | None = None
    sequences: Sequences | None = None
    settings: tuple[Hyperparameter, ...] = ()
    default_rate: float = 0.01
    rated: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """By default the rate is the only scalar that depends on it."""
        if not self.rated:
            object.__setattr__(self, "rated", (self.rate,))

    def clash(self, other: "Optimizer") -> str:
        """Describe a conflicting declaration of two optimizers; empty if they do not conflict."""
        names, others = ({setting.name for setting in o.settings} for o in (self, other))
        if self.choice == other.choice and names == others:
            return f"optimizer {self.choice!r}"
        if self.usual and other.usual and self.choice != other.choice:
            return "the usual optimizer"
        same = self.sequences and other.sequences and self.sequences.name == other.sequences.name
        return f"the form over sequences of optimizer {self.choice!r}" if same else ""


@dataclass(frozen=True)
class Counter(Training):
    """Operator that increments an integer in place: counts the updates, starting at `state`."""

    state: State
    operand: int = 0


@dataclass(frozen=True)
class Keeper(Training):
    """Operator that writes into an operand in place, which a program keeps from pass to pass, beginning at `state`."""

    state: State
    operand: int = 0


@dataclass(frozen=True)
class Accumulator(Training):
    """An operator that sums gradients over passes: positions of its buffer, the gradient, and the reset flag.

    A graph that has one is a training graph. The `usual` one stands in the training graphs that this compiler makes.
    A node whose attribute `continues` is 1 adds to the buffer in any pass.
    """

    buffer: int = 0
    gradient: int = 1
    flag: int = 2
    usual: bool = False
    continues: str = ""
