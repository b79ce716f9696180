"""Gradients of means over a batch: each sample has a mean of its own, and one factor for all samples of an update.

The mean of N samples divides by their elements, which rounds in another way for each N that is no power of two. With
the divisor of a single sample, and the factor 1 / samples of the update, the gradient of a sample has the same bits
however the samples are split into passes. Where labels may be ignored the divisor is that of a single label, and the
factor 1 / labels of the update that count: it is the same however many ignored ones fill a sample up.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from onnx import TensorProto

from deployer.core.access import Access, Whole
from deployer.core.ir import LOSS_SHARE, AttrValue, Graph, GraphNames, Node, Program, Tensor, TensorType
from deployer.core.operator import Operator, execution_of, numerics_of, operator_of, training_of
from deployer.core.traits.execution import with_carry
from deployer.core.traits.numerics import Indices
from deployer.operators.elementwise.activation import Clip
from deployer.operators.elementwise.arithmetic import Div, Mul, Sub
from deployer.operators.elementwise.pointwise import Abs, Round
from deployer.operators.movement.casting import Cast
from deployer.operators.reduction.reduction import ReduceSum
from deployer.planning.canonical.sample_places import SamplePlaces, refused

COUNTS = "a loss without class weights"
HINT = "a batch that is a power of two, or a loss by name"


def with_own_means(program: Program, places: SamplePlaces) -> Program:
    """The program in which each gradient of a mean over the samples has the divisor of one sample.

    Where the number of samples is a power of two, and all labels count, the program has these bits already.
    """
    count, (train, *others) = places.count, program.graphs
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    means = [node for node in train.nodes if _is_mean(node, places)]
    by_two = count & (count - 1) == 0
    counted = {node.name for node in means if _counts(node, operator_of(node).access(node, types))}
    if by_two and not counted:
        return program
    edit = _Edit(program, dict(program.tensors), GraphNames(set(program.tensors) | {n.name for n in program.nodes}))
    changed = dict[str, list[Node]]()
    for node in means:
        if not by_two or node.name in counted:
            changed |= edit.scaled(node, count, node.name in counted)
    users = [node for node in train.nodes if LOSS_SHARE in node.inputs and node.name not in changed]
    if not by_two and (not means or users):
        raise refused(users[0] if users else train.nodes[-1], f"its mean over {count} samples is no loss by name", HINT)
    nodes = (*edit.nodes, *(n for node in train.nodes for n in changed.get(node.name, [node])))
    return replace(program, tensors=edit.tensors, graphs=(Graph(train.name, nodes), *others))


def _counts(node: Node, access: Access) -> bool:
    """Whether the node's divisor depends on all labels of the pass."""
    divisors = numerics_of(node).divisors
    return any(o.arg in divisors and Whole() in o.axes for o in access.operands)


def _is_mean(node: Node, places: SamplePlaces) -> bool:
    """Whether the node is the gradient of a mean over the samples."""
    attribute = training_of(node).sample_mean
    own = places.count == 1 or places.outer(node.outputs[0]) > 0
    return bool(attribute) and own and node.attr_str("reduction", "mean") == "mean"


