"""Samples of the operators of this folder: uses for tests, and calls on which kernels are measured."""

from collections.abc import Iterator
from itertools import product

from deployer.core.ir import Node
from deployer.core.operator import file_of, registry, rng
from deployer.core.samples import Sample, inherited_samples, samples_of
from deployer.operators.base.elementwise import Binary, binary_samples
from deployer.operators.base.elementwise_dsl import DY, BroadcastElementwise, Chained, ElementwiseFormula, Pointwise, Y
from deployer.operators.base.operands import normal


@samples_of(Binary)
def class_binary_samples(op: Binary) -> Iterator[Sample]:
    """The shapes of `binary_samples` with normal values."""
    yield from binary_samples(11)


@samples_of(Pointwise)
def pointwise_samples(op: Pointwise) -> Iterator[Sample]:
    """A vector and a matrix for all attributes; of a backward pass those of the forward."""
    if op.declared_by:
        yield from _of_backward(op)
        return
    known = bool(file_of(op).versions)
    for label, attrs in op.sample_attributes():
        r = rng(sum(op.name.encode()) + len(label))
        for name, shape in (("vector", (37,)), ("matrix", (5, 7))):
            values = tuple(op.drawn(r, x, shape) for x in op.operands)
            yield Sample(f"{name}{label}", values, attrs, len(op.formulas()), onnx=known)


@samples_of(BroadcastElementwise)
def spread_samples(op: BroadcastElementwise) -> Iterator[Sample]:
    """Every group of shapes for all attributes; of a backward pass those of the forward."""
    if op.declared_by:
        yield from _of_backward(op)
        return
    for (label, attrs), (name, shapes) in product(op.sample_attributes(), op.shapes.items()):
        r = rng(sum((op.name + name).encode()) + len(label))
        drawn = [op.drawn(r, x, shape) for x, shape in zip(op.operands, shapes, strict=False)]
        yield Sample(f"{name}{label}", tuple(drawn), attrs, onnx=bool(file_of(op).versions))


def _of_backward(rule: ElementwiseFormula) -> Iterator[Sample]:
    """Samples of an operator of a backward pass: those of the forward one, with its result and a gradient of it."""
    forward = registry()[rule.declared_by]
    assert isinstance(forward, ElementwiseFormula)
    taken = [sample for sample in forward.samples() if len(sample.inputs) == len(forward.operands)]
    for number, sample in enumerate(taken):
        node = Node(sample.label, forward.name, (), (), sample.attrs)
        (y,) = forward.reference(node, sample.inputs)
        values = dict(zip((x.name for x in forward.operands), sample.inputs, strict=False))
        values |= {Y.name: y, DY.name: normal(rng(number), *y.shape)}
        attrs = {name: value for name, value in sample.attrs.items() if name in rule.defaults}
        yield Sample(sample.label, tuple(values[x.name] for x in rule.operands), attrs, onnx=False)


@samples_of(Chained)
def chained_samples(op: Chained) -> Iterator[Sample]:
    """Two operands, equal ones among them, one, and four."""
    yield from inherited_samples(op, Chained)
    if op.declared_by:
        return
    r = rng(sum(op.name.encode()))
    a = normal(r, 5, 7)
    yield Sample("one", (a,))
    yield Sample("four", (normal(r, 5, 1), a, normal(r), normal(r, 1, 7)))
