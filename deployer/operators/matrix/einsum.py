"""Einsum: sums of products over named axes, such as products of matrices in batches."""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.ir import WEIGHT, AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng, unsupported
from deployer.operators.inputs import floats, normal

Labelled = tuple[str, str]
"""The name of a value, and its axes, a letter each."""


@register
class Einsum(Operator):
    """Operands are multiplied pair by pair from the left: Transpose, Reshape and MatMul, over batches of matrices."""

    name = "Einsum"
    learned: ClassVar[dict[int, str]] = {0: WEIGHT, 1: WEIGHT}
    versions = (12, 28)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The lengths of the letters behind the arrow."""
        types = floats(node, inputs, max(len(node.inputs), 1))
        terms, result = _terms(node, types)
        sizes = _sizes(node, terms, types)
        return (TensorType("float32", tuple(sizes[letter] for letter in result)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's einsum."""
        present = [x for x in inputs if x is not None]
        return (np.asarray(np.einsum(node.attr_str("equation", "").replace(" ", ""), *present), present[0].dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Letters that only one operand has, and not the result, are summed first."""
        types = floats(node, inputs, len(node.inputs))
        terms, result = _terms(node, types)
        products = _Products(node.name, _sizes(node, terms, types), [])
        waiting: list[Labelled] = list(zip(node.inputs, terms, strict=True))
        while len(waiting) > 1:
            left, right, *rest = waiting
            waiting = [products.product(left, right, result + "".join(term for _, term in rest)), *rest]
        products.ordered(products.summed(waiting[0], result), result, node.outputs[0])
        return products.nodes

    def samples(self) -> Iterator[Sample]:
        """Products of matrices and in batches, outer and inner ones, three operands, sums and permutations."""
        r = rng(125)
        sizes = {"i": 3, "j": 4, "k": 5, "b": 2, "h": 2, "q": 3, "d": 4}
        for label, equation in (
            ("matmul", "ij,jk->ik"),
            ("transposed", "ij,kj->ki"),
            ("attention", "bhqd,bhkd->bhqk"),
            ("heads", "bqhd,bkhd->bhqk"),
            ("outer", "i,j->ij"),
            ("dot", "i,i->"),
            ("batch_outer", "bi,bj->bij"),
            ("elementwise", "ij,ij->ij"),
            ("three", "ij,jk,kd->id"),
            ("implicit", "ij, jk"),
            ("sum", "ijk->j"),
            ("permuted", "ijk->kij"),
            ("summed", "ijk,jd->id"),
        ):
            terms = equation.partition("->")[0].replace(" ", "").split(",")
            inputs = tuple(normal(r, *(sizes[letter] for letter in term)) for term in terms)
            yield Sample(label, inputs, {"equation": equation})


def _terms(node: Node, types: Sequence[TensorType]) -> tuple[list[str], str]:
    """The letters of each operand and of the result; without an arrow those that occur once, in alphabetical order."""
    equation = node.attr_str("equation", "").replace(" ", "")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if not all(c.isascii() and c.isalpha() for c in left.replace(",", "") + result):
        raise unsupported(node, f"its equation is {equation!r}", "letters, commas and an arrow, without an ellipsis")
    if any(len(set(term)) < len(term) for term in (*terms, result)):
        raise unsupported(node, f"in {equation!r} a term has a letter twice", "a letter for each axis")
    if len(terms) != len(types) or any(len(t) != len(k.shape) for t, k in zip(terms, types, strict=True)):
        raise mismatch(node, f"{equation!r} is not one letter for each axis of each operand", types)
    joined = "".join(terms)
    result = result if arrow else "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    if not set(result) <= set(joined):
        raise mismatch(node, f"the result of {equation!r} has letters that no operand has", types)
    return terms, result


def _sizes(node: Node, terms: Sequence[str], types: Sequence[TensorType]) -> dict[str, int]:
    """The length of each letter."""
    sizes: dict[str, int] = {}
    for term, kind in zip(terms, types, strict=True):
        for letter, size in zip(term, kind.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise mismatch(node, f"axis {letter!r} is {sizes[letter]} long, and {size}", types)
    return sizes


class _Products:
    """Nodes under construction; a value in between has the name of its node."""

    def __init__(self, prefix: str, sizes: dict[str, int], nodes: list[Node]) -> None:
        self.prefix, self.sizes, self.nodes = prefix, sizes, nodes

    def emit(self, op: str, inputs: Sequence[str], attrs: dict[str, AttrValue], output: str = "") -> str:
        """Append a node; returns its output."""
        name = f"{self.prefix}/{op.lower()}{len(self.nodes)}"
        self.nodes.append(Node(name, op, tuple(inputs), (output or name,), attrs))
        return output or name

    def shape(self, *groups: str) -> tuple[int, ...]:
        """An axis for each group of letters."""
        return tuple(math.prod(self.sizes[letter] for letter in group) for group in groups)

    def summed(self, value: Labelled, kept: str) -> Labelled:
        """The value summed over the letters that are not kept."""
        name, letters = value
        axes = tuple(i for i, letter in enumerate(letters) if letter not in kept)
        if not axes:
            return value
        total = self.emit("ReduceSum", (name,), {"axes": axes, "keepdims": 0})
        return total, "".join(letter for letter in letters if letter in kept)

    def ordered(self, value: Labelled, letters: str, output: str = "") -> str:
        """The value with its axes in the order of the letters."""
        perm = tuple(value[1].index(letter) for letter in letters)
        if perm == tuple(range(len(perm))):
            return self.emit("Identity", value[:1], {}, output) if output else value[0]
        return self.emit("Transpose", value[:1], {"perm": perm}, output)

    def product(self, left: Labelled, right: Labelled, later: str) -> Labelled:
        """The product of both, summed over what comes not later."""
        left, right = self.summed(left, right[1] + later), self.summed(right, left[1] + later)
        a, b = left[1], right[1]
        batch = "".join(c for c in a if c in b and c in later)
        inner = "".join(c for c in a if c in b and c not in later)
        rows, columns = "".join(c for c in a if c not in b), "".join(c for c in b if c not in a)
        first, second = self.ordered(left, batch + rows + inner), self.ordered(right, batch + inner + columns)
        matrices = [
            self.emit("Reshape", (name,), {"shape": self.shape(*groups)})
            for name, groups in ((first, (batch, rows, inner)), (second, (batch, inner, columns)))
        ]
        result = self.emit("MatMul", matrices, {})
        letters = batch + rows + columns
        return self.emit("Reshape", (result,), {"shape": self.shape(*letters)}), letters