@dataclass
class _Edit:
    """A program that is edited: its tensors so far, and the nodes in front of all others."""

    program: Program
    tensors: dict[str, Tensor]
    names: GraphNames
    nodes: list[Node] = field(default_factory=list)

    def first(self, operator: type[Operator], *inputs: str, **attrs: AttrValue) -> str:
        """The result of a new node in front of all others."""
        result, node = self.made(operator, *inputs, **attrs)
        self.nodes.append(node)
        return result

    def made(self, operator: type[Operator], *inputs: str, **attrs: AttrValue) -> tuple[str, Node]:
        """The result of a new node, and the node."""
        result = self.names.fresh("own_means")
        node = Node(self.names.fresh(f"{result}/{operator.name}"), operator.name, inputs, (result,), dict(attrs))
        (kind,) = operator_of(node).infer(node, [self.tensors[name].type for name in inputs])
        types = {name: tensor.type for name, tensor in self.tensors.items()} | {result: kind}
        sums = execution_of(operator_of(node)).sums
        node, carried = with_carry(sums, node, lambda: operator_of(node).access(node, types))
        self.tensors |= {name: Tensor(name, kind, "value", name) for name, kind in {result: kind, **carried}.items()}
        return result, node

    def factor(self, node: Node, count: int, is_counted: bool) -> str:
        """1 / samples of the update, or 1 / labels of the update that count, rounded once.

        The share of a pass is its part of the update's samples or labels, so their quotient rounds to the number of
        the update. A clip between equal bounds is a constant: plans have no constants besides those of the files.
        """
        shared = LOSS_SHARE in self.program.data
        if is_counted:
            amount = self.labels_that_count(node)
        else:
            amount = self.first(Clip, LOSS_SHARE, min=float(count), max=float(count))
        total = self.first(Round, self.first(Div, amount, LOSS_SHARE)) if shared else amount
        total = self.first(Clip, total, min=1.0)
        return self.first(Div, self.first(Clip, total, min=1.0, max=1.0), total)

    def labels(self, node: Node) -> TensorType:
        """The type of the labels of a gradient."""
        found = self._indices(node)
        return self.program.tensors[found.input].type

    def _indices(self, node: Node) -> Indices:
        types = {name: tensor.type for name, tensor in self.program.tensors.items()}
        found = numerics_of(node).indices(node, types)
        if found is None or found.ignored is None:
            raise refused(node, "it divides by the weights of the labels of a pass", COUNTS)
        return found

    def labels_that_count(self, node: Node) -> str:
        """The number of labels of the pass that are not ignored: the distance of those is at least 1."""
        found = self._indices(node)
        ignored = float(np.float32(found.ignored or 0))
        numbers = self.first(Cast, found.input, to=TensorProto.FLOAT)
        apart = self.first(Sub, numbers, self.first(Clip, numbers, min=ignored, max=ignored))
        ones, kind = self.first(Clip, self.first(Abs, apart), min=0.0, max=1.0), self.labels(node)
        return self.first(ReduceSum, ones, axes=tuple(range(len(kind.shape))), keepdims=0) if kind.size > 1 else ones

    def scaled(self, node: Node, count: int, is_counted: bool) -> dict[str, list[Node]]:
        """By names of nodes what takes their place: the gradient with own means, multiplied by the factor."""
        parts = self.labels(node).size if is_counted else count
        own = replace(node, attrs={**node.attrs, training_of(node).sample_mean: parts})
        types = {name: tensor.type for name, tensor in self.program.tensors.items()}
        if _counts(own, operator_of(own).access(own, types)):
            raise refused(node, "it divides by the weights of the labels of a pass", COUNTS)
        (output,) = node.outputs
        if LOSS_SHARE not in self.program.data:
            return self._scaled_alone(node, own, count, is_counted)
        factor = self.factor(node, count, is_counted)
        if LOSS_SHARE in node.inputs:
            return {node.name: [replace(own, inputs=tuple(factor if n == LOSS_SHARE else n for n in node.inputs))]}
        readers = [n for n in self.program.graphs[0].nodes if output in n.inputs]
        if len(readers) != 1 or readers[0].op != Mul.name or LOSS_SHARE not in readers[0].inputs:
            raise refused(node, f"its mean over {count} samples is multiplied by more than its share", HINT)
        (reader,) = readers
        inputs = tuple(factor if n == LOSS_SHARE else n for n in reader.inputs)
        return {node.name: [own], reader.name: [replace(reader, inputs=inputs)]}

    def _scaled_alone(self, node: Node, own: Node, count: int, is_counted: bool) -> dict[str, list[Node]]:
        """The gradient of a pass that is the whole update."""
        (output,) = node.outputs
        plain = self.names.fresh(f"{output}/own_means")
        self.tensors[plain] = replace(self.tensors[output], name=plain, storage=plain)
        if is_counted:
            factor, nodes = self.factor(node, count, is_counted), list[Node]()
        else:
            share = float(np.float32(1 / count))
            factor, clip = self.made(Clip, plain, min=share, max=share)
            nodes = [clip]
        scaling = Node(self.names.fresh(f"{node.name}/own_means"), Mul.name, (plain, factor), (output,))
        return {node.name: [replace(own, outputs=(plain,)), *nodes, scaling]}
