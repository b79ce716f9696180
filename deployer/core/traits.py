"""Traits of operators: loss, optimizer, accumulator, sum, decision boundaries. No other code names an operator."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from deployer.core.access import Access
from deployer.core.ir import DTYPES, AttrValue, Node, TensorType
from deployer.core.signatures import Signature

ACTIVATION = "activation"
"""The attribute of a node that names the operator its kernel applies to the result; only fusion sets it."""
FLOAT32_MAX = float(np.finfo(np.float32).max)
MOST_NUMBERS = 1 << 12
"""The most numbers that a program reads at an update."""


@dataclass(frozen=True)
class UpdateNumber:
    """Float kernel argument that the program reads at each update, by its index among the update's numbers."""

    place: int


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
        """Whether the attribute is an integer."""
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
        """Whether the number is one, and in the range."""
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
class Loss:
    """A loss for training graphs; its inputs are the model's output and the target with which it is compared.

    `choice` is its name on the command line, `target` the name of its second input. `target_type` maps the type of the
    output to that of the target, or to None if the output does not fit; `needs` then says which does. Integer targets
    are class numbers along `class_axis` of the output. A new node gets `outputs`, the loss first, and `attrs`; its
    `settings` are options of the command line. Class weights may be the input at `weights`. `contains` are operators
    that the loss applies itself, so that an output of one is applied twice. `function` of torch.nn.functional, by
    default the choice with or without `_loss`, means the same with `arguments`.
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


@dataclass(frozen=True)
class State:
    """An operand of the weight's type that an optimizer keeps from update to update.

    The name of its tensor is the weight's with `suffix`; every element is `initial` before the first update.
    """

    suffix: str
    initial: float = 0.0


@dataclass(frozen=True)
class Sequences:
    """File operator that updates all weights at once: a node over sequences, with one element per weight.

    It is `name` in MICROSOFT's domain, of that form. `places` leads from its inputs to those of the node of one weight,
    `rate` is the position of the learning rate, and attributes are the same.
    """

    name: str
    form: Signature
    places: Mapping[int, int]
    rate: int = 0


@dataclass(frozen=True)
class Optimizer:
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
class Counter:
    """Operator that increments an integer in place: counts the updates, starting at `state`."""

    state: State
    operand: int = 0


@dataclass(frozen=True)
class Accumulator:
    """An operator that sums gradients over passes: positions of its buffer, the gradient, and the reset flag.

    A graph that has one is a training graph. The `usual` one stands in the training graphs that this compiler makes.
    """

    buffer: int = 0
    gradient: int = 1
    flag: int = 2
    usual: bool = False


CARRIED = "carry"
"""The kernel pointer behind which a sum of several blocks keeps what waits between tiles."""

BLOCK, GROUP, CARRIED_FLOATS = 32, 16, 3
"""Elements of a block, blocks of a group, and floats that a sum carries from tile to tile; see `Sums`."""

SHORT = 64
"""The most elements of a sum that is one block, and carries nothing."""


@dataclass(frozen=True)
class Sums:
    """The order in which a kernel sums along `dims`, the innermost last; `sum_f32.h` does it.

    Each row, the innermost dim, is cut into blocks of BLOCK elements, which are summed ascending from zero. The blocks
    of a group of GROUP are added in order, and groups and rows to a total of two floats that loses nothing. A sum of at
    most SHORT elements is one block. `together` sums are made at once per element of a result. A kernel whose tiles cut
    a term, as the loss over labels by classes, adds each term to the total. What is carried comes behind `results`.
    """

    dims: tuple[str, ...]
    together: int = 1
    results: int = 0

    @property
    def carried(self) -> int:
        """Floats that wait between tiles beside the result, per element of it: CARRIED_FLOATS for each sum."""
        return CARRIED_FLOATS * self.together

    def blocks(self, access: Access) -> bool:
        """Whether the sum is several blocks."""
        return math.prod(d.size for d in access.dims if d.name in self.dims and d.kind == "reduction") > SHORT


def with_carry(sums: Sums | None, node: Node, access: Callable[[], Access]) -> tuple[Node, dict[str, TensorType]]:
    """The node as its kernel runs: a sum of several blocks has one output more, whose type comes with it."""
    if sums is None or not sums.blocks(plain := access()):
        return node, {}
    view, name = next(o.view for o in plain.operands if o.writes), f"{node.name}/carry"
    outputs = (*node.outputs, *[""] * (sums.results - len(node.outputs)), name)
    return replace(node, outputs=outputs), {name: TensorType("float32", (*view, sums.carried))}


@dataclass(frozen=True)
class Recomputed:
    """Input that no kernel computes, such as the indices of a MaxPool: `output` of operator `op`.

    The operator that declares this finds it again, from that node's input at `source` and by its attributes.
    """

    op: str
    output: int
    source: int


@dataclass(frozen=True)
class Centre:
    """Positions of a mean, its inverse deviation, and the rest: the part of the mean that its rounding lost.

    A float32 mean is off by its rounding, so (X - mean) inv_std is off by the same number all over: the rest is to be
    added. The places are those of outputs where the operator `makes` them, which it does always, else those of inputs:
    one that reads a mean and its deviation from a node that makes them is given the rest as well.
    """

    mean: int
    inv_std: int
    rest: int
    makes: bool = False


@dataclass(frozen=True)
class Epilogue:
    """Epilogue: how another operator's kernel applies this operator to its own complete result.

    A kernel with the scalar argument `scalar` does so where that is 1, since the node's ACTIVATION names the operator.
    A kernel with the pointer argument `pointer` does so where that points to this operator's input `operand`.
    """

    scalar: str = ""
    pointer: str = ""
    operand: int = 0


@dataclass(frozen=True)
class EpilogueBias:
    """An optional input, by its position, that a kernel adds to its complete result, which is rounded once more.

    The attribute `factor` is what it is multiplied by, 1 by default.
    """

    position: int
    factor: str


@dataclass(frozen=True, eq=False)
class DecisionBoundaries:
    """Decision boundaries: elements of an input that select a branch by their side: gate, clip, win a window.

    `elements` are flat indices, `margins` the distances to the boundary, `flipped` the nearest values beyond it.
    A boundary that is another element has its index in `competitors`; without these it is a constant.
    """

    operand: int
    elements: npt.NDArray[Any]
    margins: npt.NDArray[Any]
    flipped: npt.NDArray[Any]
    competitors: npt.NDArray[Any] | None = None


class Discontinuities:
    """Trait: declares an operator's decision boundaries, where its result jumps. Default: none."""

    def decision_boundaries(
        self, node: Node, inputs: Sequence[npt.NDArray[Any] | None]
    ) -> tuple[DecisionBoundaries, ...]:
        """Return the decision boundaries of input elements, where the function jumps; empty if it is continuous.

        An operator of a backward pass that decides by the same element as one of the forward pass has none itself.
        """
        return ()


