"""ScatterElements: X with elements of U at the rows along an axis that numbers name."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access
from deployer.core.declarations import Indices
from deployer.core.errors import NotDifferentiable
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Sample, mismatch, register, rng, unsupported
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.lines import axis_of, lines
from deployer.operators.lookup.elements import REDUCTIONS, Scattering, check_elements_ids, check_floats, grid, put
from deployer.operators.lookup.table import row_indices
from deployer.operators.reduction.reduction import expand_to


@register
class ScatterElements(Scattering):
    """What becomes of an element that gets another is `reduction`; several do so in the indices' order.

    Numbers count from the end where they are negative; one that is no row changes nothing.
    """

    name = "ScatterElements"
    versions = (11, 13, 16, 18)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x, ids, updates = operands(node, inputs, 3)
        axis = axis_of(node, x.shape, 0, inputs)
        check_elements_ids(node, x, ids, axis, inputs)
        check_reduction(node)
        if updates != TensorType(x.dtype, ids.shape):
            raise mismatch(node, "the updates do not have X's element type and the indices' shape", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Elements put in one by one."""
        x, ids, updates = arrays(inputs, 3)
        axis, y = axis_of(node, x.shape, 0), x.copy()
        where, present = grid(ids, x.shape[axis], axis)
        put(y, tuple(place[present] for place in where), updates[present], node.attr_str("reduction", "none"))
        return (y,)

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices:
        """The second input, of rows along the axis."""
        shape = types[node.inputs[0]].shape
        return row_indices(node.inputs[1], shape[axis_of(node, shape, 0)])

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dU is dY at those elements; dX is dY, without those elements where they are replaced."""
        reduction = node.attr_str("reduction", "none")
        if reduction not in ("none", "add"):
            raise NotDifferentiable(f"node {node.name!r} ({self.name}) has no gradient: its reduction is {reduction!r}")
        axis, ids = axis_of(node, b.type(node.inputs[0]).shape, 0), node.inputs[1]
        if b.needs_grad(2):
            b.emit("GatherElements", (douts[0], ids), (b.grad(2),), axis=axis)
        if b.needs_grad(0) and reduction == "add":
            b.emit("Identity", douts[:1], (b.grad(0),))
        elif b.needs_grad(0):
            zeros = b.temp("zeros")
            expand_to(b, b.constant("zero", np.array(0, np.float32)), b.type(ids).shape, zeros)
            b.emit("ScatterElements", (douts[0], ids, zeros), (b.grad(0),), axis=axis)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Each tile of indices changes rows of its tile of Y."""
        x, ids, updates = node.inputs
        check_floats(node, types[x])
        axis = axis_of(node, types[x].shape, 0)
        o, r, i = lines(types[x].shape, axis)
        count = types[ids].shape[axis]
        check_lines(node, types[x], types[ids])
        return self.scatter({"x": x, "ids": ids, "u": updates, "y": node.outputs[0]}, (o, r, i, count))

    def samples(self) -> Iterator[Sample]:
        """Each axis and reduction; numbers that repeat where terms are added."""
        r = rng(154)
        forms: dict[str, tuple[tuple[int, ...], int, int]] = {
            "rows": ((6, 6), 0, 4),
            "middle": ((3, 5, 4), 1, 3),
            "last": ((2, 3, 7), -1, 5),
        }
        for label, (shape, axis, count) in forms.items():
            yield _sample(r, label, shape, axis, count)
        for reduction in REDUCTIONS[1:]:
            yield _sample(r, reduction, (4, 7), 1, 5, reduction)


def check_reduction(node: Node) -> None:
    """UnsupportedOperator where the reduction is none of those there are."""
    reduction = node.attr_str("reduction", "none")
    if reduction not in REDUCTIONS:
        raise unsupported(node, f"its reduction is {reduction!r}", f"one of {', '.join(REDUCTIONS)}")


def _sample(
    r: np.random.Generator, label: str, shape: tuple[int, ...], axis: int, count: int, reduction: str = ""
) -> Sample:
    """Numbers that differ in each line, or any where a reduction says what to do with equal ones."""
    at = axis % len(shape)
    size = (*shape[:at], count, *shape[at + 1 :])
    order = np.argsort(normal(r, *shape), at).take(np.arange(count), at)
    numbers = r.integers(-shape[at], shape[at], size) if reduction else order - shape[at] * (normal(r, *size) < 0)
    attrs: dict[str, AttrValue] = {"axis": axis, **({"reduction": reduction} if reduction else {})}
    return Sample(label, (normal(r, *shape), np.asarray(numbers, np.int32), normal(r, *size)), attrs)


def check_lines(node: Node, x: TensorType, ids: TensorType) -> None:
    """UnsupportedOperator unless there are indices for all lines of X along the axis."""
    axis = axis_of(node, x.shape, 0)
    (o, _, i), (outer, _, inner) = lines(x.shape, axis), lines(ids.shape, axis)
    if (o, i) != (outer, inner):
        raise unsupported(node, "its indices leave out the ends of other axes", "indices for all lines of X")
