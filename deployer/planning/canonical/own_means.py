"""Gradients of means over a batch: each sample has a mean of its own, and one factor for all samples of an update.

The mean of N samples divides by their elements, which rounds in another way for each N that is no power of two. With
the divisor of a single sample, and the factor 1 / samples of the update, the gradient of a sample has the same bits
however the samples are split into passes.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from deployer.core.ir import LOSS_SHARE, Graph, GraphNames, Node, Program, Tensor
from deployer.core.operator import Operator, training_of
from deployer.operators.elementwise.activation import Clip
from deployer.operators.elementwise.arithmetic import Mul
from deployer.operators.elementwise.pointwise import Reciprocal, Round
from deployer.planning.canonical.sample_places import SamplePlaces, refused

HINT = "a batch that is a power of two, or a loss by name"


def with_own_means(program: Program, places: SamplePlaces) -> Program:
    """The program in which each gradient of a mean over the samples has the divisor of one sample.

    Where the number of samples is a power of two the program has these bits already.
    """
    count = places.count
    if count & (count - 1) == 0:
        return program
    train, *others = program.graphs
    means = [node for node in train.nodes if _is_mean(node, places)]
    edit = _Edit(program, dict(program.tensors), GraphNames(set(program.tensors) | {n.name for n in program.nodes}))
    factor = edit.factor(count) if LOSS_SHARE in program.data else ""
    changed = dict[str, list[Node]]()
    for node in means:
        changed |= edit.scaled(node, factor, count)
    users = [node for node in train.nodes if LOSS_SHARE in node.inputs and node.name not in changed]
    if not means or users:
        raise refused(users[0] if users else train.nodes[-1], f"its mean over {count} samples is no loss by name", HINT)
    nodes = (*edit.nodes, *(n for node in train.nodes for n in changed.get(node.name, [node])))
    return replace(program, tensors=edit.tensors, graphs=(Graph(train.name, nodes), *others))


def _is_mean(node: Node, places: SamplePlaces) -> bool:
    """Whether the node is the gradient of a mean over the samples."""
    attribute = training_of(node).sample_mean
    return bool(attribute) and places.outer(node.outputs[0]) > 0 and node.attr_str("reduction", "mean") == "mean"


@dataclass
class _Edit:
    """A program that is edited: its tensors so far, and the nodes in front of all others."""

    program: Program
    tensors: dict[str, Tensor]
    names: GraphNames
    nodes: list[Node] = field(default_factory=list)

    def made(self, operator: type[Operator], *inputs: str, **attrs: float) -> tuple[str, Node]:
        """The result of a new node, which is of the type of its first input, and the node."""
        result = self.names.fresh("own_means")
        self.tensors[result] = Tensor(result, self.tensors[inputs[0]].type, "value", result)
        name = self.names.fresh(f"{result}/{operator.name}")
        return result, Node(name, operator.name, inputs, (result,), dict(attrs))

    def factor(self, count: int) -> str:
        """1 / samples of the update, rounded once.

        The share of a pass is 1 / passes, and its reciprocal rounds to their number. A clip between equal bounds is
        a constant: plans have no constants besides those of the files.
        """

        def first(operator: type[Operator], *inputs: str, **attrs: float) -> str:
            result, node = self.made(operator, *inputs, **attrs)
            self.nodes.append(node)
            return result

        passes = first(Round, first(Reciprocal, LOSS_SHARE))
        samples = first(Mul, passes, first(Clip, LOSS_SHARE, min=float(count), max=float(count)))
        return first(Reciprocal, samples)

    def scaled(self, node: Node, factor: str, count: int) -> dict[str, list[Node]]:
        """By names of nodes what takes their place: the gradient with own means, multiplied by the factor.

        Without a factor there is no share, and a pass is the whole update.
        """
        own = replace(node, attrs={**node.attrs, training_of(node).sample_mean: count})
        if LOSS_SHARE in node.inputs:
            return {node.name: [replace(own, inputs=tuple(factor if n == LOSS_SHARE else n for n in node.inputs))]}
        (output,) = node.outputs
        if factor:
            readers = [n for n in self.program.graphs[0].nodes if output in n.inputs]
            if len(readers) != 1 or readers[0].op != Mul.name or LOSS_SHARE not in readers[0].inputs:
                raise refused(node, f"its mean over {count} samples is multiplied by more than its share", HINT)
            (reader,) = readers
            inputs = tuple(factor if n == LOSS_SHARE else n for n in reader.inputs)
            return {node.name: [own], reader.name: [replace(reader, inputs=inputs)]}
        plain = self.names.fresh(f"{output}/own_means")
        self.tensors[plain] = replace(self.tensors[output], name=plain, storage=plain)
        share = float(np.float32(1 / count))
        constant, clip = self.made(Clip, plain, min=share, max=share)
        scaling = Node(self.names.fresh(f"{node.name}/own_means"), Mul.name, (plain, constant), (output,))
        return {node.name: [replace(own, outputs=(plain,)), clip, scaling]}
