"""What operators declare of themselves, so that nothing else needs their names: losses, optimizers, accumulators."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from deployer.core.ir import AttrValue, TensorType

ACTIVATION = "activation"
"""The attribute of a node that names the operator its kernel applies to the result; only fusion sets it."""


@dataclass(frozen=True)
class Loss:
    """An operator with which training graphs are made; its inputs are the model's output and what it is compared with.

    `choice` is its name on the command line, `target` that of the second input, whose type `target_type` gives, or None
    for an output that does not fit, where `needs` says which does. An integer target numbers the classes along
    `class_axis` of the output. A node that is made has `outputs`, the loss first, and `attrs`.
    """

    choice: str
    target: str
    target_type: Callable[[TensorType], TensorType | None]
    needs: str
    class_axis: int | None = None
    outputs: tuple[str, ...] = ("loss",)
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """An operand that an optimizer keeps from update to update, of the weight's type.

    Its tensor is the weight's name with `suffix`; every element is `initial` before the first update.
    """

    suffix: str
    initial: float = 0.0


@dataclass(frozen=True)
class Optimizer:
    """An operator that updates a weight in place from its gradient.

    `choice` is its name on the command line; one is `usual`, where nobody chooses. `weight` and `gradient` are
    positions of inputs, `states` those of what it keeps. `rate` is the attribute with the learning rate, which may
    come from an input as well where the operator's `static_inputs` say so.
    """

    choice: str
    rate: str
    weight: int = 0
    gradient: int = 1
    states: Mapping[int, State] = field(default_factory=dict)
    usual: bool = False


@dataclass(frozen=True)
class Accumulator:
    """An operator that sums gradients over passes: positions of its buffer, the gradient, and the reset flag.

    It makes a graph a training graph. One is `written`, in the training graphs that are made here.
    """

    buffer: int = 0
    gradient: int = 1
    flag: int = 2
    usual: bool = False


@dataclass(frozen=True)
class Finish:
    """How a kernel applies an operator to its own result, when that is complete.

    Either a kernel with scalar `scalar`, then 1, does so where the node's ACTIVATION names the operator; or one with
    pointer `pointer` where the operator's input `operand` lies behind it.
    """

    scalar: str = ""
    pointer: str = ""
    operand: int = 0
