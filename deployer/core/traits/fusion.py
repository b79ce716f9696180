"""Fusion: what the kernel of an operator can absorb, and how another kernel absorbs the operator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from deployer.core.ir import Graph, Node, Program, TensorType
from deployer.core.kernel_model import KernelModel

ACTIVATION = "activation"
"""The attribute of a node that names the operator its kernel applies to the result; only fusion sets it."""


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

    The attribute `factor` is what it is multiplied by, 1 by default and where there is no such attribute.
    """

    position: int
    factor: str = ""


@dataclass(frozen=True)
class Preparation:
    """Prologue of an operator: a transform of its first input, followed by what operator `op` computes.

    It multiplies it by the attribute `factor`, 1 by default, and adds the optional input at `epilogue_bias`; each is
    rounded.
    """

    op: str
    factor: str
    epilogue_bias: int


Joint = tuple[Node, Sequence[Node]]
"""A node that has the results of several, and the others of these besides the last."""


@dataclass(frozen=True)
class Region:
    """Nodes of a graph that others replace, each group of these in the place of one of the nodes.

    `types` are those of values that the new nodes have, by name. `viewed` maps a value that a removed node made to the
    view of it that a new node makes instead. The new nodes are `needed` where the others lack the order of sums that is
    asked for. `over` maps a result that a new node makes in place to the value in whose memory it does.
    """

    removed: tuple[Node, ...]
    added: Mapping[str, tuple[Node, ...]]
    types: Mapping[str, TensorType]
    viewed: Mapping[str, str] = field(default_factory=dict)
    needed: bool = False
    over: Mapping[str, str] = field(default_factory=dict)


def never(*_: object) -> None:
    """A rule that applies to no node."""


@dataclass(frozen=True, kw_only=True)
class Fusion:
    """Trait: the nodes that a kernel absorbs, and how another kernel absorbs the operator. Default: none.

    As a consumer: `epilogue` says how another kernel applies this operator to its result. `is_sum` says that the
    operator adds two inputs and does no more; `signs` that it adds its inputs times these, 1 or -1, and rounds once;
    `is_product` that it multiplies two; `is_move` that its results are elements of its inputs and zeros. `permutation`
    returns, for a node and the rank of its input, the axes of the input in the order of its output; `multiple` returns,
    for constants by position, the input of which the operator is a multiple, rounded once, and the factor. Both return
    None where the operator does something else, or more.

    As a producer: `epilogue_operands` maps a kernel pointer to the position of an input for an epilogue alone; `reused`
    maps it to an input that the kernel has already, and to the attribute that is 1 where it reads that for the
    epilogue. `epilogue_bias` is an input that the kernel adds to its result. `epilogue_scale` is the attribute, 1 by
    default, that it multiplies its complete result by before anything is added; the product is rounded by itself.
    `orders` are attributes with the order of axes of inputs, by position, and `result_orders` those of results.
    `prologue` says that the operator is another one with a product and a sum in front.

    `is_rotation` says that the operator has the operands and attributes of Rotation, and turns pairs of elements by
    angles: nodes that do so together become one of it.

    For several results: `multi_output_of` names the operator of the last of the nodes that one of this operator
    replaces. `joint` returns that node and the others for such a last node, the nodes `near` it, which read or write
    what it reads, the types, and the target's kernel model. The node has all their results as outputs, each in its
    place; those that nobody else reads are left out where the kernel can spare them.

    For steps side by side: `group_of` names the operator of nodes that one of this operator can stand for when no other
    rewrite wants them. `grouped` returns it and the others for such a node, those `near` it and the types. It takes
    their place unless the cost model counts more cycles for it.

    For regions: `region_of` names the operator of a node that lies in a region which nodes of this operator and others
    replace. `region` returns that for a program, one of its graphs, such a node in it, the bytes of the innermost
    level, the number of cores, and whether a sample's bits shall depend neither on its batch nor on its padding.

    For an update: `fused_update` names the optimizer's operator whose formula the kernel applies to each element of a
    gradient as soon as that is complete, in place of the weight; the gradient is rounded to float32 before, and has no
    memory. What makes it may be a product of samples, or one with a number that clips it. Scalars that depend on the
    learning rate have the names that they have in the optimizer's kernel. `updating` returns, for the
    producer of the gradient, the update and the types, the node that does both, but for its name and outputs.
    """

    epilogue: Epilogue | None = None
    is_sum: bool = False
    signs: tuple[int, ...] = ()
    is_product: bool = False
    is_move: bool = False
    permutation: Callable[[Node, int], tuple[int, ...] | None] = never
    multiple: Callable[[Mapping[int, float]], tuple[int, float] | None] = never

    epilogue_operands: Mapping[str, int] = field(default_factory=dict)
    reused: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    epilogue_bias: EpilogueBias | None = None
    epilogue_scale: str = ""
    orders: Mapping[int, str] = field(default_factory=dict)
    result_orders: Mapping[int, str] = field(default_factory=dict)
    prologue: Preparation | None = None

    is_rotation: bool = False

    multi_output_of: str = ""
    joint: Callable[[Node, Sequence[Node], Mapping[str, TensorType], KernelModel], Joint | None] = never

    group_of: str = ""
    grouped: Callable[[Node, Sequence[Node], Mapping[str, TensorType]], Joint | None] = never

    region_of: str = ""
    region: Callable[[Program, Graph, Node, int, int, bool], Region | None] = never

    fused_update: str = ""
    updating: Callable[[Node, Node, Mapping[str, TensorType]], Node | None] = never