@dataclass(frozen=True)
class Indices:
    """An integer input whose numbers choose among `count`, from `least` on; `ignored` is allowed too, unless None.

    `word` is what a number is called, `among` what it chooses from, `hint` a way out where it is outside.
    """

    input: str
    count: int
    least: int = 0
    ignored: int | None = None
    word: str = "label"
    among: str = "classes"
    hint: str = "renumber the labels, or set ignore_index"
    sizes: tuple[int, ...] = ()  # rows for each number along the last axis; `count` is that of the largest


class Fusible:
    """Trait: declares the operators that a kernel can fuse, and how another kernel fuses this operator.

    `epilogue` says how another kernel applies this operator, `epilogue_operands` maps a kernel pointer to the position
    of an input for such an epilogue alone; `epilogue_bias` is an input that the kernel adds to its result, `is_sum`
    says that the operator adds two inputs and does no more. `epilogue_scale` is the attribute, 1 by default, that the
    kernel multiplies its result by when that is complete, before anything is added: the product is rounded by itself.
    """

    epilogue: ClassVar[Epilogue | None] = None
    epilogue_operands: ClassVar[Mapping[str, int]] = {}
    epilogue_bias: ClassVar[EpilogueBias | None] = None
    is_sum: ClassVar[bool] = False
    epilogue_scale: ClassVar[str] = ""
    orders: ClassVar[Mapping[int, str]] = {}
    result_order: ClassVar[str] = ""

    def permutation(self, node: Node, rank: int) -> tuple[int, ...] | None:
        """The axes of the node's input in the order of its output; None where it does something else, or more."""
        return None

    def multiple(self, numbers: Mapping[int, float]) -> tuple[int, float] | None:
        """The input of which it is a multiple, rounded once, and the factor; `numbers` are constants by position."""
        return None


class OperandSpec:
    """Trait: declares properties of an operator's inputs and outputs. Default: none.

    `counts_outputs` says that its absent outputs count as well, the last ones too; `composite` that its lowered nodes,
    all of which files may hold, stand in its place from the reading on, so that gradients are theirs; `bounded` between
    which numbers the elements of an input lie; `optional_outputs` which kernel pointers are null where the node lacks
    an output: each with the output's position; `moved` are kernel pointers to elements that are moved as words of four
    bytes, and never computed with, so that they may be integers as well; `centre` where it has a mean that is two
    floats.
    """

    counts_outputs: ClassVar[bool] = False
    bounded: ClassVar[Mapping[int, tuple[float, float]]] = {}
    optional_outputs: ClassVar[Mapping[str, int]] = {}
    composite: ClassVar[bool] = False
    centre: ClassVar[Centre | None] = None
    moved: ClassVar[tuple[str, ...]] = ()

    def takes(self, arg: str, declared: str, dtype: str) -> bool:
        """Whether elements of that dtype may lie behind a kernel pointer of the declared one."""
        return dtype == declared or (arg in self.moved and DTYPES[dtype] == DTYPES[declared])

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices | None:
        """The input that chooses by number; None without such an input."""
        return None

    def counted(self, node: Node, inputs: Sequence[npt.NDArray[Any] | None]) -> float | None:
        """Return the divisor of the mean loss that the node computes if it depends on labels; default: None.

        `inputs` are the operands that are data or constants, in any shape.
        """
        return None

    def is_static(self, position: int, value: npt.NDArray[Any] | None) -> bool:
        """Whether that one of its static inputs becomes an attribute, given its content: None if that is not constant.

        One that becomes an attribute and has no content is an error.
        """
        return True


@dataclass(frozen=True)
class Fans:
    """Fan-in (`inputs`) and fan-out (`outputs`) of a weight, as `torch.nn.init` defines them."""

    inputs: int
    outputs: int


class FanInOut:
    """Trait of operators that add up products: declares the inputs that may be weights. Default: none."""

    def fans(self, node: Node, types: Mapping[str, TensorType]) -> Mapping[int, Fans]:
        """Return the fan-in and fan-out of each input that may be a weight, by input position."""
        return {}
